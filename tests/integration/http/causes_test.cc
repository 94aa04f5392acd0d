// /v1/causes, with failures that a real consumer publishes; and that the counts are kept up.
#include "tests/integration/http/fixture.h"

namespace rung::test {
namespace {

class HttpCauses : public HttpTest {
 protected:
  void fail(const std::string& queue, const std::string& error, const std::string& type = "") {
    Message message;
    message.headers.emplace();
    message.headers->emplace_back("retry-queue", queue);
    message.headers->emplace_back("retry-error", error);
    message.headers->emplace_back("tenant", "acme");
    if (!type.empty()) message.headers->emplace_back("retry-error-type", type);
    message.body = "body of " + error;
    amqp.publish(failed(), "", message);
  }
  json causes(const std::string& queue) { return get("/v1/causes?queue=" + queue).json().at("causes"); }
};

TEST_F(HttpCauses, FailuresAreGroupedCountedAndTriaged) {
  config.ladder = "[1h]";  // they stay scheduled
  config.more += "index_headers: [tenant]\n";
  up();
  const std::string queue = new_name();
  amqp.declare(queue);
  for (int i = 0; i < 5; ++i)
    fail(queue, "order " + std::to_string(4711 + i) + " has no address", "AddressError");
  fail(queue, "connect ECONNREFUSED 10.0.0.3:5432");
  ASSERT_TRUE(eventually(
      [&] {
        const json seen = causes(queue);
        return seen.size() == 2 && seen[0].at("total") == 5;
      },
      kBound))
      << causes(queue).dump();
  const json cause = causes(queue)[0];
  EXPECT_EQ(cause.at("scheduled"), 5);
  EXPECT_EQ(cause.at("last_hour"), 5);
  ASSERT_EQ(cause.at("trend").size(), 12U);
  int failures = 0;
  for (const json& bucket : cause.at("trend")) failures += bucket.get<int>();
  EXPECT_EQ(failures, 5);
  EXPECT_EQ(cause.at("trend")[0], 0);
  EXPECT_EQ(cause.at("error_type"), "AddressError");
  EXPECT_EQ(cause.at("state"), "new");
  const std::string id = cause.at("cause_id");
  json one = cause;
  one["by_header"] = json::array({{{"by", "header.tenant"},
                                   {"count", 5},
                                   {"or_more", false},
                                   {"others", 0},
                                   {"groups", json::array({{{"value", "acme"}, {"count", 5}}})}}});
  EXPECT_EQ(get("/v1/causes/" + id).json(), one);
  // What no id can be: no question for the database, which refuses to compare such letters.
  EXPECT_THAT(refused(get("/v1/tasks?cause=gr%C3%BC%C3%9Fe"), 400), HasSubstr("12 hexadecimal digits"));
  refused(get("/v1/causes/gr%C3%BC%C3%9Fe"), 404);
  refused(post("/v1/causes/gr%C3%BC%C3%9Fe", {{"note", "x"}}), 404);
  EXPECT_EQ(get("/v1/tasks?cause=" + id).json().at("tasks").size(), 5U);
  EXPECT_EQ(get("/v1/tasks?cause=" + id).json().at("tasks")[0].at("cause_id"), id);
  EXPECT_NE(get("/metrics").body.find("rung_causes{state=\"new\"}"), std::string::npos);
  EXPECT_THAT(get("/metrics").body, HasSubstr("rung_cause_failures{cause=\"" + id +
                                              "\",error=\"AddressError: order * has no address\",queue=\"" +
                                              queue + "\",state=\"new\"} 5"));

  // The upkeep adds the changes to the row: the counts stay the same.
  EXPECT_TRUE(eventually([&] { return rows("SELECT 1 FROM rung_cause_changes").empty(); }, kBound));
  EXPECT_EQ(get("/v1/causes/" + id).json(), one);
  // A bucket of half an hour ago.
  db.exec("INSERT INTO rung_cause_rates (cause_id, since, failures) VALUES ('" + id +
          "', FROM_UNIXTIME(UNIX_TIMESTAMP() DIV 300 * 300 - 1800), 7)");
  const json later = get("/v1/causes/" + id).json();
  EXPECT_EQ(later.at("last_hour"), 12);
  EXPECT_EQ(later.at("trend")[5], 7) << later;
  EXPECT_EQ(get("/v1/causes?queue=" + queue).json().at("causes")[0].at("trend"), later.at("trend"));

  const HttpAnswer owned = post("/v1/causes/" + id, {{"owner", "alice"}, {"note", "mended in 1.2"}});
  EXPECT_EQ(owned.status, 200) << owned.body;
  EXPECT_EQ(owned.json().at("state"), "working");
  EXPECT_EQ(get("/v1/causes?state=working").json().at("causes")[0].at("note"), "mended in 1.2");
  refused(post("/v1/causes/" + id, json::object()), 400);
  refused(post("/v1/causes/" + id, {{"state", "gone"}}), 400);
  refused(get("/v1/causes?order=1"), 400);
  refused(get("/v1/causes?limit=1001"), 400);
  refused(get("/v1/causes/000000000000"), 404);
  refused(post("/v1/causes/000000000000", {{"owner", "alice"}}), 404);

  // All tasks of a cause in one request.
  const HttpAnswer bulk =
      post("/v1/bulks", {{"action", "cancel"}, {"filter", {{"cause", id}}}, {"reason", "no address"}});
  EXPECT_EQ(bulk.status, 202) << bulk.body;
  EXPECT_TRUE(eventually([&] { return get("/v1/causes/" + id).json().at("state") == "resolved"; }, kBound))
      << get("/v1/causes/" + id).body << get("/v1/bulks").body << get("/v1/tasks?cause=" + id).body;
}

}  // namespace
}  // namespace rung::test
