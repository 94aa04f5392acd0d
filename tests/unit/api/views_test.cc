#include "src/api/tasks/views.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace rung::api {
namespace {

// Whoever made the bulk: HTTP writes its filter as JSON, the command line as flags.
TEST(Views, TheFilterOfABulkIsAnObject) {
  const auto filter = [](const std::string& text) {
    Bulk bulk;
    bulk.filter_text = text;
    return dump(to_json(bulk).at("filter"));
  };
  EXPECT_EQ(filter(R"({"queue":"orders","error":"timeout"})"), R"({"queue":"orders","error":"timeout"})");
  EXPECT_EQ(filter("--queue orders --message-id m-1"), R"({"queue":"orders","message_id":"m-1"})");
  EXPECT_EQ(filter("--error 'it'\\''s late' --created-after 2026-11-22T00:00:00.000Z"),
            R"({"error":"it's late","created_after":"2026-11-22T00:00:00.000Z"})");
  EXPECT_EQ(filter("--tag $'a\\033[2J\\'b\\\\' --queue ''"), R"({"tag":"a\u001b[2J'b\\","queue":""})");
  EXPECT_EQ(filter("--state awaiting --silence-held --queue orders"),
            R"({"state":"awaiting","silence_held":"true","queue":"orders"})");
  EXPECT_EQ(filter("--header tenant=acme"), R"({"header.tenant":"acme"})");
  EXPECT_EQ(filter(""), "{}");
}

TEST(Views, ATaskHasTheViewsColumnsInTheirOrderAndThreeMore) {
  TaskRow row;
  row.task.id = {42};
  row.task.first_failed_at = {1'795'280'640'123};
  row.task.max_attempts = 7;
  row.task.silence = Silence{Silence::Means::failure, Ms{60'000}};
  row.correlation_id = "";
  const Json task = to_json(row);
  std::vector<std::string> names;
  for (const auto& [name, value] : task.items()) names.push_back(name);
  EXPECT_THAT(names, ::testing::ElementsAre("retry_id", "kind", "queue", "exchange", "routing_key", "tag",
                                            "message_id", "state", "attempt", "level", "levels", "ladder",
                                            "next_due_at", "first_failed_at", "created_at", "finished_at",
                                            "finished_by", "last_error", "body_bytes", "shard", "node",
                                            "version", "error_type", "correlation_id", "rule",
                                            "uncounted_attempts", "error_queue", "parent_id", "cause_id",
                                            "replaced_by", "max_attempts", "success", "by_exchange"));
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
