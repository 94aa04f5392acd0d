#include "src/api/tasks/pages.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace rung::api {
namespace {

TaskRow row(std::int64_t id, std::optional<EpochMs> due = {}) {
  TaskRow r;
  r.task.id = {id};
  r.task.next_at = due;
  return r;
}

TEST(Pages, EndWithTheLastRow) {
  const auto newest = Filter::Order::newest;
  const Json full = tasks_page({row(9), row(7), row(5)}, 2, newest);
  EXPECT_EQ(full.at("tasks").size(), 2U);
  EXPECT_EQ(full.at("next"), "7");
  const Json last = tasks_page({row(5)}, 2, newest);
  EXPECT_EQ(last.at("tasks").size(), 1U);
  EXPECT_TRUE(last.at("next").is_null());
  EXPECT_TRUE(tasks_page({row(9), row(7)}, 2, newest).at("next").is_null());
  EXPECT_TRUE(tasks_page({}, 2, newest).at("tasks").empty());
}

TEST(Pages, ACursorIsReadInItsOrder) {
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

TEST(Pages, OfAListThatWasReadWhole) {
  std::vector<AuditRow> changes(3);
  for (std::int64_t i = 0; i < 3; ++i) changes[static_cast<std::size_t>(i)].id = 10 + i;
  const Json first = audit_page(changes, {2, ""});
  EXPECT_EQ(first.at("changes").size(), 2U);
  EXPECT_EQ(first.at("next"), "11");
  const Json second = audit_page(changes, {2, "11"});
  EXPECT_EQ(second.at("changes").size(), 1U);
  EXPECT_EQ(second.at("changes")[0].at("audit_id"), "12");
  EXPECT_TRUE(second.at("next").is_null());
  EXPECT_EQ(audit_page(changes, {}).at("changes").size(), 3U);
}

TEST(Pages, OfQueuesGoByName) {
  std::vector<QueueGate> gates(3);
  gates[0].queue = "b";  // sorted by the database's collation
  gates[1].queue = "B";
  gates[2].queue = "c";
  const Json first = queues_page(gates, {2, ""});
  EXPECT_EQ(first.at("queues")[0].at("queue"), "B");
  EXPECT_EQ(first.at("next"), "b");
  const Json second = queues_page(gates, {2, "b"});
  EXPECT_EQ(second.at("queues")[0].at("queue"), "c");
  EXPECT_TRUE(second.at("next").is_null());
  EXPECT_EQ(queues_page(gates, {2, "bb"}).at("queues").size(), 1U) << "whose queue has gone";
}

TEST(OverviewQueues, WhatIsHeldComesFirstAndIsNeverLeftOut) {
  std::vector<QueueGate> gates(5);
  for (std::size_t i = 0; i < gates.size(); ++i) {
    gates[i].queue = std::string(1, static_cast<char>('a' + i));
    gates[i].state = "flowing";
    gates[i].waiting = static_cast<std::int64_t>(i) * 100;
  }
  gates[0].state = "paused";  // with nothing that waits
  gates[1].state = "breaker_open";
  const auto names = [](const Json& json) {
    std::string all;
    for (const Json& queue : json.at("queues")) all += queue.at("queue").get<std::string>();
    return all;
  };
  const Json cut = overview_queues(gates, 3);
  EXPECT_EQ(names(cut), "bae");
  EXPECT_EQ(cut.at("queues_left_out"), 2);
  EXPECT_EQ(names(overview_queues(gates, 1)), "ba");
  EXPECT_EQ(names(overview_queues(gates, 200)), "baedc");
}

}  // namespace
}  // namespace rung::api
