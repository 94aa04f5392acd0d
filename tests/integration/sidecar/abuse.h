// The fixture of the tests of malformed and hostile messages. Each is parked, climbs or is ignored, with a
// reason that a person understands; none stops the flow: after each, a plain message still climbs, and
// nothing stays unacked.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/integration/sidecar/messages.h"

namespace rung::test {

class Abuse : public SidecarTest {
 protected:
  void SetUp() override { config.ladder = "[200ms, 400ms]"; }

  // Proves that nothing before it has stopped the flow.
  void plain_one_climbs() {
    const std::string queue = attached("plain");
    const Message message = order(unique_name("plain"));
    fail(queue, message);
    const Received back = delivery(queue);
    EXPECT_EQ(back.message.body, message.body);
    amqp.ack(back);
    report(back, "succeeded");
    wait_id(retry_id(back), "succeeded");
  }

  // What stays unacked shows when the process has gone: it lies there again.
  void nothing_stays() {
    plain_one_climbs();
    EXPECT_TRUE(rung().running());
    rung().signal(SIGTERM);
    EXPECT_EQ(rung().wait_exit(), 0);
    EXPECT_EQ(amqp.depth(failed()), 0U) << "not acked";
    EXPECT_EQ(amqp.depth(results()), 0U) << "not acked";
  }

  void send(const Message& message) { ASSERT_TRUE(amqp.publish(failed(), "", message)); }
  void word(Table headers) {
    Message message;
    message.headers = std::move(headers);
    ASSERT_TRUE(amqp.publish(results(), "", message));
  }

  // As a consumer says it: `more` beside retry-queue, to <prefix>.failed.
  Message said(const std::string& queue, Table more, const std::string& message_id = unique_name("said")) {
    Message message;
    message.properties.message_id = message_id;
    message.body = "said";
    message.headers = Table{{"retry-queue", queue}};
    for (auto& entry : more) message.headers->push_back(std::move(entry));
    return message;
  }
  Row row_of_message(const std::string& message_id) {
    std::vector<Row> found;
    EXPECT_TRUE(eventually(
        [&] {
          found = rows("SELECT * FROM retry_current WHERE message_id = '" + message_id + "'");
          return found.size() == 1;
        },
        kBound))
        << found.size() << " rows of " << message_id;
    return found.empty() ? Row{} : found[0];
  }
  std::string error_of(const std::string& queue) {
    const auto found = current(queue);
    return found.empty() ? "no row" : found[0].at("last_error");
  }

  // Headers whose one text is so long that the header frame is the largest that this client sends.
  static Message with_header_of(std::size_t bytes) {
    Message message;
    message.properties.message_id = unique_name("wide");
    message.headers = Table{{"wide", std::string(bytes, 'w')}};
    message.body = "small";
    return message;
  }

  Ran cli(const std::string& words) {
    return run_shell(rung_program() + " " + words + " -c " + rung().config_path());
  }
};

}  // namespace rung::test
