// /v1/audit: the changes by hand of all tasks and queues.
#include "tests/integration/http/fixture.h"

namespace rung::test {
namespace {

class HttpAudit : public HttpTest {
 protected:
  std::string delayed(const std::string& queue) {
    return submit({{"queue", queue}, {"delay", "1h"}, {"body", "x"}});
  }
  json page(const std::string& query) { return get("/v1/audit" + query).json(); }
  // Of each row.
  std::vector<std::string> all(const std::string& query, const char* member) {
    std::vector<std::string> out;
    const json found = page(query);
    for (const json& row : found.at("audit")) out.push_back(row.at(member));
    return out;
  }
};

using testing::ElementsAre;
using testing::IsEmpty;

TEST_F(HttpAudit, TheNewestFirstWithFiltersAndPages) {
  up();
  const std::string queue = new_name(), other = new_name();
  EXPECT_EQ(page(""), (json{{"audit", json::array()}, {"next_cursor", nullptr}}));
  const std::string mine = delayed(queue), theirs = delayed(other);
  ASSERT_EQ(post("/v1/tasks/" + mine + "/reschedule", {{"delay", "2h"}, {"reason", "not yet"}}).status, 200);
  ASSERT_EQ(post("/v1/queues/" + queue + "/pause", {{"reason", "the shop is down"}}).status, 200);
  ASSERT_EQ(post("/v1/tasks/" + theirs + "/cancel", json::object()).status, 200);

  EXPECT_THAT(all("", "what"), ElementsAre("cancel", "pause", "reschedule"));
  const json rows = page("").at("audit");
  EXPECT_EQ(rows[0].at("retry_id"), theirs);
  EXPECT_EQ(rows[0].at("queue"), other);
  EXPECT_EQ(rows[1].at("retry_id"), nullptr);
  EXPECT_EQ(rows[1].at("queue"), queue);
  EXPECT_EQ(rows[1].at("reason"), "the shop is down");
  // The same as the task's own.
  json of_task = get("/v1/tasks/" + mine + "/audit").json().at("changes")[0];
  of_task["queue"] = queue;
  EXPECT_EQ(rows[2], of_task);

  EXPECT_THAT(all("?queue=" + queue, "what"), ElementsAre("pause", "reschedule"));
  EXPECT_THAT(all("?action=cancel", "queue"), ElementsAre(other));
  EXPECT_THAT(all("?who=no%20token", "what").size(), 3U);
  EXPECT_THAT(all("?who=token", "what"), IsEmpty());
  EXPECT_THAT(all("?since=2199-01-01T00:00:00Z", "what"), IsEmpty());
  EXPECT_EQ(all("?until=2199-01-01T00:00:00Z", "what").size(), 3U);

  std::vector<std::string> seen;
  std::string cursor;
  for (int i = 0; i < 3; ++i) {
    const json one = page("?limit=1" + cursor);
    ASSERT_EQ(one.at("audit").size(), 1U);
    seen.push_back(one.at("audit")[0].at("what"));
    if (one.at("next_cursor").is_null()) break;
    cursor = "&cursor=" + one.at("next_cursor").get<std::string>();
  }
  EXPECT_THAT(seen, ElementsAre("cancel", "pause", "reschedule"));

  EXPECT_THAT(refused(get("/v1/audit?action=claim"), 400),
              HasSubstr("action: must be abort, cancel, discard, edit"));
  EXPECT_THAT(refused(get("/v1/audit?cursor=5"), 400), HasSubstr("cursor: must be the `next_cursor`"));
  EXPECT_THAT(refused(get("/v1/audit?since=today"), 400), HasSubstr("since: must be an RFC 3339 time"));
  EXPECT_THAT(refused(get("/v1/audit?task=1"), 400), HasSubstr("task"));
}

}  // namespace
}  // namespace rung::test
