// Leases: which of the 64 shards this instance holds, renewed every third of the lease, balanced among the
// live instances, given back and taken over. docs/design.md, Shards. Thread: the loop's; the work of a cycle
// runs on the control lane.
//
// A cycle (beat, renew, give back, look, take) comes every third of the lease; besides, when the first lease
// of somebody else runs out, which the living never let happen; and soon, while shards are changing hands. No
// two instances keep step: each of these times has a random part.
//
// An instance that has lost the broker gives up all that it holds as long as another one can publish.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "src/bridge/store_jobs.h"
#include "src/core/db_clock.h"
#include "src/io/loop.h"
#include "src/store/leases.h"

namespace rung::bridge {

struct Gained {
  Lease lease;
  // From when on what the former owner left in `publishing` may be published again: its connection to the
  // broker must be dead by then. At once where that owner was this node's former life, or gave the shard
  // back.
  BootMs recover_at;
};

class Shards {
 public:
  struct Settings {
    NodeIdentity identity;
    Ms lease{std::chrono::seconds{10}};
    Ms connection_death{std::chrono::seconds{30}};  // 3 x heartbeat: a silent connection is closed by then
  };
  // Something about the database that people must know. Work goes on.
  struct Notice {
    enum class Kind { clock_stepped, restored };
    Kind kind = Kind::clock_stepped;
    std::string detail;  // for people
  };
  struct Listener {
    std::function<void(const std::vector<Gained>&)> gained;
    std::function<void(const std::vector<int>&)> lost;  // without our will: act on nothing of theirs
    std::function<void(BootMs)> publish_until;          // the fence, after each renewal
    std::function<void()> name_taken;                   // another process runs under our name: stop
    std::function<void(const Notice&)> noticed;
  };

  Shards(io::Loop& loop, StoreJobs& jobs, DbClock& clock, Settings settings, Listener listener);

  // Takes the node's name, and shards. Call when the broker has answered: who cannot publish must not take
  // the name, and the shards, from a process that can. The second call does nothing.
  void start();
  // The connection for publishing. Who has lost it gives its shards up as long as another instance is `up`,
  // and publish_until({0}) is called; where nobody is, everybody keeps what it has.
  void set_link(BrokerLink link);
  bool stepped_back() const { return stepped_back_; }
  // Gives everything back, the fence closed; `done` once the database has it.
  void leave(std::function<void()> done);

  // Goes to the database with each heartbeat, for `rung stats` and `rung nodes`.
  void set_problems(std::vector<HealthProblem> problems) { problems_ = std::move(problems); }

  int node() const { return node_; }
  bool any() const { return count_ > 0; }
  int count() const { return count_; }
  // Of the lease that we have; 0 = none.
  std::uint64_t epoch(int shard) const { return slot(shard).epoch; }
  // Held, and not about to be given back: new work may be claimed and put there.
  bool held(int shard) const { return slot(shard).epoch != 0 && !slot(shard).leaving; }
  std::vector<int> list() const;      // those held
  std::vector<Lease> leases() const;  // all, also those about to be given back
  Fence fence() const { return {node_, leases()}; }
  // A held shard for a new task, in turn; -1 where there is none.
  int home();
  // REQUIRES: node() is known, as it is once a shard is held.
  TaskId new_id(EpochMs now);

  // A claim or a publish of this shard is under way: it is not given back before as many have ended.
  void begin_use(int shard) { ++uses_[static_cast<std::size_t>(shard)]; }
  void end_use(int shard) { --uses_[static_cast<std::size_t>(shard)]; }
  bool in_use(int shard) const { return uses_[static_cast<std::size_t>(shard)] > 0; }

 private:
  struct Slot {
    std::uint64_t epoch = 0;  // 0 = not held
    bool leaving = false;     // to be given back: no new claims
    bool stuck = false;       // a publish of it has been without an answer while it was to leave
    BootMs leaving_since{0};
  };
  struct Cycle;  // what goes to the database and comes back
  const Slot& slot(int shard) const { return slots_[static_cast<std::size_t>(shard)]; }
  Slot& slot(int shard) { return slots_[static_cast<std::size_t>(shard)]; }

  void begin_cycle();
  static Result<void> read_clock(Cycle& cycle, const Clock& here, LeaseStore& store);
  static Result<Cycle> perform(Cycle cycle, const Settings& settings, const Clock& here, LeaseStore& store);
  // Whether the beat says that the database went back in time. Then the name is taken again.
  static Result<void> look_back(Cycle& cycle, const Settings& settings, const Clock& here, LeaseStore& store,
                                LeaseStore::Beat& beat);
  void end_cycle(const Cycle& cycle);
  void notice(const Cycle& cycle);
  void plan_surplus(int surplus);
  void step_back(bool yes);
  void arm(const Cycle* cycle);  // the next one; none where this one failed
  void give_back();
  Ms some(Ms most);  // 0 to most

  StoreJobs& jobs_;
  DbClock& clock_;
  const Settings settings_;
  const Listener listener_;
  io::Timer timer_, patience_;
  std::minstd_rand dice_;
  int node_ = 0;
  std::vector<HealthProblem> problems_;
  std::unique_ptr<IdSource> ids_;  // made when the node's number is known
  std::array<Slot, kShards> slots_{};
  std::array<int, kShards> uses_{};
  int count_ = 0;
  int next_home_ = 0;
  // What tells a database that went back in time from another process with our name.
  std::uint64_t beats_ = 0;          // of our node's row after our last beat; 0 = never registered
  std::uint64_t highest_epoch_ = 0;  // of any shard, ever seen
  bool row_gone_ = false;            // our node's row was missing in the last cycle
  struct Offset {                    // database's clock - boot clock, us: between these two
    std::int64_t least = 0, most = 0;
    BootUs at;
  };
  std::optional<Offset> offset_;
  BootMs begun_{0};  // the last cycle
  Ms hurry_{0};      // until the next one, while shards change hands
  BrokerLink link_ = BrokerLink::up;
  bool stepped_back_ = false;  // another instance can publish, and we cannot: no shard is due to us
  bool started_ = false;
  bool cycling_ = false;
  bool leaving_ = false;
  std::function<void()> left_;
};

// How many of the shards the instance is due, so that all differ by one at most. `live`: ids, ascending; an
// instance that is not among them is due none.
int fair_share(int node, const std::vector<int>& live);
// The ids of those among whom the shards are shared, ascending: who can publish; all, where nobody can.
std::vector<int> sharers(const std::vector<NodeRow>& live);

}  // namespace rung::bridge
