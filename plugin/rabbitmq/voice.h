// What the two threads tell the sink. Deliveries and results go straight through; the status is put together
// here, told only when it changed, and one at a time. Thread: any.
#pragma once

#include <mutex>
#include <string>
#include <utility>

#include "plugin/broker.h"

namespace rung::rabbit {

class Voice {
 public:
  explicit Voice(BrokerSink& sink) : sink_(sink) {}

  BrokerSink& sink() { return sink_; }
  void consuming(bool up, std::string reason = {}) {
    change(&BrokerStatus::consuming, up, !up, std::move(reason));
  }
  void publishing(bool up, std::string reason = {}) {
    change(&BrokerStatus::publishing, up, !up, std::move(reason));
  }
  void blocked(bool yes, std::string reason = {}) {
    change(&BrokerStatus::blocked, yes, yes, std::move(reason));
  }

 private:
  void change(bool BrokerStatus::*what, bool to, bool worse, std::string reason) {
    std::lock_guard lock(mutex_);
    BrokerStatus next = status_;
    next.*what = to;
    if (worse) next.reason = std::move(reason);
    if (next == status_) return;
    status_ = std::move(next);
    sink_.on_status(status_);
  }

  BrokerSink& sink_;
  std::mutex mutex_;
  BrokerStatus status_;
};

}  // namespace rung::rabbit
