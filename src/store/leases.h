// Nodes and their leases of shards. Thread, errors: store.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/core/health.h"
#include "src/core/result.h"
#include "src/core/time.h"

namespace rung {

struct Lease {
  int shard = 0;
  std::uint64_t epoch = 0;
  bool operator==(const Lease&) const = default;
};

struct ShardRow {
  int shard = 0;
  int owner = 0;  // rung_nodes.id; 0 = nobody
  std::uint64_t epoch = 0;
  std::optional<EpochMs> expires_at;
  std::optional<EpochMs> acquired_at;
};

// An instance's connection for publishing. Persisted as numbers. NOTE: only append.
enum class BrokerLink : std::uint8_t {
  lost = 0,  // for longer than a lease: it gets no shards while another instance is `up`
  up = 1,
  interrupted = 2,  // not for long: it keeps its shards, but nobody gives shards up for its sake
};

struct NodeRow {
  int id = 0;
  std::string name;
  EpochMs started_at, seen_at, expires_at;
  std::string version, address;         // address: host and pid
  std::vector<HealthProblem> problems;  // as of its last heartbeat
  BrokerLink link = BrokerLink::up;     // the same
};

// What of a shard should have gone out by now. `oldest` = the longest due of it; it may be claimed just now.
struct ShardOverdue {
  int shard = 0;
  std::int64_t tasks = 0;
  EpochMs oldest;
};

struct NodeIdentity {
  std::string name, version, address;
  std::uint64_t incarnation = 0;  // random, of this process
};

// src/bridge/shards decides, this writes.
class LeaseStore {
 public:
  virtual ~LeaseStore() = default;

  // Takes the name: the id is the same each time. A former incarnation's heartbeat fails from now on.
  virtual Result<int> register_node(const NodeIdentity& identity, Ms ttl) = 0;
  // false: another process took the name, or the database went back in time. `now` = database time of the
  // beat. `name` and `beats`: of the row as it stands now; each registration and each beat counts one. Where
  // `beats` is not higher than after our last beat, the row is an older one. No such row: "" and 0.
  struct Beat {
    bool still_ours = false;
    EpochMs now;
    std::string name = {};
    std::uint64_t beats = 0;
  };
  virtual Result<Beat> heartbeat(int node, std::uint64_t incarnation, Ms ttl,
                                 const std::vector<HealthProblem>& problems,
                                 BrokerLink link = BrokerLink::up) = 0;
  // Its heartbeat ends, and whatever it owns is free, also what nobody told it that it took. Nothing happens
  // where another process has the name by now.
  virtual Result<void> leave(int node, std::uint64_t incarnation) = 0;
  virtual Result<std::vector<NodeRow>> live_nodes() = 0;
  virtual Result<std::vector<ShardRow>> shards() = 0;
  // Takes those of `shards` that are free or expired, and those owned by `node` itself (under an older
  // epoch). Each gets a new epoch. Returns what was taken: nothing where another process has the node's name
  // by now, and never a shard in which somebody's write is open; such a one is passed over, not waited for.
  // New epochs are higher than `above`, too.
  virtual Result<std::vector<Lease>> acquire(int node, std::uint64_t incarnation, std::span<const int> shards,
                                             Ms ttl, std::uint64_t above = 0) = 0;
  // Returns those still held, now until now + ttl. `now` as in Beat.
  struct Renewal {
    std::vector<Lease> held;
    EpochMs now;
  };
  virtual Result<Renewal> renew(int node, std::span<const Lease> leases, Ms ttl) = 0;
  virtual Result<void> release(int node, std::span<const Lease> leases) = 0;

  // The database's time to the us, by a question that takes no longer than its way: what DbClock is set by.
  virtual Result<EpochUs> clock() = 0;
};

}  // namespace rung
