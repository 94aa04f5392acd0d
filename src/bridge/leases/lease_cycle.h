// One lease cycle with the database: beat, renew, give back, look, take. A value that is passed to the job
// and returned by it. Thread: perform_cycle() on Lane::leases.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/core/base/clock.h"
#include "src/core/base/health.h"
#include "src/core/base/result.h"
#include "src/core/base/time.h"
#include "src/store/leases.h"
#include "src/store/store.h"

namespace rung::bridge {

// Decides an instance's share of the shards, which it takes and which it gives back, from the leases and
// nodes in the database. Thread: pure functions.

struct Gained {
  Lease lease;
  // When tasks that a former owner left in `publishing` may be published again: the connection to the broker
  // of the last one that did not give the shard back must be dead by then, whoever has had the shard since.
  BootMs recover_at;
  std::string from = {};  // the instance whose lease had expired; "" = the shard was free, or this node's
};

// The leases and nodes, as a cycle has read them.
struct LeaseView {
  std::vector<ShardRow> rows;
  std::vector<NodeRow> nodes;  // live
  EpochMs now;
};

struct ShardPlan {
  std::vector<int> take;
  std::vector<Gained> facts;  // of each in `take`, all but the epoch
  int share = 0;              // the instance's fair share
  int surplus = 0;            // shards held beyond it
  bool stepped_back = false;  // another instance can publish and this one cannot: its share is 0
};

// Always takes its own shards under an older epoch, then free and expired ones up to its share.
ShardPlan make_plan(const LeaseView& view, int node, const std::vector<Lease>& held, Ms connection_death,
                    BootMs boot);
// When the first unexpired lease or node of another instance expires: live instances renew long before.
std::optional<EpochMs> next_foreign_expiry(const LeaseView& view, int node);

// The instance's share of the shards; shares differ by one at most. `live`: ids, ascending; the share of an
// instance not in it is 0.
int fair_share(int node, const std::vector<int>& live);
// The ids of the instances that share the shards, ascending: those that can publish, or all if none can.
std::vector<int> sharers(const std::vector<NodeRow>& live);

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

struct LeaseCycle {
  // The request.
  int node = 0;  // 0: register
  std::vector<Lease> renew, release;
  std::vector<HealthProblem> problems;
  BrokerLink link = BrokerLink::up;
  std::string config;     // fingerprint
  DatabaseMemory memory;  // in: of the last cycle; out: of this one

  // The answer.
  bool name_taken = false;
  std::optional<std::string> restored;  // the database went back in time: the evidence
  EpochMs db_now;
  BootMs sent, received;  // before and after the beat
  ClockReading clock;
  std::vector<Lease> held;
  std::vector<Gained> gained;
  int surplus = 0;
  bool unsettled = false;  // the shards that we hold differ from our share
  bool stepped_back = false;
  std::optional<BootMs> next_expiry;  // of a lease or a node that isn't ours
};

// After a transient error, repeat from the beginning.
Result<LeaseCycle> perform_cycle(LeaseCycle cycle, const LeaseSettings& settings, const Clock& here,
                                 Store& store);

}  // namespace rung::bridge
