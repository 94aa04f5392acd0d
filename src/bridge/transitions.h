// Gathers what happens to tasks, from every flow, into batches: one transaction each. While one batch is with
// the database the next one gathers, so that batches grow with the load by themselves (group commit). A
// broker's confirm, which nobody waits for, waits some ms for others. Thread: the loop's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "src/bridge/gather.h"
#include "src/bridge/store_threads.h"
#include "src/core/machine.h"

namespace rung::bridge {

class Transitions {
 public:
  using Done = std::function<void(const Result<Decision>&)>;

  // `fence` is asked when a batch leaves; `rules` too, so that a reload holds from the next batch on.
  // `after` runs once after each batch's callbacks: acks leave together.
  Transitions(io::Loop& loop, StoreThreads& threads, std::function<Fence()> fence,
              std::function<RuleBookPtr()> rules, std::function<void()> after);

  // Call flush() when a handler has added all it has. `connection`: of the delivery that it is about, if it
  // is about one.
  void add(Event event, Done done, std::uint32_t connection = 0);
  // Lets go of what waits from older connections of the broker's: it comes again.
  void forget_before(std::uint32_t connection);
  void flush();
  bool idle() const { return waiting_.empty() && in_flight_ == 0; }

 private:
  struct Item {
    Event event;
    Done done;
    std::uint32_t connection = 0;
    bool alone =
        false;  // the batch it was in failed for good: it goes by itself, so as not to take others down
  };
  bool worth_a_turn();
  void leave(std::vector<Item> batch);
  void arrived(std::vector<Item>& batch, Result<std::vector<Decision>> result);

  StoreThreads& threads_;
  const std::function<Fence()> fence_;
  const std::function<RuleBookPtr()> rules_;
  const std::function<void()> after_;
  std::deque<Item> waiting_;
  Gather gather_;
  std::size_t pressing_ = 0;  // of waiting_: those that somebody waits for
  int in_flight_ = 0;
};

inline Decider decider(RuleBookPtr rules) {
  return [rules = std::move(rules)](const Task& task, const Happening& what, const Circumstances& at) {
    return decide(task, what, *rules, at);
  };
}

}  // namespace rung::bridge
