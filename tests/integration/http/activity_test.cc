// /v1/activity: what a real sidecar has counted, by minute.
#include "tests/integration/http/fixture.h"

namespace rung::test {
namespace {

class HttpActivity : public HttpTest {
 protected:
  // {failed, retried, succeeded} of all points.
  static json sums(const json& activity) {
    json all = json::array({0, 0, 0});
    for (const json& point : activity.at("points")) {
      std::size_t at = 0;
      for (const char* name : {"failed", "retried", "succeeded"}) {
        all[at] = all[at].get<int>() + point.at(name).get<int>();
        ++at;
      }
    }
    return all;
  }
};

TEST_F(HttpActivity, FailuresRetriesAndSuccessesOfAQueue) {
  const std::string queue = new_name(), other = new_name();
  config.queue(queue, "{ success: { reported_within: 1h } }");
  up();
  declare_attached(queue);
  const std::string id = failed_twice(queue);
  report(delivery(queue), "succeeded");
  wait_for(id, "succeeded");
  json activity;
  EXPECT_TRUE(eventually(
      [&] {
        activity = get("/v1/activity?queue=" + queue).json();
        return sums(activity) == json::array({2, 2, 1});
      },
      kBound))
      << activity.dump();
  EXPECT_EQ(activity.at("step_s"), 60);
  EXPECT_EQ(activity.at("counted_with"), nullptr);
  EXPECT_THAT(activity.at("points").size(), testing::AllOf(testing::Ge(60U), testing::Le(61U)));
  EXPECT_EQ(sums(get("/v1/activity").json()), json::array({2, 2, 1}));
  const auto by_sql =
      rows("SELECT SUM(failed) AS f, SUM(retried) AS r, SUM(succeeded) AS s FROM retry_activity");
  EXPECT_EQ(by_sql.at(0).at("f") + by_sql.at(0).at("r") + by_sql.at(0).at("s"), "221");
  const json none = get("/v1/activity?queue=" + other).json();
  EXPECT_EQ(sums(none), json::array({0, 0, 0}));
  EXPECT_EQ(none.at("counted_with"), "(other)");
  EXPECT_EQ(none.at("points").size(), activity.at("points").size());
}

}  // namespace
}  // namespace rung::test
