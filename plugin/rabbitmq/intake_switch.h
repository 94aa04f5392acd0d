// Whether to consume, as ordered by the consumer's owner: pause, resume, or stop for good.
// Thread: stop, pause and stopped from any; the rest from the consumer's own.
#pragma once

#include <atomic>
#include <utility>

namespace rung::rabbit {

class IntakeSwitch {
 public:
  void stop() { stopped_.store(true, std::memory_order_release); }
  bool stopped() const { return stopped_.load(std::memory_order_acquire); }
  void pause(bool yes) {
    if (yes) return_due_.store(true, std::memory_order_release);
    paused_.store(yes, std::memory_order_release);
  }

  // A new connection: the end of the old one has returned its unacked messages.
  void begin_connection() {
    return_due_.store(false, std::memory_order_release);
    cancelled_ = false;
    consuming_ = !paused_.load(std::memory_order_acquire);
  }
  bool consuming() const { return consuming_; }  // as of the last Step; not updated by stop()
  // True once per connection after stop(): cancel its consumers now.
  bool take_cancel() { return stopped() && !std::exchange(cancelled_, true); }

  // What to do now. Even a pause that ended before we saw it returns the deliveries: whoever paused us has
  // dropped them.
  struct Step {
    bool return_deliveries = false;
    bool consume = false;  // start consuming again
    bool nothing() const { return !return_deliveries && !consume; }
  };
  Step next() {
    if (stopped()) return {};
    const bool due = return_due_.exchange(false, std::memory_order_acq_rel);
    const bool paused = paused_.load(std::memory_order_acquire);
    Step step;
    step.return_deliveries = consuming_ && (due || paused);
    step.consume = !paused && (!consuming_ || step.return_deliveries);
    if (!step.nothing()) consuming_ = step.consume;
    return step;
  }

 private:
  std::atomic<bool> stopped_{false}, paused_{false};
  std::atomic<bool> return_due_{false};  // paused since the last check, if only briefly

  // Used by the consumer's thread only.
  bool consuming_ = true;
  bool cancelled_ = false;  // stop() has been carried out on this connection
};

}  // namespace rung::rabbit
