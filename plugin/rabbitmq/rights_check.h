// Whether our user may publish at all. On each new channel the first publish is an empty message that no
// queue takes; nothing else is sent until the broker has confirmed it. If the broker refuses it (403), our
// user has lost its rights: the connection counts as down, and what waits is for the next connection.
//
// In an alarm the answer comes when the alarm is over, so nobody waits for it. Thread: one thread an object.
#pragma once

#include <cstdint>
#include <utility>

#include "plugin/rabbitmq/connection.h"
#include "plugin/rabbitmq/outstanding.h"
#include "src/core/result.h"

namespace rung::rabbit {

class RightsCheck {
 public:
  static constexpr std::uint64_t kToken = ~std::uint64_t{0};  // of the empty message; nobody asked for it

  // REQUIRES: nothing else was published on the channel.
  void send(Connection& connection, Outstanding& outstanding);
  bool pending() const { return pending_; }
  void passed() { pending_ = false; }
  // The broker closed the channel while the check was pending. Returns why the connection is over.
  Error refused(const Closing& why);
  // The connection is over. Returns whether the check was refused on it.
  bool connection_over() {
    pending_ = false;
    return std::exchange(lost_, false);
  }

 private:
  bool pending_ = false;
  bool lost_ = false;
};

}  // namespace rung::rabbit
