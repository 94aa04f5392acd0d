// A message that comes back because no queue takes it: basic.return and its content, matched with the
// outstanding messages. Thread: one thread per object.
#pragma once

#include <string>
#include <utility>

#include "plugin/rabbitmq/connection.h"
#include "plugin/rabbitmq/content.h"
#include "plugin/rabbitmq/outstanding.h"

namespace rung::rabbit {

class ReturnedMessage {
 public:
  void begin(const amqp_basic_return_t& method) {
    exchange_ = view(method.exchange);
    routing_key_ = view(method.routing_key);
    reason_ = std::to_string(method.reply_code) + " " + std::string(view(method.reply_text)) +
              (exchange_.empty() ? ": no queue " : ": no route for ") + routing_key_;
    content_.begin();
  }
  // A header or body frame. The last one marks the message as returned.
  void add(const Frame& frame, Outstanding& outstanding) {
    if (!content_.add(frame)) return;
    outstanding.returned(exchange_, routing_key_, content_.take(), std::move(reason_));
  }

 private:
  std::string exchange_, routing_key_, reason_;
  Content content_;
};

}  // namespace rung::rabbit
