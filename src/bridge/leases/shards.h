// Leases: which of the 64 shards this instance holds, renewed every third of the lease, balanced among the
// live instances, given back and taken over. docs/design.md, Shards. Thread: the loop's; the work of a cycle
// runs on Lane::leases.
//
// A cycle (beat, renew, give back, look, take) runs every third of the lease; also when the first lease of
// another instance expires, which live instances never let happen; and soon, while shards are changing hands.
// Each of these times has a random part, so that instances do not run in lockstep.
//
//   lease  |-- cycle --|-- cycle --|-- cycle --|
//          renewed     renewed     renewed   | expires: another instance may take the shard, with epoch + 1
//                                        | the fence: from here on nothing is written to the broker's socket
//
// An instance that has lost the broker gives up all its shards as long as another one can publish.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "src/bridge/base/store_jobs.h"
#include "src/io/loop.h"

namespace rung::bridge {

// --- an instance's share of the shards. Thread: pure functions.

struct Gained {
  Lease lease;
  // When tasks that a former owner left in `publishing` may be published again: by then the broker connection
  // of the last owner that did not release the shard is dead, even if others have owned the shard since.
  BootMs recover_at;
  std::string from = {};  // the instance whose lease had expired; "" = the shard was free, or this node's
};

// The instance's share of the shards; shares differ by one at most. `live`: ids, ascending; the share of an
// instance not in it is 0.
int fair_share(int node, const std::vector<int>& live);
// The ids of the instances that share the shards, ascending: those that can publish, or all if none can.
std::vector<int> sharers(const std::vector<NodeRow>& live);

// --- a cycle

struct LeaseSettings {
  NodeIdentity identity;
  Ms lease{std::chrono::seconds{10}};
  Ms connection_death{std::chrono::seconds{30}};  // 3 x heartbeat: a silent connection is closed by then
};

// Tells a database that went back in time from another process with our name.
struct DatabaseMemory {
  std::uint64_t beats = 0;          // of our node's row after our last beat; 0 = never registered
  std::uint64_t highest_epoch = 0;  // of any shard, ever seen
  bool row_gone = false;            // our node's row was missing in the last cycle
};

// The database's clock, and ours before and after the reading.
struct ClockReading {
  EpochUs db;
  BootUs sent, received;
  std::int64_t took() const { return received.us - sent.us; }
};

// Detects steps of the database's clock by its offset from the machine's boot clock. Thread: the loop's.
class ClockStep {
 public:
  // The step since the last reading, ms: positive = forward; none: no step.
  std::optional<std::int64_t> see(const ClockReading& read) {
    const Offset now{read.db.us - read.received.us, read.db.us - read.sent.us, read.received};
    const auto before = std::exchange(offset_, now);
    if (!before) return std::nullopt;
    const std::int64_t allowed = kStepUs + (now.at.us - before->at.us) / kDrift;
    const std::int64_t ahead = now.least - before->most, back = now.most - before->least;
    if (ahead <= allowed && -back <= allowed) return std::nullopt;
    return (ahead > 0 ? ahead : back) / 1000;
  }

 private:
  // A larger change between two measurements is a step, not drift ...
  static constexpr std::int64_t kStepUs = 1'000'000;
  // ... which may be a five-hundredth (0.2 %) of the elapsed time.
  static constexpr std::int64_t kDrift = 500;

  struct Offset {  // bounds of database clock minus boot clock, us
    std::int64_t least = 0, most = 0;
    BootUs at;
  };
  std::optional<Offset> offset_;
};

// What each cycle writes of this instance, and what it knows from the last one.
struct NodeState {
  int node = 0;  // 0: not registered
  std::vector<HealthProblem> problems;
  BrokerLink link = BrokerLink::up;
  std::string config;  // fingerprint
  DatabaseMemory memory;
};

// One cycle with the database: beat, renew, give back, look, take. Passed to the job, and returned by it,
// with the node and the memory as they are then. Thread: perform_cycle() on Lane::leases.
struct LeaseCycle : NodeState {
  std::vector<Lease> renew, release;

  // The answer.
  bool name_taken = false;
  std::optional<std::string> restored;  // the database went back in time: the evidence
  EpochMs db_now;
  BootMs sent, received;  // before and after the beat
  ClockReading clock;
  std::vector<Lease> held;
  std::vector<Gained> gained;
  int surplus = 0;                    // shards held beyond our share
  bool unsettled = false;             // the shards that we hold differ from our share
  bool stepped_back = false;          // another instance can publish and this one cannot: its share is 0
  std::optional<BootMs> next_expiry;  // of a lease or a node that isn't ours
};

// After a transient error (StoreError), repeat from the beginning.
LeaseCycle perform_cycle(LeaseCycle cycle, const LeaseSettings& settings, const Clock& here, Store& store);

// The shards that this instance holds: their epochs, which are in use, and which are about to be given back.
// Thread: the loop's.
class HeldShards {
 public:
  int count() const { return count_; }
  // The epoch of our lease; 0 = none.
  std::uint64_t epoch(int shard) const { return slot(shard).epoch; }
  // Held, and not about to be given back.
  bool takes_work(int shard) const { return slot(shard).epoch != 0 && !slot(shard).leaving; }
  bool leaving(int shard) const { return slot(shard).leaving; }
  std::vector<int> list() const;
  std::vector<Lease> leases() const;
  // A shard that takes work, round-robin; -1 if there is none.
  int next();

  void add(const Lease& lease);
  void remove(int shard);
  void clear();

  void begin_use(int shard) { ++uses_[static_cast<std::size_t>(shard)]; }
  void end_use(int shard) {
    RUNG_REQUIRE(in_use(shard));
    --uses_[static_cast<std::size_t>(shard)];
  }
  bool in_use(int shard) const { return uses_[static_cast<std::size_t>(shard)] > 0; }

  // Marks `many` shards to be given back: those with the highest numbers, so that an instance that stays
  // small keeps the same shards. A leaving shard that has been in use for too long resumes work and another
  // one leaves instead, unless `all` must go.
  void plan_leaving(int many, bool all, BootMs now);

 private:
  struct Slot {
    std::uint64_t epoch = 0;  // 0 = not held
    bool leaving = false;     // to be given back: no new claims
    bool stuck = false;       // a publish of it got no answer while it was leaving
    BootMs leaving_since{0};
  };
  const Slot& slot(int shard) const { return slots_[static_cast<std::size_t>(shard)]; }
  Slot& slot(int shard) { return slots_[static_cast<std::size_t>(shard)]; }

  std::array<Slot, kShards> slots_{};
  std::array<int, kShards> uses_{};  // also of shards that are no longer held
  int count_ = 0;
  int next_ = 0;
};

class Shards {
 public:
  // A condition of the database that people must know of. Work continues.
  struct Notice {
    enum class Kind { clock_stepped, restored };
    Kind kind = Kind::clock_stepped;
    std::string detail;  // for people
  };
  struct Listener {
    std::function<void(const std::vector<Gained>&)> gained;  // also when home() has one again: may be empty
    std::function<void(const std::vector<int>&)> lost;       // involuntarily: don't act on their tasks
    std::function<void(BootMs)> publish_until;               // the fence, after each renewal
    std::function<void()> name_taken;                        // another process runs under our name: stop
    std::function<void(const Notice&)> noticed;
  };

  Shards(io::Loop& loop, StoreJobs& jobs, DbClock& clock, LeaseSettings settings, Listener listener);

  // Takes the node's name, and shards. Call when the broker has answered: a process that cannot publish must
  // not take the name and the shards from one that can. A second call does nothing.
  void start();
  // The state of the publishing connection. An instance that has lost it gives its shards up while another
  // instance is `up`, and publish_until({0}) is called; if none is, all keep their shards.
  void set_link(BrokerLink link);
  bool stepped_back() const { return stepped_back_; }
  // Closes the fence and gives all shards back; calls `done` once that is in the database.
  void leave(std::function<void()> done);

  // Written to the database with each heartbeat, for `rung stats` and `rung nodes`.
  void set_problems(std::vector<HealthProblem> problems) { state_.problems = std::move(problems); }
  // Also written: a fingerprint of this instance's config.
  void set_config(std::string fingerprint) { state_.config = std::move(fingerprint); }

  int node() const { return state_.node; }
  bool any() const { return held_.count() > 0; }
  int count() const { return held_.count(); }
  // The epoch of our lease; 0 = none.
  std::uint64_t epoch(int shard) const { return held_.epoch(shard); }
  // Held, and not about to be given back: new tasks may be claimed and inserted there.
  bool held(int shard) const { return held_.takes_work(shard); }
  std::vector<int> list() const { return held_.list(); }  // includes those about to be given back
  Fence fence() const { return {node(), held_.leases()}; }
  // A held shard for a new task, round-robin; -1 if there is none.
  int home() { return refused_ ? -1 : held_.next(); }
  // The database says that a shard is not ours. Only a cycle can tell which are: home() has none until then.
  void refused();
  // REQUIRES: node() is known, as it is once a shard is held.
  TaskId new_id(EpochMs now);

  // A claim or publish of this shard begins: the shard is not given back until each has ended.
  void begin_use(int shard) { held_.begin_use(shard); }
  void end_use(int shard) { held_.end_use(shard); }
  bool in_use(int shard) const { return held_.in_use(shard); }

 private:
  void begin_cycle();
  void end_cycle(const LeaseCycle& cycle);
  std::vector<int> apply(const LeaseCycle& cycle);  // to the held shards; returns the lost ones
  void notice(const LeaseCycle& cycle);
  void step_back(bool yes);
  void give_back();
  // A cycle has ended with this answer; nullptr: it failed. Times the next one.
  void arm(const LeaseCycle* answer);
  Ms random_up_to(Ms most);

  StoreJobs& jobs_;
  DbClock& clock_;
  const LeaseSettings settings_;
  const Listener listener_;
  HeldShards held_;
  std::minstd_rand dice_;
  BootMs begun_{0};  // start of the last cycle
  Ms hurry_{0};      // delay of the next cycle while shards change hands
  io::Timer timer_;
  NodeState state_;
  std::unique_ptr<IdSource> ids_;  // made when the node's number is known
  ClockStep clock_step_;
  bool stepped_back_ = false;  // another instance can publish and we cannot: our share is 0
  bool started_ = false;
  bool cycling_ = false;
  bool refused_ = false;
  bool leaving_ = false;
  std::function<void()> left_;
  io::Timer leave_timer_;
};

}  // namespace rung::bridge
