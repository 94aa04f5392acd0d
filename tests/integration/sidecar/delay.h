// What the tests of rung.delay share.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/integration/sidecar/messages.h"

namespace rung::test {

class Delay : public SidecarTest {
 protected:
  std::string inlet() const { return config.prefix + ".delay"; }

  // A message with a message-id, and these headers.
  static Message delayed(Table headers, std::string body = unique_name("body")) {
    Message message;
    message.properties.message_id = unique_name("m");
    message.properties.delivery_mode = std::uint8_t{2};
    message.body = std::move(body);
    message.headers = std::move(headers);
    return message;
  }

  // The row of the message, once it is there.
  Row row_of(const Message& message) {
    std::vector<Row> found;
    EXPECT_TRUE(eventually(
        [&] {
          found =
              rows("SELECT * FROM retry_current WHERE message_id = '" + *message.properties.message_id + "'");
          return !found.empty();
        },
        kBound))
        << rung().log_tail();
    return found.empty() ? Row{} : found[0];
  }

  Row wait_row(const Message& message, const std::string& state) {
    Row row;
    EXPECT_TRUE(eventually(
        [&] {
          row = row_of(message);
          return row["state"] == state;
        },
        kBound))
        << described(row) << rung().log_tail();
    return row;
  }

  // An exchange with a queue bound to it; both removed at the end.
  std::string exchange_to(const std::string& queue, std::string_view type = "topic",
                          std::string_view key = "#") {
    exchanges_.push_back(unique_name("x"));
    amqp.declare_exchange(exchanges_.back(), type);
    amqp.bind(queue, exchanges_.back(), key);
    return exchanges_.back();
  }
  std::string new_exchange() { return exchanges_.emplace_back(unique_name("x")); }

  void TearDown() override {
    for (const std::string& name : exchanges_) amqp.remove_exchange(name);
  }

  std::vector<std::string> exchanges_;
};

}  // namespace rung::test
