// Which shards an instance is due, takes and gives back, by what the database shows of all. Thread: pure
// functions.
#pragma once

#include <optional>
#include <vector>

#include "src/core/time.h"
#include "src/store/leases.h"

namespace rung::bridge {

struct Gained {
  Lease lease;
  // From when on what the former owner left in `publishing` may be published again: its connection to the
  // broker must be dead by then. At once where that owner was this node's former life, or gave the shard
  // back.
  BootMs recover_at;
};

// The leases and nodes, as a cycle has read them.
struct LeaseView {
  std::vector<ShardRow> rows;
  std::vector<NodeRow> nodes;  // live
  EpochMs now;
};

struct ShardPlan {
  std::vector<int> take;
  std::vector<Gained> facts;  // lease.shard and recover_at of each in `take`; the epoch is not known yet
  int share = 0;              // what the instance is due
  int surplus = 0;            // held beyond it
  bool stepped_back = false;  // another instance can publish, and this one cannot: it is due none
};

// Takes its own under an older epoch always, then free and expired ones up to its share.
ShardPlan make_plan(const LeaseView& view, int node, const std::vector<Lease>& held, Ms connection_death,
                    BootMs boot);
// When the first lease or node runs out that isn't ours, of those that have not yet: the living renew long
// before.
std::optional<EpochMs> next_foreign_expiry(const LeaseView& view, int node);

// How many of the shards the instance is due, so that all differ by one at most. `live`: ids, ascending; an
// instance that is not among them is due none.
int fair_share(int node, const std::vector<int>& live);
// The ids of those among whom the shards are shared, ascending: who can publish; all, where nobody can.
std::vector<int> sharers(const std::vector<NodeRow>& live);

}  // namespace rung::bridge
