// Decides an instance's share of the shards, which it takes and which it gives back, from the leases and
// nodes in the database. Thread: pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/core/base/time.h"
#include "src/store/leases.h"

namespace rung::bridge {

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

}  // namespace rung::bridge
