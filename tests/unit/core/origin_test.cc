// Where a message came from, why it is retried, and which retries keep their routing key.
#include <gtest/gtest.h>

#include "src/core/task/task.h"

namespace rung {
namespace {

Task failed(std::string error, std::string type = {}) {
  Task task;
  task.first_failed_at = {1};
  task.last_error = std::move(error);
  task.error_type = std::move(type);
  return task;
}

TEST(RetryReason, SaysWhyTheLastAttemptFailed) {
  for (const char* reason : {"rejected", "expired", "maxlen", "delivery_limit"})
    EXPECT_EQ(retry_reason(failed("dead-lettered: " + std::string(reason) + " (queue q)")), reason);
  EXPECT_EQ(retry_reason(failed("312 NO_ROUTE: no queue q", "returned")), "returned");
  EXPECT_EQ(retry_reason(failed("no word within 10m", "timed_out")), "silent");
  EXPECT_EQ(retry_reason(failed("card declined", "Payment")), "rejected");
  EXPECT_EQ(retry_reason(failed("dead-lettered: whatever (queue q)")), "rejected");
  EXPECT_EQ(retry_reason(Task{}), "");
}

TEST(ErrorLine, IsTheFirstWithItsTypeOnce) {
  const std::string trace = "ValueError: bad\r\n  at pay.py:17";
  EXPECT_EQ(error_line("ValueError", trace), "ValueError: bad") << "as our helpers write it";
  EXPECT_EQ(error_line("PayError", trace), "PayError: ValueError: bad");
  EXPECT_EQ(error_line("", trace), "ValueError: bad");
  EXPECT_EQ(error_line("PayError", ""), "PayError");
  EXPECT_EQ(error_line("", "\n  at pay.py:17"), "");
}

TEST(WithoutContent, LeavesWhatIsNoPartOfAMessage) {
  const std::string whole = add_earlier(R"({"retry-error":"boom","retry-token":"t","x-death":[1]})",
                                        {.attempt = 1, .properties = "{}", .headers = R"({"card":1})"});
  EXPECT_EQ(without_content(whole), R"({"retry-error":"boom","x-death":[1]})");
  EXPECT_EQ(without_content(R"({"!table":[["retry-error","a"],["retry-token","t"],["retry-token","u"]]})"),
            R"({"!table":[["retry-error","a"]]})");
  EXPECT_EQ(without_content("changed by hand"), "");
}

TEST(KeepsRoutingKey, OnlyWhereItIsKnownAndAnotherThanTheQueues) {
  Task task = failed("x");
  task.queue = "orders";
  task.exchange = "events";
  task.routing_key = "order.paid";
  EXPECT_TRUE(keeps_routing_key(task, "rung"));
  const auto without = [&](auto change) {
    Task other = task;
    change(other);
    return keeps_routing_key(other, "rung");
  };
  EXPECT_FALSE(without([](Task& t) { t.exchange.clear(); }));
  EXPECT_FALSE(without([](Task& t) { t.exchange = "rung.failed"; }));
  EXPECT_TRUE(without([](Task& t) { t.exchange = "rungs"; }));
  EXPECT_FALSE(without([](Task& t) { t.routing_key = t.queue; }));
  EXPECT_FALSE(without([](Task& t) { t.routing_key = "a\xEF\xBF\xBD"; }));
  EXPECT_FALSE(without([](Task& t) { t.first_failed_at = {0}; }));
}

}  // namespace
}  // namespace rung
