// The event loop: timers, and post(), the one door into it from other threads. What runs on it sees it as an
// interface, so that a simulator can drive timers and jobs by a clock of its own.
// Thread: everything here belongs to the loop's own thread; post() and clock() are for any.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "src/core/clock.h"

namespace rung::io {

class Loop {
 public:
  virtual ~Loop() = default;

  virtual const Clock& clock() const = 0;

  // Runs `task` on the loop, in the order of posting. What is posted is bounded by those who post: a broker
  // by its prefetch and unconfirmed window, a store thread by the jobs it was given. What is still posted
  // when the loop has ended is dropped.
  virtual void post(std::function<void()> task) = 0;

  // What a Timer is made of.
  class Alarm {
   public:
    virtual ~Alarm() = default;
    virtual void start(Ms delay, Ms repeat) = 0;
    virtual void stop() = 0;
    virtual bool active() const = 0;
  };
  virtual std::unique_ptr<Alarm> make_alarm(std::function<void()> fire) = 0;
  // The clock that timers run by. It may stand still while the machine sleeps, which clock() does not.
  virtual Ms timer_clock() const = 0;
};

class Timer {
 public:
  Timer(Loop& loop, std::function<void()> fire) : alarm_(loop.make_alarm(std::move(fire))) {}
  // Fires once after `delay`, then every `repeat` where that is above 0. Starting again replaces.
  void start(Ms delay, Ms repeat = Ms{0}) { alarm_->start(delay, repeat); }
  void stop() { alarm_->stop(); }
  bool active() const { return alarm_->active(); }

 private:
  const std::unique_ptr<Loop::Alarm> alarm_;
};

}  // namespace rung::io
