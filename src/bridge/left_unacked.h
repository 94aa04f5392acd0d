// Deliveries that could be neither stored nor recorded, and publishes whose result could not be recorded:
// each is tried again by a timer for as long as its connection stands, so that none is forgotten. The problem
// "unrecorded" stands meanwhile. Thread: the loop's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>

#include "src/bridge/health.h"
#include "src/io/loop.h"

namespace rung::bridge {

class LeftUnacked {
 public:
  static constexpr Ms kEvery{5000};
  static constexpr std::size_t kMostAtOnce = 100;  // in one turn of the timer

  // `after` runs after each turn: what the retries have gathered leaves.
  LeftUnacked(io::Loop& loop, Health& health, std::function<void()> after, Ms every = kEvery);

  // `again` is called once, a turn later; where that fails, it adds itself again. `connection`: of the
  // delivery, 0 where it is about none.
  void add(std::uint32_t connection, const std::string& reason, std::function<void()> again);
  // Lets go of deliveries of older connections: the broker brings them again.
  void forget_before(std::uint32_t connection);
  // Tries nothing further: what is left stays with the broker, and rows stay as they are.
  void drain();
  std::size_t size() const { return waiting_.size(); }

 private:
  struct Item {
    std::uint32_t connection = 0;
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
