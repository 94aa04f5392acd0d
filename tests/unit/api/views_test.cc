#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/api/stats/stats.h"
#include "src/api/tasks/tasks.h"

namespace rung::api {
namespace {

TEST(Views, ATaskHasTheViewsColumnsInTheirOrderAndFourMore) {
  TaskRow row;
  row.task.id = {42};
  row.task.first_failed_at = {1'795'280'640'123};
  row.task.max_attempts = 7;
  row.task.silence = Silence{Silence::Means::failure, Ms{60'000}};
  row.correlation_id = "";
  const Json task = to_json(row);
  std::vector<std::string> names;
  for (const auto& [name, value] : task.items()) names.push_back(name);
  EXPECT_THAT(names,
              ::testing::ElementsAre(
                  "retry_id", "kind", "queue", "exchange", "routing_key", "tag", "message_id", "state",
                  "attempt", "level", "levels", "ladder", "next_due_at", "first_failed_at", "created_at",
                  "finished_at", "finished_by", "last_error", "body_bytes", "shard", "node", "version",
                  "error_type", "correlation_id", "rule", "uncounted_attempts", "error_queue", "parent_id",
                  "cause_id", "replaced_by", "max_attempts", "success", "by_exchange", "body_stored"));
  EXPECT_EQ(task["retry_id"], "42");
  EXPECT_TRUE(task["finished_at"].is_null());
  EXPECT_EQ(task["first_failed_at"], "2026-11-21T17:04:00.123Z");
  EXPECT_EQ(task["max_attempts"], 7);
  EXPECT_EQ(dump(task["success"]), R"({"reported_within":"1m"})");
  row.task.first_failed_at = {};
  EXPECT_TRUE(to_json(row)["first_failed_at"].is_null());
}

TEST(Views, AnAttemptSaysHowLateItWas) {
  AttemptRow row;
  row.queue = "orders";
  row.attempt.due_at = {1'795'280'640'123};
  row.attempt.published_at = {1'795'280'640'134};
  row.attempt.executor = "app-3:8080";
  EXPECT_EQ(to_json(row)["late_ms"], 11);
  EXPECT_EQ(to_json(row)["executor"], "app-3:8080");
  EXPECT_EQ(to_json(row)["queue"], "orders");
}

TaskRow row(std::int64_t id, std::optional<EpochMs> due = {}) {
  TaskRow r;
  r.task.id = {id};
  r.task.next_at = due;
  return r;
}

TEST(Views, ACursorIsReadInItsOrder) {
  Filter filter;
  filter.order = Filter::Order::due;
  const std::string cursor = cursor_of(row(7, EpochMs{1234}).task, filter.order);
  EXPECT_EQ(cursor, "7.1234");
  ASSERT_TRUE(read_cursor(cursor, filter));
  EXPECT_EQ(filter.after, TaskId{7});
  EXPECT_EQ(filter.after_due, EpochMs{1234});
  ASSERT_TRUE(read_cursor(cursor_of(row(8).task, filter.order), filter));
  EXPECT_EQ(filter.after, TaskId{8});
  EXPECT_EQ(filter.after_due, std::nullopt) << "it has no due time";
  filter.order = Filter::Order::oldest;
  EXPECT_TRUE(read_cursor("9", filter));
  for (const char* wrong : {"7.1234", "", "x", "7.", ".5", "-7", "7 "})
    EXPECT_FALSE(read_cursor(wrong, filter)) << wrong;
}

TEST(AuditPages, Cursors) {
  EXPECT_EQ(audit_place_of("6.17"), (AuditPlace{EpochMs{17}, 6}));
  for (const char* wrong : {"", "6", "6.", ".17", "6.17.1", "-6.17", "6.-17", "a.b", "6 .17"})
    EXPECT_FALSE(audit_place_of(wrong)) << wrong;
}

// ---- GET /v1/activity: its range, its steps, and that each of them has a point.

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
