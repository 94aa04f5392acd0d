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
//
// Files: shard_plan (each instance's share), lease_cycle (a cycle with the database), held_shards,
// cycle_timer. Shards has more members than most classes here because a cycle's answer changes
// all of them in one step: node, leases, fence, clock.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/bridge/base/store_jobs.h"
#include "src/bridge/leases/cycle_timer.h"
#include "src/bridge/leases/held_shards.h"
#include "src/bridge/leases/lease_cycle.h"
#include "src/core/base/db_clock.h"
#include "src/io/loop.h"
#include "src/store/leases.h"

namespace rung::bridge {

class Shards {
 public:
  using Settings = LeaseSettings;
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

  Shards(io::Loop& loop, StoreJobs& jobs, DbClock& clock, Settings settings, Listener listener);

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
  void set_problems(std::vector<HealthProblem> problems) { problems_ = std::move(problems); }
  // Also written: a fingerprint of this instance's config.
  void set_config(std::string fingerprint) { config_ = std::move(fingerprint); }

  int node() const { return node_; }
  bool any() const { return held_.count() > 0; }
  int count() const { return held_.count(); }
  // The epoch of our lease; 0 = none.
  std::uint64_t epoch(int shard) const { return held_.epoch(shard); }
  // Held, and not about to be given back: new tasks may be claimed and inserted there.
  bool held(int shard) const { return held_.takes_work(shard); }
  std::vector<int> list() const { return held_.list(); }  // includes those about to be given back
  Fence fence() const { return {node_, held_.leases()}; }
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

  StoreJobs& jobs_;
  DbClock& clock_;
  const Settings settings_;
  const Listener listener_;
  HeldShards held_;
  CycleTimer timer_;
  int node_ = 0;
  std::unique_ptr<IdSource> ids_;  // made when the node's number is known
  std::vector<HealthProblem> problems_;
  std::string config_;
  DatabaseMemory memory_;
  ClockStep clock_step_;
  BrokerLink link_ = BrokerLink::up;
  bool stepped_back_ = false;  // another instance can publish and we cannot: our share is 0
  bool started_ = false;
  bool cycling_ = false;
  bool refused_ = false;
  bool leaving_ = false;
  std::function<void()> left_;
  io::Timer leave_timer_;
};

}  // namespace rung::bridge
