// Activity: what instances have counted, by queue and minute.
#include <nlohmann/json.hpp>

#include "src/api/stats/stats.h"
#include "tests/contract/store/world.h"

namespace rung::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr EpochMs kNoon{1'789'992'000'000};  // a whole hour
constexpr Ms kMinute = kActivityMinute;

class ActivityContract : public StoreContract {
 protected:
  CountBatch batch(const std::string& queue, ActivityCounts more, EpochMs at) {
    return {{{queue, {}, more}}, at, "a", "1-" + std::to_string(++batches_)};
  }
  void add(const CountBatch& of) { must(store_->add_counts(of)); }
  // Of the two hours from noon on.
  std::vector<ActivityPoint> points(const std::string& queue, Ms step = kMinute) {
    return must(database().activity({queue, kNoon, kNoon + kMinute * 120, step}));
  }

 private:
  int batches_ = 0;
};

TEST_P(ActivityContract, IsAddedUpByMinuteQueueAndOverAllQueues) {
  CountBatch both = batch("orders", {1, 2, 3}, kNoon + Ms{59'999});
  both.changes.push_back({"invoices", {}, {10, 0, 0}});
  add(both);
  CountBatch other = batch("orders", {4, 0, 0}, kNoon);
  other.maker = "b";
  add(other);
  add(batch("orders", {0, 0, 7}, kNoon + kMinute));
  EXPECT_THAT(points("orders"),
              ElementsAre(ActivityPoint{kNoon, {5, 2, 3}}, ActivityPoint{kNoon + kMinute, {0, 0, 7}}));
  EXPECT_THAT(points("invoices"), ElementsAre(ActivityPoint{kNoon, {10, 0, 0}}));
  EXPECT_THAT(points(kAllQueues),
              ElementsAre(ActivityPoint{kNoon, {15, 2, 3}}, ActivityPoint{kNoon + kMinute, {0, 0, 7}}));
  EXPECT_THAT(points("elsewhere"), IsEmpty());
}

TEST_P(ActivityContract, ARangeInSteps) {
  for (const int minute : {-1, 0, 4, 5, 14, 119, 120})
    add(batch("orders", {1, 0, 0}, kNoon + kMinute * minute));
  EXPECT_THAT(points("orders", kMinute * 5),
              ElementsAre(ActivityPoint{kNoon, {2, 0, 0}}, ActivityPoint{kNoon + kMinute * 5, {1, 0, 0}},
                          ActivityPoint{kNoon + kMinute * 10, {1, 0, 0}},
                          ActivityPoint{kNoon + kMinute * 115, {1, 0, 0}}));
}

TEST_P(ActivityContract, ARepeatedBatchChangesNothing) {
  CountBatch one = batch("orders", {1, 0, 0}, kNoon);
  one.changes[0].promised = {1, 0, 0};
  one.at = must(store_->now());
  add(one);
  add(one);
  const EpochMs minute = bucket_of(one.at, kMinute);
  EXPECT_THAT(must(database().activity({"orders", minute, minute + kMinute, kMinute})),
              ElementsAre(ActivityPoint{minute, {1, 0, 0}}));
  EXPECT_EQ(must(database().promises()).at(0).last_hour, (PromiseCounts{1, 0, 0}));
}

TEST_P(ActivityContract, OldMinutesAreDeletedAFewAtATime) {
  for (int minute = 0; minute < 3; ++minute) add(batch("orders", {1, 0, 0}, kNoon + kMinute * minute));
  const EpochMs then = kNoon + kMinute + kActivityKept;  // two of them are old
  EXPECT_EQ(must(store_->forget(then, 3)), 3) << "two rows for each minute: the queue's, and all";
  EXPECT_EQ(must(store_->forget(then, 3)), 1);
  EXPECT_EQ(must(store_->forget(then, 3)), 0);
  EXPECT_THAT(points("orders"), ElementsAre(ActivityPoint{kNoon + kMinute * 2, {1, 0, 0}}));
  EXPECT_THAT(points(kAllQueues), ElementsAre(ActivityPoint{kNoon + kMinute * 2, {1, 0, 0}}));
}

// The collation ignores blanks at the end.
TEST_P(ActivityContract, NamesThatDifferInBlanks) {
  add(batch("orders", {1, 0, 0}, kNoon));
  add(batch("orders ", {0, 1, 0}, kNoon));
  EXPECT_THAT(points("orders"), ElementsAre(ActivityPoint{kNoon, {1, 0, 0}}));
  EXPECT_THAT(points("orders "), ElementsAre(ActivityPoint{kNoon, {0, 1, 0}}));
}

// As GET /v1/activity answers.
TEST_P(ActivityContract, EachStepHasItsPoint) {
  const EpochMs now = kNoon + Ms{25'123};
  add(batch("orders", {1, 2, 3}, kNoon - kMinute * 3));
  add(batch("orders", {4, 0, 0}, now));
  const api::Json activity = api::read_activity(database(), {"orders", now - kMinute * 4, now}, now);
  EXPECT_EQ(activity.at("step_s"), 60);
  std::vector<int> failed;
  for (const api::Json& point : activity.at("points")) failed.push_back(point.at("failed"));
  EXPECT_THAT(failed, ElementsAre(0, 1, 0, 0, 4));
  EXPECT_EQ(api::dump(activity.at("points")[1]),
            R"({"at":"2026-09-21T11:57:00.000Z","failed":1,"retried":2,"succeeded":3})");
  EXPECT_TRUE(api::read_activity(database(), {"", EpochMs{0}, EpochMs{1}}, now).at("points").empty());
}

INSTANTIATE_TEST_SUITE_P(Stores, ActivityContract, testing::Values("mysql"));

}  // namespace
}  // namespace rung::test
