// What all parts of a simulated world share. Thread: one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/core/base/time.h"
#include "tests/simulator/events.h"
#include "tests/simulator/rng.h"
#include "tests/simulator/settings.h"
#include "tests/support/memory/memory_store.h"

namespace rung::sim {

// A machine's boot clock: the simulated time, with a different zero.
class NodeClock final : public Clock {
 public:
  NodeClock(const Events& events, Us offset) : events_(events), offset_(offset) {}
  BootUs boot_us() const override { return {events_.now() + offset_}; }
  EpochMs wall() const override { return {1'790'000'000'000 + events_.now() / 1000}; }

 private:
  const Events& events_;
  const Us offset_;
};

// The database's wall clock, which may step.
class DbWall final : public Clock {
 public:
  explicit DbWall(const Events& events) : events_(events) {}
  BootUs boot_us() const override { return {events_.now()}; }
  EpochMs wall() const override { return {us() / 1000}; }
  std::int64_t us() const { return 1'790'000'000'000'000 + events_.now() + stepped_; }
  void step(Us by) { stepped_ += by; }

 private:
  const Events& events_;
  Us stepped_ = 0;
};

// The times with an active fault. A fault explains a repeat, and time limits count from its end.
class Troubles {
 public:
  void add(Us from, Us until) { spans_.emplace_back(from, until); }
  bool any_in(Us from, Us until) const {
    for (const auto& [begin, end] : spans_) {
      if (begin <= until && end >= from) return true;
    }
    return false;
  }

 private:
  std::vector<std::pair<Us, Us>> spans_;
};

// Adds a line to a message's story.
struct Note {
  Us at = 0;
  int message = 0;
  std::string text;
};

struct World {
  explicit World(const Settings& s)
      : settings(s),
        rules(world_rules(s)),
        wall(std::make_shared<DbWall>(events)),
        db(std::make_shared<MemoryDb>(wall, Rng(s.seed, "database").next())) {
    // Few tasks are claimed at once here: in every other world all claims are short.
    if (s.seed % 2 == 1) db->set_short_claims(1);
  }

  const Settings settings;
  const RuleBookPtr rules;
  Events events;
  const std::shared_ptr<DbWall> wall;
  const std::shared_ptr<MemoryDb> db;
  Troubles troubles;
  std::vector<Note> notes;
  std::function<void(std::string promise, int message)> broken;  // the judge's verdict; ends the simulation

  // `text` is a function, so that no text is built if nobody reads it.
  template <typename Text>
  void note(int message, Text text) {
    if (settings.record) notes.push_back({events.now(), message, text()});
  }
};

}  // namespace rung::sim
