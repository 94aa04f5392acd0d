// A connection to the simulated database: the memory store, whose calls take time in both directions, and may
// fail. Anything may happen between two calls of one job; a lease may expire, for example. Called within a
// fiber.
// Thread: one.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/simulator/fiber.h"
#include "tests/simulator/watcher.h"
#include "tests/simulator/world.h"
#include "tests/support/memory/memory_store.h"

namespace rung::sim {

// The current faults of the database, as one node sees them.
struct DbTrouble {
  int away = 0;  // number of outages at the same time
  double fail = 0, lose = 0, stall = 0;
};

// One attempt at a job, as its calls see it.
struct Attempt {
  std::unique_ptr<Fiber> fiber;
  std::function<void()> ended;  // called when it has ended, unless it was abandoned
  bool in_server = false;       // the request was sent: it takes effect in any case
  bool abandoned = false;       // its process has died, or no longer waits
  std::uint64_t calls = 0;

  void go() {
    fiber->resume();
    if (fiber->done() && !abandoned) ended();
  }
};

class FaultyStore final : public MemoryStore {
 public:
  struct Deps {
    World& world;
    ProcessPtr process;
    const DbTrouble& trouble;
    Watcher& watcher;
    Rng& dice;
    std::function<void(const std::shared_ptr<Attempt>&)> timed_out;
    std::function<void()> step;  // called when a call took effect: a point at which a node may be killed
  };
  explicit FaultyStore(Deps deps);
  // Whose calls come from now on.
  void serve(std::weak_ptr<Attempt> attempt) { attempt_ = std::move(attempt); }

  EpochUs clock() override;
  std::vector<Inserted> insert(std::span<const NewTask> tasks, const Fence& fence) override;
  std::vector<Decision> apply(std::span<const Event> events, const Fence& fence, const Decider& decide,
                              const BulkStep* step) override;
  Claimed claim(std::span<const Event> claims, const Fence& fence, const Decider& decide,
                std::size_t most_bytes) override;
  void write_claims(std::span<const TaskId> ids) override;

 private:
  struct Plan {  // of one call
    Us there = 0, back = 0;
    bool away = false, fails = false, refused = false, answer_lost = false;
  };
  Plan draw();
  // Waits. `server`: also if the process is gone or paused meanwhile.
  void travel(Us time, bool server);
  std::optional<Error> arrive();
  void before_call() override;
  void after_call() override;
  // For those that the memory store doesn't do in a call of its own, and those that are watched.
  template <typename F>
  auto call(F body) -> decltype(body());

  const Deps deps_;
  std::weak_ptr<Attempt> attempt_;
  Plan plan_;
  bool in_call_ = false;
};

}  // namespace rung::sim
