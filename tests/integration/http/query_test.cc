// The pages of every list. What each condition finds: Query in
// tests/unit/http, StoreContract and FilterContract in tests/contract/store.
#include "src/core/base/hex.h"
#include "tests/integration/http/fixture.h"

namespace rung::test {
namespace {

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
