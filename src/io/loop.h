// The event loop: timers, and post(), the only entry from other threads. Code on the loop sees an interface,
// so that a simulator can drive timers and jobs with its own clock.
// Thread: the loop's own for everything here; post() and clock(): any.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "src/core/base/time.h"

namespace rung::io {

class Loop {
 public:
  virtual ~Loop() = default;

  virtual const Clock& clock() const = 0;

  // Runs `task` on the loop, in the order of posting. The callers bound the queue: a broker by its prefetch
  // and unconfirmed window, a store thread by the jobs it was given. Tasks still queued when the loop ends
  // are dropped.
  virtual void post(std::function<void()> task) = 0;

  // Implements a Timer.
  class Alarm {
   public:
    virtual ~Alarm() = default;
    virtual void start(Ms delay, Ms repeat) = 0;
    virtual void stop() = 0;
    virtual bool active() const = 0;
  };
  virtual std::unique_ptr<Alarm> make_alarm(std::function<void()> fire) = 0;
  // The clock of the timers. Unlike clock(), it may stop while the machine sleeps.
  virtual Ms timer_clock() const = 0;
};

class Timer {
 public:
  Timer(Loop& loop, std::function<void()> fire) : alarm_(loop.make_alarm(std::move(fire))) {}
  // Fires once after `delay`, then every `repeat` if that is above 0. A second start() replaces the first.
  void start(Ms delay, Ms repeat = Ms{0}) { alarm_->start(delay, repeat); }
  void stop() { alarm_->stop(); }
  bool active() const { return alarm_->active(); }

 private:
  const std::unique_ptr<Loop::Alarm> alarm_;
};

}  // namespace rung::io
