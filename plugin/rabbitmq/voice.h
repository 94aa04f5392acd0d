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
  enum class Status { told, untold };  // a probe's connection is nobody's business
  explicit Voice(BrokerSink& sink, Status status = Status::told)
      : sink_(sink), told_(status == Status::told) {}

  BrokerSink& sink() { return sink_; }
  void consuming(bool up, std::string reason = {}) { change(consuming_, up, !up, std::move(reason)); }
  void publishing(bool up, std::string reason = {}) { change(publishing_, up, !up, std::move(reason)); }
  void blocked(bool yes, std::string reason = {}) { change(blocked_, yes, yes, std::move(reason)); }

 private:
  struct Side {
    bool BrokerStatus::*what;
    std::string reason;  // the last of its own: two sides that fail in different words must not take turns
  };

  void change(Side& side, bool to, bool worse, std::string reason) {
    std::lock_guard lock(mutex_);
    if (status_.*side.what == to && (!worse || side.reason == reason)) return;
    status_.*side.what = to;
    side.reason = worse ? std::move(reason) : std::string();
    if (worse) status_.reason = side.reason;
    if (told_) sink_.on_status(status_);
  }

  BrokerSink& sink_;
  const bool told_;
  std::mutex mutex_;
  // Guarded by mutex_.
  BrokerStatus status_;
  Side consuming_{&BrokerStatus::consuming, {}}, publishing_{&BrokerStatus::publishing, {}},
      blocked_{&BrokerStatus::blocked, {}};
};

}  // namespace rung::rabbit
