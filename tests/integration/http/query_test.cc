// GET /v1/tasks, GET /v1/tasks/{id}.
#include <set>

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

TEST_F(HttpQuery, EachConditionAlone) {
  up();
  const std::string queue = new_name();
  amqp.declare(queue);
  const std::string a =
      submit({{"queue", "a"}, {"tag", "t"}, {"message_id", "m"}, {"at", "2030-01-01T00:00:00Z"}});
  const std::string b = submit({{"exchange", "x"}, {"routing_key", "k"}, {"at", "2031-01-01T00:00:00Z"}});
  const std::string c = submit({{"queue", queue}, {"delay", 0}});
  const Received got = delivery(queue);
  report(got, "failed", "boom 100%");
  ASSERT_TRUE(eventually([&] { return task(c).value("first_failed_at", json()) != json(); }));

  EXPECT_EQ(ids(""), (Ids{c, b, a}));
  EXPECT_EQ(ids("?queue=a"), Ids{a});
  EXPECT_EQ(ids("?exchange=x"), Ids{b});
  EXPECT_EQ(ids("?tag=t"), Ids{a});
  EXPECT_EQ(ids("?message_id=m"), Ids{a});
  EXPECT_EQ(ids("?error=100%25"), Ids{c});
  EXPECT_EQ(ids("?error=10%25%25"), Ids{});
  EXPECT_EQ(ids("?kind=retry"), Ids{});
  EXPECT_EQ(ids("?kind=delay&state=scheduled&queue=a"), Ids{a});
  EXPECT_EQ(ids("?state=parked"), Ids{});
  EXPECT_EQ(ids("?due_after=2030-06-01T00:00:00Z"), Ids{b});
  EXPECT_EQ(ids("?due_after=2029-06-01T00:00:00Z&due_before=2030-06-01T00:00:00%2B01:00"), Ids{a});
  EXPECT_EQ(ids("?due_before=2030-06-01T00:00:00+01:00&queue=a"), Ids{a}) << "a + that became a blank";
  EXPECT_EQ(ids("?created_after=2020-01-01T00:00:00Z"), (Ids{c, b, a}));
  EXPECT_EQ(ids("?created_before=2020-01-01T00:00:00Z"), Ids{});
  EXPECT_EQ(ids("?ladder=default"), (Ids{c, b, a}));
  const std::string odd = submit({{"queue", "q1?x&y"}, {"message_id", "a=b"}, {"delay", "1h"}});
  EXPECT_EQ(ids("?message_id=a=b"), Ids{odd});
  EXPECT_EQ(ids("?queue=q1?x%26y"), Ids{odd});
}

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

TEST_F(HttpQuery, ByErrorAndCounted) {
  up();
  submit({{"queue", "q"}, {"body", "x"}, {"delay", "1h"}});
  submit({{"queue", "q"}, {"body", "x"}, {"delay", "1h"}});
  submit({{"queue", "other"}, {"body", "x"}, {"delay", "1h"}});
  db.exec(
      "UPDATE rung_tasks SET last_error = 'HTTP 503', error_type = 'Down', first_failed_at = '2026-11-20' "
      "WHERE queue = 'q'");
  const auto found = [&](const std::string& query) {
    return get("/v1/tasks?" + query).json().at("tasks").size();
  };
  EXPECT_EQ(found("error=/http%205../i"), 2U);
  EXPECT_EQ(found("error=/http/"), 0U);
  EXPECT_EQ(found("error_type=Down"), 2U);
  EXPECT_EQ(found("first_failed_after=2026-11-19T00:00:00Z"), 2U);
  EXPECT_EQ(found("first_failed_before=2026-11-19T00:00:00Z"), 0U);
  EXPECT_EQ(get("/v1/tasks?count=true").json(), (json{{"count", 3}, {"or_more", false}}));
  EXPECT_EQ(get("/v1/tasks?count=true&by=error_type&error=/503/").json().at("groups"),
            (json::array({{{"value", "Down"}, {"count", 2}}})));
  EXPECT_EQ(get("/v1/tasks?count=true&by=error_type").json().at("groups")[1],
            (json{{"value", nullptr}, {"count", 1}}));
  EXPECT_THAT(refused(get("/v1/tasks?count=true&by=header.tenant"), 400), HasSubstr("not indexed"));
  EXPECT_THAT(refused(get("/v1/tasks?error=/(/"), 400), HasSubstr("not a regular expression"));
  EXPECT_THAT(refused(get("/v1/tasks?by=queue"), 400), HasSubstr("count=true"));
}

TEST_F(HttpQuery, PagesStayWhileRowsMove) {
  up();
  json tasks = json::array();
  for (int i = 0; i < 25; ++i) tasks.push_back({{"queue", "q"}, {"delay", "1h"}, {"body", i}});
  ASSERT_EQ(post("/v1/tasks", tasks).status, 201);
  std::set<std::string> seen;
  std::string cursor;
  int pages = 0;
  do {
    const json page = get("/v1/tasks?queue=q&limit=10" + (cursor.empty() ? "" : "&cursor=" + cursor)).json();
    for (const json& t : page.at("tasks")) EXPECT_TRUE(seen.insert(t.at("retry_id")).second) << "shown twice";
    cursor = page.at("next").is_null() ? "" : page.at("next").get<std::string>();
    ++pages;
    // New and changed tasks do not shift the pages.
    submit({{"queue", "q"}, {"delay", "1h"}});
    post("/v1/tasks/" + *seen.rbegin() + "/cancel");
  } while (!cursor.empty() && pages < 10);
  EXPECT_EQ(pages, 3);
  EXPECT_EQ(seen.size(), 25U);
}

TEST_F(HttpQuery, BadConditions) {
  up();
  EXPECT_THAT(refused(get("/v1/tasks?queeu=a"), 400),
              HasSubstr("queeu: unknown condition; known conditions: queue"));
  EXPECT_THAT(refused(get("/v1/tasks?state=waiting"), 400),
              HasSubstr("state: must be scheduled, publishing"));
  EXPECT_THAT(refused(get("/v1/tasks?kind=x"), 400), HasSubstr("kind: must be retry or delay"));
  EXPECT_THAT(refused(get("/v1/tasks?limit=0"), 400), HasSubstr("limit: must be an integer from 1 to 1000"));
  EXPECT_THAT(refused(get("/v1/tasks?limit=1001"), 400), HasSubstr("from 1 to 1000"));
  EXPECT_THAT(refused(get("/v1/tasks?cursor=x"), 400), HasSubstr("cursor: must be the `next`"));
  EXPECT_THAT(refused(get("/v1/tasks?due_after=now"), 400), HasSubstr("due_after: must be an RFC 3339 time"));
  EXPECT_THAT(refused(get("/v1/tasks?queue=a&queue=b"), 400), HasSubstr("queue: given twice"));
  EXPECT_THAT(refused(get("/v1/tasks?queue=%ff"), 400), HasSubstr("queue: must be UTF-8 text"));
  EXPECT_THAT(refused(get("/v1/tasks?queue=%4"), 400), HasSubstr("hexadecimal"));
  EXPECT_THAT(refused(get("/v1/tasks?queue="), 400), HasSubstr("queue: must be a string of 1 to 255"));
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

}  // namespace
}  // namespace rung::test
