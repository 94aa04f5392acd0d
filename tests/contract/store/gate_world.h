// The fixture of tests of gates: states of queues, as they are written, read and shown.
#pragma once

#include "tests/contract/store/world.h"

namespace rung::test {

class GateWorld : public StoreContract {
 protected:
  static constexpr Ms kLong{3'600'000};

  GateState change(const std::string& queue, const std::function<void(GateState&, EpochMs)>& how) {
    return must(store_->change_gate(queue, [&](GateState& state, EpochMs now) {
      how(state, now);
      return std::vector<SystemEvent>{};
    }));
  }
  // As a new handle reads it.
  std::optional<GateState> read(const std::string& queue) {
    auto other = open();
    for (const GateState& one : must(other->gate_states())) {
      if (one.queue == queue) return one;
    }
    return std::nullopt;
  }
  QueueGate shown(const std::string& queue) {
    for (const QueueGate& one : must(database().queue_gates())) {
      if (one.queue == queue) return one;
    }
    throw std::runtime_error("no row for the queue " + queue);
  }
  TaskId waiting(const std::string& queue, EpochMs due) {
    NewTask n = task(queue);
    n.task.next_at = due;
    must(store_->insert(std::span(&n, 1), Fence{0, {}, true}));
    return n.task.id;
  }
};

inline Breaker open_breaker(EpochMs now) {
  Breaker breaker;
  breaker.state = Breaker::State::open;
  breaker.since = breaker.opened_at = now;
  breaker.until = now + Ms{30'000};
  breaker.opened = 1;
  breaker.reason =
      "20 of the last 100 deliveries failed, the last one with: \"connect\\refused\" \u00fc \U0001F600";
  return breaker;
}

}  // namespace rung::test
