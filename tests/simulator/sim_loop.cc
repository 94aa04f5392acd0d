#include "tests/simulator/sim_loop.h"

#include <algorithm>
#include <utility>

namespace rung::sim {

class SimLoop::SimAlarm final : public Alarm {
 public:
  SimAlarm(SimLoop& loop, std::function<void()> fire) : loop_(loop), state_(std::make_shared<State>()) {
    state_->fire = std::move(fire);
  }
  ~SimAlarm() override { stop(); }

  void start(Ms delay, Ms repeat) override {
    stop();
    state_->active = true;
    arm(loop_, state_, std::max<std::int64_t>(delay.count(), 0), repeat.count());
  }
  void stop() override {
    ++state_->generation;
    state_->active = false;
  }
  bool active() const override { return state_->active; }

 private:
  struct State {  // outlives the alarm where an event of it is still on its way
    std::function<void()> fire;
    std::uint64_t generation = 0;
    bool active = false;
  };

  static void arm(SimLoop& loop, const std::shared_ptr<State>& state, std::int64_t delay,
                  std::int64_t repeat) {
    // libuv counts in ms from a time that it read earlier: up to one early, and late by what a turn takes.
    const Us late = loop.dice_.between(delay > 1 ? -900 : 0, 300);
    loop.world_.events.after(delay * kMs + late, loop.process_,
                             [&loop, state, repeat, generation = state->generation] {
                               if (state->generation != generation) return;
                               state->active = repeat > 0;
                               const std::shared_ptr<State> kept = state;  // the owner may go in fire()
                               if (repeat > 0) arm(loop, kept, repeat, repeat);
                               kept->fire();
                             });
  }

  SimLoop& loop_;
  const std::shared_ptr<State> state_;
};

std::unique_ptr<io::Loop::Alarm> SimLoop::make_alarm(std::function<void()> fire) {
  return std::make_unique<SimAlarm>(*this, std::move(fire));
}

}  // namespace rung::sim
