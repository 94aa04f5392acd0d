// GET /v1/activity: its range, its steps, and that each of them has a point.
#include <gtest/gtest.h>

#include "src/api/stats/stats.h"

namespace rung::api {
namespace {

constexpr EpochMs kNow{1'789'992'025'123};  // 12:00:25.123 of some day
constexpr EpochMs kMinuteOfNow{1'789'992'000'000};
constexpr Ms kDay = std::chrono::hours{24};

std::int64_t points_in(const ActivityRange& range) {
  return (range.until - range.from).count() / range.step.count();
}

TEST(ActivityRange, WholeMinutesUpToNow) {
  const auto range = activity_range({"orders", kNow - kUsualActivity, kNow}, kNow);
  ASSERT_TRUE(range);
  EXPECT_EQ(range->queue, "orders");
  EXPECT_EQ(range->step, kActivityMinute);
  EXPECT_EQ(range->from, kMinuteOfNow - kUsualActivity);
  EXPECT_EQ(range->until, kMinuteOfNow + kActivityMinute) << "with the minute that is under way";
  EXPECT_EQ(activity_range({"", kNow - kUsualActivity, kNow}, kNow)->queue, kAllQueues);
  // `to` is no part of it.
  EXPECT_EQ(activity_range({"", kMinuteOfNow - kActivityMinute, kMinuteOfNow}, kNow)->until, kMinuteOfNow);
}

TEST(ActivityRange, IsBoundedToWhatIsKeptAndToNow) {
  const auto range = activity_range({"", EpochMs{-1'000'000}, kNow + kDay * 10'000}, kNow);
  ASSERT_TRUE(range);
  EXPECT_GE(range->from + range->step, kNow - kActivityKept);
  EXPECT_LE(range->until, kNow + range->step);
  EXPECT_EQ(range->step, Ms{std::chrono::minutes{30}});
  EXPECT_FALSE(activity_range({"", kNow - kDay * 40, kNow - kDay * 31}, kNow));
  EXPECT_FALSE(activity_range({"", kNow + kDay, kNow + kDay * 2}, kNow));
}

TEST(ActivityRange, HasAtMost1500PointsAndTheSmallestStepForThat) {
  const auto step = [](Ms length) {
    const auto range = activity_range({"", kMinuteOfNow - length, kMinuteOfNow}, kNow);
    EXPECT_LE(points_in(*range), kMostActivityPoints);
    return std::chrono::duration_cast<std::chrono::minutes>(range->step).count();
  };
  EXPECT_EQ(step(kActivityMinute * 1500), 1);
  EXPECT_EQ(step(kActivityMinute * 1501), 2);
  EXPECT_EQ(step(kDay * 2), 2);
  EXPECT_EQ(step(kDay * 7), 10);
  for (int minutes = 1; minutes <= 30 * 24 * 60; minutes += 37) step(kActivityMinute * minutes);
}

TEST(Activity, SaysWhichQueuesHaveNoCountsOfTheirOwn) {
  RuleBook::Patterns patterns;
  patterns.push_back({QueuePattern("orders.*"), {}});
  const RuleBook rules(RuleBook::Ladders{{"default", *levels::Ladder::from_list({Ms{1000}})}},
                       RuleBook::Queues{{"invoices", {}}}, RuleBook::Tags{}, {}, TargetRules{},
                       RuleBook::RuleLists{}, std::make_shared<const ErrorQueues>(), patterns);
  for (const char* queue : {"", kAllQueues, "invoices", "orders.eu", "orders.*"})
    EXPECT_EQ(aggregated_as(rules, queue), std::nullopt) << queue;
  EXPECT_EQ(aggregated_as(rules, "elsewhere"), "(other)");
}

}  // namespace
}  // namespace rung::api
