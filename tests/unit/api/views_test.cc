#include "src/api/tasks/views.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

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

}  // namespace
}  // namespace rung::api
