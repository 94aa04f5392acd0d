#include "tests/simulator/simulation.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>

#include "tests/simulator/consumers.h"
#include "tests/simulator/faults.h"
#include "tests/simulator/messages.h"

namespace rung::sim {
namespace {

constexpr Us kSettling = 150 * kSecond;  // the longest that anything takes once all is well: CONTRIBUTING.md
constexpr Us kQuiet = 30 * kSecond;      // until the inlets are empty
constexpr Us kDrainMost = 10 * kSecond;
constexpr Us kTidyEvery = 10 * kSecond;

std::int64_t resident_mb() {
  std::int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE) / 1'000'000;
}

class Simulation {
 public:
  explicit Simulation(const Settings& settings)
      : world_(settings),
        judge_(world_),
        server_(world_, judge_),
        producers_(world_, server_, judge_, nodes_),
        consumers_(world_, server_, judge_, producers_),
        people_(world_, server_, judge_, nodes_),
        faults_(world_, server_, judge_, nodes_, people_) {
    judge_.set_server(server_);
    world_.broken = [this](std::string promise, int message) {
      if (!outcome_.broken.empty()) return;
      outcome_.broken = std::move(promise);
      outcome_.message = message;
      world_.events.stop();
    };
    for (int i = 0; i < settings.nodes; ++i)
      nodes_.push_back(
          std::make_unique<Node>(world_, server_, judge_, std::string(1, static_cast<char>('a' + i)), i));
  }

  Outcome run() {
    const Settings& settings = world_.settings;
    store_->set_setting("result_token_key", std::string(64, '7'));
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      world_.events.at(static_cast<Us>(i) * 300 * kMs, nullptr, [this, i] { nodes_[i]->start(); });
    producers_.start();
    people_.start();
    faults_.start();
    world_.events.after(kSecond, nullptr, [this] { look(); });
    if (settings.keep > 0) world_.events.after(kTidyEvery, nullptr, [this] { tidy(); });
    world_.events.run(world_.settings.active);
    if (!world_.events.stopped()) settle();
    if (!world_.events.stopped()) drain();
    outcome_.hash = world_.events.hash();
    outcome_.events = world_.events.count();
    outcome_.simulated_us = world_.events.now();
    tell_story();
    return std::move(outcome_);
  }

 private:
  // Memory has its bounds, at any time.
  void look() {
    const Settings& settings = world_.settings;
    for (const auto& node : nodes_) {
      if (!node->alive()) continue;
      if (node->loaded() > settings.max_loaded)
        world_.broken("what is in the heap is bounded: " + std::to_string(node->loaded()), 0);
      // Copies of parked messages have a bound of their own.
      if (node->unconfirmed() > static_cast<std::size_t>(settings.max_unconfirmed) + bridge::kMostInBatch)
        world_.broken("what is unconfirmed is bounded: " + std::to_string(node->unconfirmed()), 0);
    }
    world_.events.after(kSecond, nullptr, [this] { look(); });
  }

  // A steady world: judges and deletes tasks that ended a while ago, and discards parked ones.
  void tidy() {
    const EpochMs before = world_.db->now() - Ms{world_.settings.keep / kMs};
    for (const TaskId id : judge_.judge_ended(before)) people_.discard(id);
    while (store_->purge_finished(before, {}, 10'000).more) {
    }
    store_->sweep({}, {INT64_MAX}, 1'000'000);
    store_->purge_records(before, 1'000'000);
    server_.queues()["rung.parked"].ready.clear();
    if (const Us now = world_.events.now(); now / kHour != (now - kTidyEvery) / kHour) {
      std::printf("after %2lld h: %10llu events, %7zu tasks known, %4lld MB\n",
                  static_cast<long long>(now / kHour), static_cast<unsigned long long>(world_.events.count()),
                  judge_.facts().size(), static_cast<long long>(resident_mb()));
      std::fflush(stdout);
    }
    world_.events.after(kTidyEvery, nullptr, [this] { tidy(); });
  }

  void settle() {
    faults_.end();
    consumers_.be_kind();
    world_.note(0, [] { return std::string("all is well from now on"); });
    world_.events.run(world_.events.now() + kSettling);
    for (Us waited = 0; !server_.empty_inlets() && waited < kQuiet; waited += 100 * kMs)
      world_.events.run(world_.events.now() + 100 * kMs);
    if (world_.events.stopped()) return;
    if (const auto message = unacked()) return world_.broken("nothing stays unacked for ever", *message);
    judge_.final_look(faults_.dead_queue());
  }

  // A message that nobody has acked. A word on an attempt waits until its publish is answered, which a
  // queue that never answers prevents.
  std::optional<int> unacked() {
    const auto excused = [&](const Message& message) {
      return !faults_.dead_queue().empty() && judge_.is_for(number_of(message), faults_.dead_queue());
    };
    for (const LinkPtr& link : server_.links()) {
      for (const auto& [tag, unacked] : link->unacked) {
        if (!excused(unacked.copy.message)) return number_of(unacked.copy.message);
      }
    }
    for (const char* inlet : {"rung.failed", "rung.delay", "rung.results"}) {
      const auto& ready = server_.queues()[inlet].ready;
      if (!ready.empty()) return number_of(ready.front().message);
    }
    return std::nullopt;
  }

  // All end in an orderly way: at once, also where a claim of much comes back meanwhile.
  void drain() {
    int left = 0;
    if (world_.settings.has(Actor::big)) {
      producers_.burst(producers_.last() + 1000, 24, Ms{700});
      world_.events.run(world_.events.now() + 590 * kMs);
      for (const auto& node : nodes_) node->trouble().away = 1;
      world_.events.run(world_.events.now() + 60 * kMs);
    }
    for (const auto& node : nodes_) {
      if (!node->serves()) continue;
      ++left;
      node->drain([&left] { --left; });
    }
    world_.events.run(world_.events.now() + 100 * kMs);
    for (const auto& node : nodes_) node->trouble() = {};
    const Us until = world_.events.now() + kDrainMost;
    while (left > 0 && world_.events.now() < until && !world_.events.stopped())
      world_.events.run(world_.events.now() + 100 * kMs);
    // What waits for a queue that never answers is ended by force.
    if (left > 0 && faults_.dead_queue().empty() && !world_.events.stopped())
      world_.broken("a drain ends", 0);
    left = 0;
    for (const auto& node : nodes_) node->kill(false);
  }

  void tell_story() {
    if (!world_.settings.record) return;
    char stamp[32];
    for (const Note& note : world_.notes) {
      if (note.message != 0 && note.message != outcome_.message) continue;
      (void)std::snprintf(stamp, sizeof stamp, "%12.6f  ", static_cast<double>(note.at) / kSecond);
      outcome_.story.push_back(stamp + note.text);
    }
    for (const auto& node : nodes_) outcome_.story.push_back(node->state());
    for (std::string& row : judge_.rows_of(outcome_.message)) outcome_.story.push_back(std::move(row));
  }

  World world_;
  const std::unique_ptr<MemoryStore> store_ = open_memory_store(world_.db);
  Judge judge_;
  BrokerServer server_;
  Nodes nodes_;
  Producers producers_;
  Consumers consumers_;
  People people_;
  Faults faults_;
  Outcome outcome_;
};

}  // namespace

Outcome simulate(const Settings& settings) { return Simulation(settings).run(); }

}  // namespace rung::sim
