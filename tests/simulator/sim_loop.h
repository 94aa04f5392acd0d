// A node's loop: its tasks and timers are events of the simulation. Thread: one.
#pragma once

#include <functional>
#include <memory>

#include "src/io/loop.h"
#include "tests/simulator/world.h"

namespace rung::sim {

class SimLoop final : public io::Loop {
 public:
  SimLoop(World& world, ProcessPtr process, const Clock& clock, Rng dice)
      : world_(world), process_(std::move(process)), clock_(clock), dice_(dice) {}

  const Clock& clock() const override { return clock_; }
  void post(std::function<void()> task) override { world_.events.after(0, process_, std::move(task)); }
  std::unique_ptr<Alarm> make_alarm(std::function<void()> fire) override;
  Ms timer_clock() const override { return Ms{clock_.boot().ms}; }

 private:
  class SimAlarm;

  World& world_;
  const ProcessPtr process_;
  const Clock& clock_;
  Rng dice_;
};

}  // namespace rung::sim
