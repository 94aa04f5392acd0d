// /v1/queues: pause, resume, list; and that the pauses are in force.
#include "src/core/base/hex.h"
#include "tests/integration/http/fixture.h"

namespace rung::test {
namespace {

class HttpQueues : public HttpTest {
 protected:
  json queue(const std::string& name) {
    const json all = get("/v1/queues").json();
    for (const json& one : all.at("queues")) {
      if (one.at("queue") == name) return one;
    }
    return nullptr;
  }
  bool says(const std::string& metric) {
    return get("/metrics").body.find("\n" + metric + "\n") != std::string::npos;
  }
};

TEST_F(HttpQueues, APausedQueueGetsNothingUntilItIsResumed) {
  up();
  const std::string name = new_name();
  amqp.declare(name);
  const HttpAnswer paused = post("/v1/queues/" + name + "/pause", {{"reason", "the shop is down"}});
  EXPECT_EQ(paused.status, 200) << paused.body;
  EXPECT_EQ(paused.json().at("state"), "paused");
  EXPECT_EQ(paused.json().at("until"), nullptr);
  EXPECT_EQ(paused.json().at("reason"), "the shop is down");
  EXPECT_EQ(paused.json().at("by"), "no token, 127.0.0.1 (http)");
  ASSERT_TRUE(rung().logged("queue paused"));
  EXPECT_TRUE(says("rung_queue_paused{queue=\"" + name + "\"} 1"));

  const std::string id = submit({{"queue", name}, {"delay", "100ms"}});
  expect_nothing(name);
  EXPECT_EQ(task(id).at("state"), "scheduled");
  EXPECT_EQ(task(id).at("attempt"), 0);
  const json shown = queue(name);
  EXPECT_EQ(shown.at("state"), "paused");
  EXPECT_EQ(shown.at("waiting"), 1);
  EXPECT_EQ(shown.at("next_due_at"), task(id).at("next_due_at"));
  EXPECT_EQ(shown.at("since"), paused.json().at("since"));
  json one = get("/v1/queues/" + name).json();
  EXPECT_EQ(one.at("config").at("ladder"), "default");
  one.erase("config");
  EXPECT_EQ(one, shown);
  EXPECT_EQ(get("/v1/queues/no-such").json().at("code"), "not_found");

  const HttpAnswer resumed = post("/v1/queues/" + name + "/resume");
  EXPECT_EQ(resumed.status, 200) << resumed.body;
  EXPECT_EQ(resumed.json().at("state"), "flowing");
  EXPECT_EQ(resumed.json().at("resumed_by"), "no token, 127.0.0.1 (http)");
  EXPECT_EQ(int_header(delivery(name).message, "retry-attempt"), 1);
  EXPECT_TRUE(eventually([&] { return !says("rung_queue_paused{queue=\"" + name + "\"} 1"); }));
  EXPECT_EQ(queue(name).at("state"), "flowing") << "its task is under way";
  const json quiet = get("/v1/queues/" + name).json();
  EXPECT_EQ(quiet.at("state"), "flowing") << "it has had a task";
  EXPECT_EQ(quiet.at("waiting"), 0);
  EXPECT_EQ(quiet.at("since"), nullptr);
  const HttpAnswer again = post("/v1/queues/" + name + "/resume");
  EXPECT_EQ(again.status, 200) << "there is nothing to do";
  EXPECT_EQ(again.json().at("ended"), json::array());
  EXPECT_EQ(again.json().at("state"), "flowing");
}

TEST_F(HttpQueues, AQuietQueueFlowsIfAnybodyKnowsIt) {
  config.queues = "  named: { ladder: default }\n";
  up();
  const json named = get("/v1/queues/named").json();
  EXPECT_EQ(named.at("queue"), "named");
  EXPECT_EQ(named.at("state"), "flowing");
  EXPECT_EQ(named.at("reason"), nullptr);
  EXPECT_EQ(named.at("next_due_at"), nullptr);
  db.exec(
      "INSERT INTO rung_attachments (queue, length, state, since, checked_at) VALUES ('attached', 8, "
      "'attached', "
      "UTC_TIMESTAMP(3), UTC_TIMESTAMP(3))");
  EXPECT_EQ(get("/v1/queues/attached").json().at("state"), "flowing");
  EXPECT_THAT(refused(get("/v1/queues/named%20"), 404), HasSubstr("the config does not name it"));
  EXPECT_THAT(refused(get("/v1/queues/%2A"), 404), HasSubstr("the config does not name it")) << "a pattern";
  EXPECT_EQ(queue("named"), nullptr) << "the list has only what waits or is held";
}

// ---- The pages of every list. What each condition finds: Query in
// tests/unit/http, StoreContract and FilterContract in tests/contract/store.

class HttpQuery : public HttpTest {};

// Every list, row by row.
TEST_F(HttpQuery, EachListHasPages) {
  config.ladder = "[200ms, 200ms, 1h]";
  up();
  const std::string queue = attached();
  fail(queue, Message{});
  std::string id;
  for (int attempt = 1; attempt <= 2; ++attempt) {
    const Received got = delivery(queue);
    id = retry_id(got);
    report(got, "failed", "no");
    ASSERT_TRUE(eventually([&] { return task(id).value("level", 0) == attempt + 1; }));
  }
  for (const char* to : {"a", "b", "c/d \xc3\xbc"}) submit({{"queue", to}, {"delay", "1h"}});
  for (int i = 1; i <= 3; ++i)
    ASSERT_EQ(post("/v1/tasks/" + id + "/reschedule", {{"delay", std::to_string(i) + "h"}}).status, 200);
  for (int i = 0; i < 3; ++i)
    ASSERT_EQ(post("/v1/bulks", {{"action", "cancel"}, {"filter", {{"tag", "none"}}}}).status, 202);
  ASSERT_TRUE(eventually([&] { return get("/v1/bulks/3").json().at("state") == "done"; }));

  const std::string task = "/v1/tasks/" + id;
  for (const auto& [path, name] :
       std::vector<std::pair<std::string, std::string>>{{"/v1/tasks?", "tasks"},
                                                        {"/v1/tasks?sort=oldest&", "tasks"},
                                                        {"/v1/tasks?sort=due&", "tasks"},
                                                        {task + "/history?", "attempts"},
                                                        {task + "/audit?", "audit"},
                                                        {"/v1/queues?", "queues"},
                                                        {"/v1/bulks?", "bulks"},
                                                        {"/v1/nodes?all=true&", "nodes"}}) {
    const json whole = get(path + "limit=1000").json();
    EXPECT_TRUE(whole.at("next").is_null()) << path;
    json rows = json::array();
    json cursor;
    for (std::size_t pages = 0; pages <= whole.at(name).size(); ++pages) {
      const json page = get(path + "limit=1" +
                            (cursor.is_null() ? "" : "&cursor=" + percent_encode(cursor.get<std::string>())))
                            .json();
      ASSERT_EQ(page.at(name).size(), 1U) << path;
      rows.push_back(page.at(name)[0]);
      cursor = page.at("next");
      if (cursor.is_null()) break;
    }
    // Those of nodes change by themselves.
    if (name != "nodes") {
      EXPECT_EQ(rows, whole.at(name)) << path;
    }
    EXPECT_EQ(rows.size(), whole.at(name).size()) << path;
    EXPECT_THAT(refused(get(path + "limit=0"), 400), HasSubstr("limit: must be an integer from 1 to 1000"));
    EXPECT_THAT(refused(get(path + "cursor="), 400), HasSubstr("cursor: must be the `next`"));
    EXPECT_THAT(refused(get(path + "offset=1"), 400), HasSubstr("offset: unknown"));
  }
}

}  // namespace
}  // namespace rung::test
