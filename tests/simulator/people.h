// Simulated people: they change single tasks and many at once, through a sidecar and by the command line.
// Thread: one.
#pragma once

#include <memory>

#include "tests/simulator/producers.h"

namespace rung::sim {

class People {
 public:
  People(World& world, BrokerServer& server, Judge& judge, const Nodes& nodes);

  void start();  // until the active time is over
  void discard(TaskId id);
  void set_unknown();  // a newer version of Rung writes an unknown state, and restores the old one later

 private:
  void once();
  void change(TaskId id, const Happening& what);
  void bulk();
  Bulk begin(const NewBulk& asked);
  void redrive_carefully();
  void edit();
  void move_copy();
  void pause();
  void pause(const std::string& queue, Us lasts);
  void by_bridge(TaskId id, const Happening& what);
  void by_hand(TaskId id, const Happening& what);
  Happening draw();
  std::optional<TaskId> some_task();

  World& world_;
  BrokerServer& server_;
  Judge& judge_;
  const Nodes& nodes_;
  const std::unique_ptr<MemoryStore> store_;
  IdSource ids_{1023};
  Rng dice_;
};

}  // namespace rung::sim
