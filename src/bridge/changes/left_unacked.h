// Deliveries that could be neither stored nor recorded, and publishes whose result could not be recorded. A
// timer retries each while its session is current, so that none is forgotten. The problem "unrecorded" is set
// meanwhile. Thread: the loop's.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <string>

#include "plugin/broker.h"
#include "src/bridge/base/health.h"
#include "src/io/loop.h"

namespace rung::bridge {

class LeftUnacked {
 public:
  static constexpr Ms kEvery{5000};
  static constexpr std::size_t kMostAtOnce = 100;  // in one turn of the timer

  // `after` runs after each turn, to flush what the retries have added.
  LeftUnacked(io::Loop& loop, Health& health, std::function<void()> after, Ms every = kEvery);

  // Calls `again` once, a turn later; if that fails, `again` must call add() again. `session`: the
  // delivery's, {} if there is no delivery.
  void add(const IntakeSession& session, const std::string& reason, std::function<void()> again);
  // Drops deliveries of older sessions of this intake: the broker redelivers them.
  void forget_before(const IntakeSession& session);
  // Stops retrying: remaining deliveries stay with the broker, and rows stay as they are.
  void drain();
  std::size_t size() const { return waiting_.size(); }

 private:
  struct Item {
    IntakeSession session;
    std::function<void()> again;
  };
  void turn();
  void tell(const std::string& reason);

  Health& health_;
  const std::function<void()> after_;
  const Ms every_;
  std::deque<Item> waiting_;
  bool draining_ = false;
  io::Timer timer_;
};

}  // namespace rung::bridge
