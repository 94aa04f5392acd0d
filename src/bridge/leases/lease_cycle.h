// One lease cycle with the database: beat, renew, give back, look, take. A value that is passed to the job
// and returned by it. Thread: perform_cycle() on Lane::leases.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/bridge/leases/shard_plan.h"
#include "src/core/base/clock.h"
#include "src/core/base/health.h"
#include "src/core/base/result.h"
#include "src/store/leases.h"

namespace rung::bridge {

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
  bool older_beside = false;          // a live instance is of a release before 0019_node_config
  std::optional<BootMs> next_expiry;  // of a lease or a node that isn't ours
};

// After a transient error, repeat from the beginning.
Result<LeaseCycle> perform_cycle(LeaseCycle cycle, const LeaseSettings& settings, const Clock& here,
                                 LeaseStore& store);

}  // namespace rung::bridge
