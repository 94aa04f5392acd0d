// What this instance tells the others, and people, about the gates of queues: outcomes of deliveries for
// breakers, a consumer's retry-after that holds back a whole queue, that a queue is outside its window or
// that a rate limits it. Merged in memory, and written for many queues in one transaction, at most four times
// a second. Queues that the config does not name are named by messages: of those, kMostPending have something
// that waits to be written. Thread: the loop's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/bridge/base/store_jobs.h"
#include "src/bridge/gates/gates.h"
#include "src/core/base/db_clock.h"
#include "src/core/base/ids.h"
#include "src/core/gates/breaker.h"
#include "src/core/gates/gates.h"
#include "src/core/rules/policy.h"
#include "src/io/loop.h"

namespace rung::bridge {

class GateWriter {
 public:
  struct Deps {
    StoreJobs& jobs;
    DbClock& clock;
    Gates& gates;
    const RuleBookPtr& rules;  // replaced by a reload
    // The queues that a rate limits now.
    std::function<std::vector<std::string>()> limited;
    // The answer to ask_for_probe(): the probe's number; 0 = none may go now.
    std::function<void(const std::string& queue, int probe)> granted;
    NodeIdentity identity;
  };
  static constexpr std::size_t kMostPending = 2000;

  GateWriter(io::Loop& loop, Deps deps);

  void start();
  void stop();

  // REQUIRES, of these three: the queue has a breaker.
  void outcome(const std::string& queue, DeliveryOutcome outcome);
  void ask_for_probe(const std::string& queue);
  // Call if a probe got no answer for too long, or if no instance has confirmed the breaker for a while.
  void look_after(const std::string& queue);
  // A consumer of this task asked that the queue wait.
  void hold_queue(const std::string& queue, Ms wait, TaskId task);

  // Queues with something that is not written yet.
  std::size_t pending() const { return pending_.size(); }

 private:
  struct Note : GateNote {
    bool queued = false;  // in ready_
  };
  using Notes = std::map<std::string, Note>;
  using Probes = std::map<std::string, int>;

  bool is_listed(const std::string& queue) const { return deps_.rules->queues().contains(queue); }
  bool make_room(const std::string& queue);
  Note* note(const std::string& queue);
  void ready(const std::string& queue, Ms wait);
  void tick();
  void note_windows();
  void note_limit(const std::string& queue);
  void forget_unused();
  void flush();
  void written(const Notes& notes, const Probes& probes, const Result<std::vector<GateState>>& states);

  const Deps deps_;
  Notes pending_;
  std::deque<std::string> ready_;  // those of them that are to be written soon, each once
  bool writing_ = false;
  std::uint64_t batches_ = 0;
  std::int64_t ticks_ = 0;
  BootMs wrote_at_{0}, fires_at_{0};
  io::Timer tick_, flush_;
};

}  // namespace rung::bridge
