// Error queues, seen from outside: a framework publishes its failures there, and Rung takes them in.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>

#include "src/core/message/header_values.h"
#include "tests/support/sidecar.h"

namespace rung::test {
namespace {

std::string text_header(const Message& message, std::string_view name) {
  return reading::text_of(find(message.headers, name));
}

class ErrorQueuesOfTheConfig : public SidecarTest {
 protected:
  ErrorQueuesOfTheConfig() { config.ladder = "[300ms, 400ms]"; }

  // `orders` and `orders_error`, taken in with these keys.
  void run_with(const std::string& keys) {
    orders_ = new_name("orders");
    errors_ = orders_ + "_error";
    amqp.declare(orders_);
    amqp.declare(errors_);
    remove_at_end(errors_);
    config.more += "error_queues: [ { from: " + errors_ + ", " + keys + " } ]\n";
    start();
    ASSERT_TRUE(rung().logged("consuming an error queue")) << rung().log_tail();
  }
  // What MassTransit publishes when a consumer throws: the received message with its own headers added.
  void fail_as_masstransit(Message message, const std::string& error = "card refused") {
    if (!message.headers) message.headers.emplace();
    for (const auto& [name, value] : Table{{"MT-Reason", "fault"},
                                           {"MT-Fault-ExceptionType", "Shop.PaymentException"},
                                           {"MT-Fault-InputAddress", "rabbitmq://localhost/" + orders_},
                                           {"MT-Fault-Message", error},
                                           {"MT-Fault-StackTrace", "   at Shop.Pay()"},
                                           {"MT-Fault-Timestamp", "2026-11-24T01:02:03.4567890Z"},
                                           {"MT-Host-MachineName", "box1"}})
      message.headers->emplace_back(name, value);
    ASSERT_TRUE(amqp.publish("", errors_, message));
  }
  Message envelope() {
    Message message;
    message.properties.message_id = unique_name("m");
    message.properties.content_type = "application/vnd.masstransit+json";
    message.properties.delivery_mode = std::uint8_t{2};
    message.headers = Table{{"Content-Type", "application/vnd.masstransit+json"}};
    message.body = R"({"messageId":"1","message":{"order":4711}})";
    return message;
  }

  std::string orders_, errors_;
};

TEST_F(ErrorQueuesOfTheConfig, MassTransitFromErrorQueueToSuccess) {
  run_with("dialect: masstransit");
  const Message sent = envelope();
  fail_as_masstransit(sent);
  const Received first = delivery(orders_);
  EXPECT_EQ(first.message.body, sent.body);
  EXPECT_EQ(first.message.properties.content_type, sent.properties.content_type);
  EXPECT_EQ(find(first.message.headers, "MT-Fault-Message"), nullptr);
  EXPECT_EQ(find(first.message.headers, "MT-Host-MachineName"), nullptr);
  EXPECT_EQ(text_header(first.message, "Content-Type"), "application/vnd.masstransit+json");
  const Row scheduled = current(orders_)[0];
  EXPECT_EQ(scheduled.at("error_type"), "Shop.PaymentException");
  EXPECT_EQ(scheduled.at("last_error"), "card refused\n   at Shop.Pay()");
  EXPECT_EQ(scheduled.at("error_queue"), errors_);
  // Its headers survive in MassTransit, so that the next failure belongs to the same task.
  fail_as_masstransit(first.message, "still refused");
  amqp.ack(first);
  const Received second = delivery(orders_);
  EXPECT_EQ(retry_id(second), retry_id(first));
  EXPECT_EQ(int_header(second.message, "retry-attempt"), 2);
  report(second, "succeeded");
  amqp.ack(second);
  wait_state(orders_, "succeeded");
  const auto attempts = history(retry_id(first));
  ASSERT_EQ(attempts.size(), 2U);
  EXPECT_EQ(attempts[0].at("outcome"), "failed");
  EXPECT_EQ(attempts[0].at("error"), "still refused\n   at Shop.Pay()");
  EXPECT_EQ(attempts[1].at("outcome"), "succeeded");
}

TEST_F(ErrorQueuesOfTheConfig, APatternFindsQueuesByTheManagementApi) {
  const char* management = std::getenv("RUNG_TEST_MANAGEMENT");
  ASSERT_NE(management, nullptr) << "start the servers with --management";
  orders_ = new_name("orders");
  errors_ = orders_ + "_error";
  remove_at_end(errors_);
  amqp.declare(orders_);
  amqp.declare(errors_);
  config.broker += "  management: \"" + std::string(management) + "\"\n";
  config.more = "error_queues: [ { from: \"" + orders_ + "*_error\", dialect: masstransit } ]\n";
  start();
  ASSERT_TRUE(rung().logged("consuming an error queue")) << rung().log_tail();
  fail_as_masstransit(envelope());
  amqp.ack(delivery(orders_));
}

}  // namespace
}  // namespace rung::test
