// What goes wrong in a world, and when: drawn from the seed, each with an end before the active time is over
// (but for a queue that never answers again). Thread: one.
#pragma once

#include <string>

#include "tests/simulator/people.h"

namespace rung::sim {

class Faults {
 public:
  Faults(World& world, BrokerServer& server, Judge& judge, Nodes& nodes, People& people);

  void start();  // plans all of them
  // All is well from now on; every node runs.
  void end();
  const std::string& dead_queue() const { return dead_queue_; }

 private:
  void happen(Fault fault, Rng dice);
  void to_a_node(Fault fault, Rng& dice);
  void to_the_broker(Fault fault, Rng& dice);
  void to_the_store(Fault fault, Rng& dice);
  void slow_down(Node& node, Us by, Us length);
  void twin(Node& node, Us length);
  // `undo` after `length`, or when the active time is over; the world knows that something is wrong until
  // then.
  void undo_after(Us length, const std::function<void()>& undo);

  World& world_;
  BrokerServer& server_;
  Judge& judge_;
  Nodes& nodes_;
  People& people_;
  Nodes twins_;
  std::string dead_queue_;
};

}  // namespace rung::sim
