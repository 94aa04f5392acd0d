// GET /v1/tasks, GET /v1/tasks/{id}, and the pages of every list. What each condition finds: Query in
// tests/unit/http, StoreContract and FilterContract in tests/contract/store.
#include "src/core/base/hex.h"
#include "tests/integration/http/fixture.h"

namespace rung::test {
namespace {

class HttpQuery : public HttpTest {
 protected:
  std::vector<std::string> ids(const std::string& query) {
    const HttpAnswer answer = get("/v1/tasks" + query);
    EXPECT_EQ(answer.status, 200) << answer.body;
    std::vector<std::string> out;
    if (answer.status == 200) {
      const json page = answer.json();
      for (const json& t : page.at("tasks")) out.push_back(t.at("retry_id"));
    }
    return out;
  }
};

using Ids = std::vector<std::string>;

TEST_F(HttpQuery, ByCorrelationIdHeaderAndSeveralStates) {
  config.more += "index_headers: [tenant]\n";
  up();
  const std::string a = submit({{"queue", "a"},
                                {"delay", "1h"},
                                {"headers", {{"tenant", "acme"}}},
                                {"properties", {{"correlation_id", "c-1"}}}});
  const std::string b = submit({{"queue", "a"}, {"delay", "1h"}, {"headers", {{"tenant", 7}}}});
  EXPECT_EQ(ids("?correlation_id=c-1"), Ids{a});
  EXPECT_EQ(task(a).at("correlation_id"), "c-1");
  EXPECT_EQ(ids("?header.tenant=acme"), Ids{a});
  EXPECT_EQ(ids("?header.tenant=7"), Ids{b});
  EXPECT_EQ(ids("?header.tenant=acme&correlation_id=c-2"), Ids{});
  EXPECT_EQ(post("/v1/tasks/" + a + "/discard", {{"reason", "refunded"}}).json().at("state"), "discarded");
  EXPECT_EQ(post("/v1/tasks/" + a + "/discard").status, 200) << "said twice";
  EXPECT_EQ(post("/v1/tasks/" + a + "/fire").status, 409);
  EXPECT_EQ(ids("?state=discarded,scheduled"), (Ids{b, a}));
  EXPECT_EQ(ids("?state=discarded,parked"), Ids{a});
  EXPECT_EQ(get("/v1/tasks?state=discarded,").status, 400);
  const HttpAnswer other = get("/v1/tasks?header.region=eu");
  EXPECT_EQ(other.status, 400);
  EXPECT_NE(other.body.find("index_headers"), std::string::npos);
}

TEST_F(HttpQuery, ATaskWithItsHistory) {
  config.ladder = "[200ms, 1h]";
  up();
  const std::string queue = attached();
  const std::string id = failed_twice(queue);
  // A consumer may be quicker than the broker's confirm, which then adds the time.
  const auto confirmed = [&] { return !task(id).at("history").at(0).at("published_at").is_null(); };
  ASSERT_TRUE(eventually(confirmed, kBound));
  const HttpAnswer answer = get("/v1/tasks/" + id);
  const json t = answer.json();
  EXPECT_EQ(answer.header("etag"), "\"" + t.at("version").dump() + "\"");
  EXPECT_EQ(t.at("kind"), "retry");
  EXPECT_EQ(t.at("last_error"), "refused by the bank");
  EXPECT_EQ(t.at("message_id"), "mine");
  ASSERT_EQ(t.at("history").size(), 1U);
  EXPECT_EQ(t.at("history")[0].at("outcome"), "failed");
  EXPECT_EQ(t.at("history")[0].at("error"), "refused by the bank");
  EXPECT_GE(t.at("history")[0].at("late_ms").get<int>(), 0);
  for (const auto* id_of_none : {"1", "0", "-5", "abc", "99999999999999999999", "5%2F6"})
    EXPECT_EQ(get("/v1/tasks/" + std::string(id_of_none)).status, 404) << id_of_none;
}

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
    ASSERT_TRUE(eventually([&] { return task(id).value("level", 0) == attempt + 1; }, kBound));
  }
  for (const char* to : {"a", "b", "c/d \xc3\xbc"}) submit({{"queue", to}, {"delay", "1h"}});
  for (int i = 1; i <= 3; ++i)
    ASSERT_EQ(post("/v1/tasks/" + id + "/reschedule", {{"delay", std::to_string(i) + "h"}}).status, 200);
  for (int i = 0; i < 3; ++i)
    ASSERT_EQ(post("/v1/bulks", {{"action", "cancel"}, {"filter", {{"tag", "none"}}}}).status, 202);
  ASSERT_TRUE(eventually([&] { return get("/v1/bulks/3").json().at("state") == "done"; }, kBound));

  const std::string task = "/v1/tasks/" + id;
  for (const auto& [path, name] :
       std::vector<std::pair<std::string, std::string>>{{"/v1/tasks?", "tasks"},
                                                        {"/v1/tasks?sort=oldest&", "tasks"},
                                                        {"/v1/tasks?sort=due&", "tasks"},
                                                        {task + "/history?", "attempts"},
                                                        {task + "/audit?", "changes"},
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
