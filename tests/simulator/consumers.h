// The simulated consumers: what they do with each delivery. Thread: one.
#pragma once

#include <string>

#include "tests/simulator/producers.h"

namespace rung::sim {

class Consumers {
 public:
  Consumers(World& world, BrokerServer& server, Judge& judge, Producers& producers);

  // From now on every delivery succeeds.
  void be_kind() { kind_ = true; }

 private:
  struct Word {
    std::string queue;
    Message delivery;
  };
  void take(const std::string& queue);
  void handle(const std::string& queue, Copy copy);
  void act(const std::string& queue, const Copy& copy, Rng& dice);
  void fail(const Word& word, Rng& dice, bool by_result);
  void succeed(const Word& word);
  bool put(const std::string& exchange, const std::string& key, const Message& message,
           const std::function<void()>& said);

  World& world_;
  BrokerServer& server_;
  Judge& judge_;
  Producers& producers_;
  Rng dice_;
  bool kind_ = false;
};

}  // namespace rung::sim
