// Waits until no work is under way: polls every 20 ms. Thread: the loop's.
#pragma once

#include <functional>
#include <utility>

#include "src/io/loop.h"

namespace rung::bridge {

class DrainWait {
 public:
  // `idle`: nothing is under way any more.
  DrainWait(io::Loop& loop, std::function<bool()> idle)
      : idle_(std::move(idle)), timer_(loop, [this] { look(); }) {}

  // `end` is called once, when all is idle.
  void begin(std::function<void()> end) {
    begun_ = true;
    end_ = std::move(end);
    timer_.start(Ms{0}, Ms{20});
  }
  bool begun() const { return begun_; }
  // `end` is no longer called.
  void stop() { timer_.stop(); }

 private:
  void look() {
    if (!idle_()) return;
    timer_.stop();
    end_();
  }

  const std::function<bool()> idle_;
  std::function<void()> end_;
  io::Timer timer_;
  bool begun_ = false;
};

}  // namespace rung::bridge
