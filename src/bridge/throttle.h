// Tasks that are due, of queues with a rate, a rate for each value of a header, or a limit on deliveries in
// flight. They wait here until the database grants them permits, which all instances share (permits.h).
// Within a value the oldest goes first; values take turns. Thread: the loop's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/bridge/gates.h"
#include "src/bridge/queue_names.h"
#include "src/bridge/shards.h"
#include "src/bridge/store_jobs.h"
#include "src/bridge/task_tracker.h"
#include "src/core/policy.h"
#include "src/io/loop.h"

namespace rung::bridge {

class Throttle {
 public:
  // Tasks that are kept in memory, of one queue and of all. The sweep finds the others when there is room.
  static constexpr std::size_t kMostKept = 200'000, kMostInAll = 250'000;

  struct Deps {
    StoreJobs& jobs;
    DbClock& clock;
    Shards& shards;
    QueueNames& names;
    const Gates& gates;
    const RuleBookPtr& rules;  // replaced by a reload
    TaskTracker& tracker;
    std::function<void(const std::vector<io::DueItem>&)> release;  // they may be claimed now
    // How many tasks of the queue can be sent now: permits for more would be used later, all at once.
    std::function<std::size_t(std::uint32_t queue)> room;
  };
  Throttle(io::Loop& loop, Deps deps);

  // Whether tasks of this queue need permits.
  bool holds(std::uint32_t queue) const;
  void add(const io::DueItem& item);
  // A released task is not to be sent any more: its permit goes back.
  void not_sent(const io::DueItem& item);
  // Gates or rules may have changed.
  void changed();
  // Call each second: forgets the tasks of shards that are no longer ours. Nothing if the shards are the
  // same.
  void tidy();
  std::optional<io::DueItem> take_oldest(std::uint32_t queue);
  void clear(const std::function<void(TaskId)>& gone);

  std::size_t waiting() const { return waiting_; }
  std::size_t waiting(std::uint32_t queue) const;
  // Queues with tasks that have been waiting for permits for a second or longer.
  std::vector<std::string> limited() const;

 private:
  struct Later {
    bool operator()(const io::DueItem& a, const io::DueItem& b) const { return a.at > b.at; }
  };
  using Oldest = std::priority_queue<io::DueItem, std::vector<io::DueItem>, Later>;
  struct Released {
    io::DueItem item;
    std::string value;
  };
  struct Queue {
    std::map<std::string, Oldest, std::less<>> values;  // by value of the header; "" = none
    std::vector<io::DueItem> unknown;                   // their values have not been read yet
    std::vector<io::DueItem> looked_up;                 // they are being read
    std::string header;                                 // the one whose values these are
    std::unordered_map<TaskId, Released> released;      // and not known to be claimed
    PermitCounts returned;                              // permits that go back with the next request
    std::string turn;
    std::size_t waiting = 0;
    bool asking = false;
    BootMs not_before{0};               // of the next request
    BootMs told_at{0};                  // when the database was last told how many permits are unused
    std::optional<BootMs> short_since;  // since when it has got fewer permits than it asked for
    bool in_use() const { return waiting > 0 || !released.empty() || !returned.empty() || asking; }
  };

  const GateRules& rules(std::uint32_t queue) const;
  void work();
  void look_up(std::uint32_t number, Queue& queue);
  PermitCounts wanted(std::uint32_t number, Queue& queue) const;
  void ask(std::uint32_t number, Queue& queue);
  void granted(std::uint32_t number, const PermitCounts& wanted, const PermitCounts& granted);
  void release_all(Queue& queue);
  int unused(Queue& queue) const;
  std::size_t count(const Queue& queue) const;
  void put(Queue& queue, const std::string& value, const io::DueItem& item);
  void soon();

  const Deps deps_;
  io::Loop& loop_;
  std::map<std::uint32_t, Queue> queues_;  // those that had tasks lately
  std::size_t waiting_ = 0;
  std::vector<int> tidied_for_;  // the shards that were ours
  io::Timer again_;
  bool posted_ = false;
};

}  // namespace rung::bridge
