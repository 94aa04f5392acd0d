// Plans and injects the faults of a simulation, drawn from the seed. Each ends before the active time is
// over, except for a queue that never answers again. Thread: one.
#pragma once

#include <string>

#include "tests/simulator/people.h"

namespace rung::sim {

class Faults {
 public:
  Faults(World& world, BrokerServer& server, Judge& judge, Nodes& nodes, People& people);

  void start();  // plans all faults
  // Ends all faults; every node runs from now on.
  void end();
  const std::string& dead_queue() const { return dead_queue_; }

 private:
  void plan(Fault fault);
  void happen(Fault fault, Rng dice);
  void to_a_node(Fault fault, Rng& dice);
  void to_the_broker(Fault fault, Rng& dice);
  void to_the_store(Fault fault, Rng& dice);
  void slow_down(Node& node, Us by, Us length);
  void twin(Node& node, Us length);
  // Runs `undo` after `length`, or when the active time is over; until then the world counts a fault as
  // active.
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
