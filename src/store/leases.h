// Nodes and their leases of shards. Thread, errors: store.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/core/base/health.h"
#include "src/core/base/result.h"
#include "src/core/base/time.h"

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
  std::string owner_name = {};  // "" = no owner
  // When the shard was last taken from an owner that had not given it back: its lease had expired.
  std::optional<EpochMs> taken_over_at = {};
};

// An instance's connection for publishing. Persisted as numbers. NOTE: only append.
enum class BrokerLink : std::uint8_t {
  lost = 0,  // down for longer than a lease: it gets no shards while another instance is `up`
  up = 1,
  interrupted = 2,  // down for a short time: it keeps its shards, but no instance hands shards over to it
};

struct NodeRow {
  int id = 0;
  std::string name;
  EpochMs started_at, seen_at, expires_at;
  std::string version, address;         // address: host and pid
  std::vector<HealthProblem> problems;  // as of its last heartbeat
  BrokerLink link = BrokerLink::up;     // the same
  std::string config = {};              // the same: a fingerprint of its config; "" = not known
};

// The overdue tasks of a shard. `oldest` = the earliest due time among them; that task may just have been
// claimed.
struct ShardOverdue {
  int shard = 0;
  std::int64_t tasks = 0;
  EpochMs oldest;
};

// The answer of a heartbeat. still_ours = false: another process took the name, or the database went back in
// time. `now` = database time just after the beat. `name`, `beats`: of the row now; each registration and
// each beat adds one. If `beats` is not higher than after our last beat, the row is an older one. No such
// row: "" and 0. `live`: as live_nodes() says.
struct Beat {
  bool still_ours = false;
  EpochMs now;
  std::string name = {};
  std::uint64_t beats = 0;
  std::vector<NodeRow> live = {};
};

struct NodeIdentity {
  std::string name, version, address;
  std::uint64_t incarnation = 0;  // random, of this process
};

}  // namespace rung
