// The command line and HTTP answer the same question with the same object.
#include "src/core/base/hex.h"
#include "tests/integration/http/fixture.h"

namespace rung::test {
namespace {

class HttpSame : public HttpTest {
 protected:
  json rung_json(const std::string& words) {
    const Ran ran = run_shell(rung_program() + " " + words + " --json -c " + rung().config_path());
    return json::parse(ran.out, nullptr, false);
  }
  // Both are asked until they agree: what they show may change in between.
  void expect_same(const std::string& path, const std::string& words) {
    json http, cli;
    EXPECT_TRUE(eventually(
        [&] {
          http = get(path).json();
          cli = rung_json(words);
          return http == cli;
        },
        kBound))
        << path << ": " << http.dump() << "\n"
        << words << ": " << cli.dump();
  }
};

TEST_F(HttpSame, EachObject) {
  config.ladder = "[200ms, 1h]";
  up();
  const std::string queue = attached();
  const std::string id = failed_twice(queue);
  for (int i = 0; i < 3; ++i) submit({{"queue", "other"}, {"delay", "1h"}, {"tag", "many"}});
  ASSERT_EQ(post("/v1/tasks/" + id + "/reschedule", {{"delay", "2h"}}).status, 200);
  ASSERT_EQ(post("/v1/queues/other/pause", {{"reason", "the shop is down"}}).status, 200);
  for (int i = 0; i < 2; ++i)
    ASSERT_EQ(post("/v1/bulks", {{"action", "cancel"}, {"filter", {{"tag", "none"}}}}).status, 202);
  ASSERT_TRUE(eventually([&] { return get("/v1/bulks/2").json().at("state") == "done"; }, kBound));

  expect_same("/v1/tasks", "list");
  expect_same("/v1/tasks?limit=2", "list --limit 2");
  expect_same("/v1/tasks?sort=oldest&limit=2&cursor=" + id, "list --sort oldest --limit 2 --cursor " + id);
  expect_same("/v1/tasks?sort=due&limit=1", "list --sort due --limit 1");
  expect_same("/v1/tasks?count=true", "list --count");
  expect_same("/v1/tasks?count=true&by=queue&state=scheduled", "list --count --by queue --state scheduled");
  expect_same("/v1/tasks/" + id + "/history", "history " + id);
  expect_same("/v1/tasks/" + id + "/audit", "audit " + id);
  expect_same("/v1/queues", "queues");
  expect_same("/v1/nodes", "nodes");
  expect_same("/v1/causes", "causes --all --limit 50");
  expect_same("/v1/bulks", "bulk list");
  expect_same("/v1/bulks?limit=1", "bulk list --limit 1");
  expect_same("/v1/bulks/1", "bulk show 1");
  EXPECT_EQ(
      post("/v1/bulks", {{"action", "cancel"}, {"filter", {{"tag", "many"}}}, {"dry_run", true}}).json(),
      rung_json("cancel --tag many --dry-run"));
  json by_http = post("/v1/queues/other/pause").json(), by_cli = rung_json("pause other");
  for (json* pause : {&by_http, &by_cli}) pause->erase("by");
  EXPECT_EQ(by_http, by_cli);

  // `rung show` has the message, too.
  const json shown = rung_json("show " + id), http = task(id);
  for (const auto& [name, value] : http.items()) EXPECT_EQ(shown.value(name, json("missing")), value) << name;
  EXPECT_EQ(get("/v1/tasks/" + id + "/origin").json().at("origin"), shown.at("origin"));
  const json message = get("/v1/tasks/" + id + "/message").json();
  for (const char* name : {"headers", "properties"}) EXPECT_EQ(message.at(name), shown.at(name)) << name;
  EXPECT_EQ(message.at("version"), shown.at("version"));
  const json stats = get("/v1/stats").json(), by_command = rung_json("stats");
  for (const char* name : {"by_queue", "totals", "overdue", "overdue_beyond_bound", "unowned"})
    EXPECT_EQ(stats.at(name), by_command.at(name)) << name;
  EXPECT_EQ(get("/v1/now").json().at("now").get<std::string>().size(), 24U);
  EXPECT_THAT(refused(get("/v1/stats?max_overdue=5"), 400), HasSubstr("max_overdue: the unit is missing"));
  const auto node_of = [](const json& answer) {
    json node = answer.at("nodes").at(0);
    for (const char* changes : {"seen_at", "expires_at"}) node.erase(changes);
    return node;
  };
  EXPECT_EQ(node_of(rung_json("stats")), node_of(get("/v1/nodes").json()));
}

// Every list, row by row.
TEST_F(HttpSame, EachListHasPages) {
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
