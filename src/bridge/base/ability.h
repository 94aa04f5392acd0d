// The state of our publishing connection (BrokerLink) as reported to the other instances, damped so that
// shards do not move with every reconnect. The link counts as lost once it has been down for longer than
// `down_timeout`, and as up again once it has been up for as long. A connection that lasts less than a third
// of that does not end the outage. Thread: the loop's.
#pragma once

#include <optional>

#include "src/core/base/time.h"
#include "src/store/leases.h"

namespace rung::bridge {

class Ability {
 public:
  explicit Ability(Ms down_timeout) : down_timeout_(down_timeout) {}

  // The connection went up or down.
  void publishing(bool up, BootMs now) {
    if (up == up_since_.has_value()) return;
    if (up) {
      up_since_ = now;
      return;
    }
    if (!down_since_ || now - *up_since_ >= down_timeout_ / 3) down_since_ = now;
    up_since_.reset();
  }
  BrokerLink link(BootMs now) {
    if (!up_since_ && down_since_ && now - *down_since_ > down_timeout_) lost_ = true;
    if (up_since_ && now - *up_since_ >= down_timeout_) lost_ = false;
    if (lost_) return BrokerLink::lost;
    return up_since_ ? BrokerLink::up : BrokerLink::interrupted;
  }

 private:
  const Ms down_timeout_;
  bool lost_ = false;
  std::optional<BootMs> up_since_, down_since_;
};

}  // namespace rung::bridge
