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
  void consuming_at(const std::string& address) { up(consuming_, &BrokerStatus::consuming_at, address); }
  void publishing_at(const std::string& address) { up(publishing_, &BrokerStatus::publishing_at, address); }
  void not_consuming(const Error& why) { change(consuming_, false, true, why.message, refuses(why)); }
  void not_publishing(const Error& why) { change(publishing_, false, true, why.message, refuses(why)); }
  void blocked(bool yes, std::string reason = {}) { change(blocked_, yes, yes, std::move(reason)); }
  void topology(const TopologyReport& report) {
    if (told_) sink_.on_topology(report);
  }

 private:
  static bool refuses(const Error& why) { return why.kind == Error::Kind::refused; }
  struct Side {
    bool BrokerStatus::*what;
    std::string reason;  // the last of its own: two sides that fail in different words must not take turns
    bool refused = false;
  };

  void up(Side& side, std::string BrokerStatus::*at, const std::string& address) {
    {
      const std::lock_guard lock(mutex_);
      status_.*at = address;
    }
    change(side, true, false, {});
  }

  void change(Side& side, bool to, bool worse, std::string reason, bool refused = false) {
    std::lock_guard lock(mutex_);
    if (status_.*side.what == to && (!worse || side.reason == reason)) return;
    status_.*side.what = to;
    side.reason = worse ? std::move(reason) : std::string();
    side.refused = worse && refused;
    if (worse) status_.reason = side.reason;
    status_.refused = consuming_.refused || publishing_.refused;
    if (told_) sink_.on_status(status_);
  }

  BrokerSink& sink_;
  const bool told_;
  std::mutex mutex_;
  // Guarded by mutex_.
  BrokerStatus status_;
  Side consuming_{&BrokerStatus::consuming, {}, false}, publishing_{&BrokerStatus::publishing, {}, false},
      blocked_{&BrokerStatus::blocked, {}, false};
};

}  // namespace rung::rabbit
