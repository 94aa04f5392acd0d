// Checks whether our user may publish at all. On each new channel the first publish is an empty message that
// no queue takes; nothing else is sent until the broker has confirmed it. If the broker refuses it (403), our
// user has lost its rights: the connection counts as down, and waiting messages are for the next connection.
//
// During an alarm the answer comes only after the alarm, so nobody waits for it. Thread: one thread per
// object.
#pragma once

#include <cstdint>
#include <utility>

#include "plugin/rabbitmq/publish/outstanding.h"
#include "plugin/rabbitmq/wire/connection.h"
#include "src/core/base/result.h"

namespace rung::rabbit {

class RightsCheck {
 public:
  static constexpr std::uint64_t kToken = ~std::uint64_t{0};  // of the empty message, which nobody requested

  // REQUIRES: nothing else was published on the channel.
  void send(Connection& connection, Outstanding& outstanding);
  bool pending() const { return pending_; }
  void passed() { pending_ = false; }
  // The broker closed the channel while the check was pending. Returns why the connection has ended.
  Error refused(const Closing& why);
  // The connection has ended. Returns whether the check was refused on it.
  bool connection_over() {
    pending_ = false;
    return std::exchange(lost_, false);
  }

 private:
  bool pending_ = false;
  bool lost_ = false;
};

}  // namespace rung::rabbit
