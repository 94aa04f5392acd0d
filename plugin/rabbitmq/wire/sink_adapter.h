// What the connections of one broker report to its sink. All but the status goes straight to sink(). The
// status is combined here from both sides; the sink is called only when it changes, one call at a time.
// Thread: any.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "plugin/broker.h"

namespace rung::rabbit {

class SinkAdapter {
 public:
  // silent: the sink wants only the results of a helper's connection, not its status.
  enum class Status : std::uint8_t { reported, silent };
  enum class Side : std::uint8_t { intake, publishing };

  explicit SinkAdapter(BrokerSink& sink, Status status = Status::reported)
      : sink_(sink), reported_(status == Status::reported) {}

  BrokerSink& sink() { return sink_; }
  // That side's connection is up, at this "host:port".
  void up(Side side, const std::string& address) {
    const std::lock_guard lock(mutex_);
    (side == Side::intake ? status_.consuming_at : status_.publishing_at) = address;
    change(flag_of(side), true, false, {}, false);
  }
  void down(Side side, const Error& why) {
    const std::lock_guard lock(mutex_);
    change(flag_of(side), false, true, why.message, why.kind == Error::Kind::refused);
  }
  void blocked(bool yes, std::string reason = {}) {
    const std::lock_guard lock(mutex_);
    change(blocked_, yes, yes, std::move(reason), false);
  }

 private:
  // One flag of the status, with its own reason: two sides that fail with different messages must not report
  // in turns.
  struct Flag {
    bool BrokerStatus::*what;
    std::string reason = {};
    bool refused = false;
  };
  Flag& flag_of(Side side) { return side == Side::intake ? consuming_ : publishing_; }

  // REQUIRES: mutex_ is held.
  void change(Flag& flag, bool to, bool worse, std::string reason, bool refused) {
    if (status_.*flag.what == to && (!worse || flag.reason == reason)) return;
    status_.*flag.what = to;
    flag.reason = worse ? std::move(reason) : std::string();
    flag.refused = worse && refused;
    if (worse) status_.reason = flag.reason;
    status_.refused = consuming_.refused || publishing_.refused;
    if (reported_) sink_.on_status(status_);
  }

  BrokerSink& sink_;
  const bool reported_;
  std::mutex mutex_;
  // Guarded by mutex_.
  BrokerStatus status_;
  Flag consuming_{&BrokerStatus::consuming}, publishing_{&BrokerStatus::publishing},
      blocked_{&BrokerStatus::blocked};
};

}  // namespace rung::rabbit
