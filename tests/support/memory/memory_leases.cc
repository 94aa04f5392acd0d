#include <algorithm>
#include <map>
#include <utility>

#include "tests/support/memory/memory_store.h"

namespace rung {

MemoryLeases::MemoryLeases() {
  for (int i = 0; i < kShards; ++i) shards_.push_back({i, 0, 0, {}, {}});
}

MemoryLeases::Node& MemoryLeases::register_node(const std::string& name) {
  const auto known =
      std::find_if(nodes_.begin(), nodes_.end(), [&](const Node& node) { return node.row.name == name; });
  if (known != nodes_.end()) return *known;
  Node& node = nodes_.emplace_back();
  node.row.id = static_cast<int>(nodes_.size());
  node.row.name = name;
  return node;
}

MemoryLeases::Node* MemoryLeases::node(int id) {
  return id >= 1 && id <= static_cast<int>(nodes_.size()) ? &nodes_[static_cast<std::size_t>(id - 1)]
                                                          : nullptr;
}

bool MemoryLeases::is_incarnation(int id, std::uint64_t incarnation) const {
  return std::ranges::any_of(
      nodes_, [&](const Node& node) { return node.row.id == id && node.incarnation == incarnation; });
}

std::string MemoryLeases::name(int id) const {
  return id >= 1 && id <= static_cast<int>(nodes_.size()) ? nodes_[static_cast<std::size_t>(id - 1)].row.name
                                                          : std::string();
}

std::vector<NodeRow> MemoryLeases::live(EpochMs now) const {
  std::vector<NodeRow> out;
  for (const Node& node : nodes_) {
    if (node.row.expires_at > now) out.push_back(node.row);
  }
  return out;
}

std::vector<Lease> MemoryLeases::held(int node, std::span<const Lease> leases, EpochMs now) const {
  std::vector<Lease> out;
  for (const ShardRow& s : shards_) {
    if (node == 0 || s.owner != node || !s.expires_at || *s.expires_at <= now) continue;
    const Lease lease{s.shard, s.epoch};
    if (std::ranges::find(leases, lease) != leases.end()) out.push_back(lease);
  }
  return out;
}

int MemoryStore::register_node(const NodeIdentity& identity, Ms ttl) {
  return call([&] {
    MemoryLeases::Node& node = db_.leases_.register_node(identity.name);
    node.incarnation = identity.incarnation;
    ++node.beats;
    node.row.started_at = node.row.seen_at = db_.now_();
    node.row.expires_at = db_.now_() + ttl;
    node.row.version = identity.version;
    node.row.address = identity.address;
    node.row.link = BrokerLink::up;
    return node.row.id;
  });
}

Beat MemoryStore::heartbeat(int node, std::uint64_t incarnation, Ms ttl,
                            const std::vector<HealthProblem>& problems, BrokerLink link,
                            const std::string& config) {
  return call([&] {
    Beat beat{db_.leases_.is_incarnation(node, incarnation), db_.now_()};
    if (MemoryLeases::Node* n = db_.leases_.node(node); n != nullptr) {
      if (beat.still_ours) {
        ++n->beats;
        n->row.seen_at = beat.now;
        n->row.expires_at = beat.now + ttl;
        n->row.problems = problems;
        n->row.link = link;
        n->row.config = config;
      }
      beat.name = n->row.name;
      beat.beats = n->beats;
    }
    beat.live = db_.leases_.live(beat.now);
    return beat;
  });
}

void MemoryStore::leave(int node, std::uint64_t incarnation) {
  return call([&] {
    if (!db_.leases_.is_incarnation(node, incarnation)) return;
    NodeRow& row = db_.leases_.node(node)->row;
    row.seen_at = row.expires_at = db_.now_();
    for (ShardRow& s : db_.leases_.shards()) {
      if (s.owner != node) continue;
      s.owner = 0;
      s.expires_at.reset();
    }
  });
}

std::vector<NodeRow> MemoryStore::live_nodes() {
  return call([&] { return db_.leases_.live(db_.now_()); });
}

std::vector<ShardRow> MemoryStore::shards() {
  return call([&] {
    std::vector<ShardRow> out = db_.leases_.shards();
    for (ShardRow& shard : out) shard.owner_name = db_.leases_.name(shard.owner);
    return out;
  });
}

std::vector<NodeRow> MemoryStore::nodes() {
  return call([&] {
    std::vector<NodeRow> out;
    for (const auto& n : db_.leases_.nodes()) out.push_back(n.row);
    return out;
  });
}

std::vector<Lease> MemoryStore::acquire(int node, std::uint64_t incarnation, std::span<const int> shards,
                                        Ms ttl, std::uint64_t above) {
  return call([&] {
    std::vector<Lease> taken;
    if (!db_.leases_.is_incarnation(node, incarnation)) return taken;
    const EpochMs now = db_.now_();
    for (ShardRow& s : db_.leases_.shards()) {
      if (std::find(shards.begin(), shards.end(), s.shard) == shards.end()) continue;
      if (s.owner != 0 && s.owner != node && s.expires_at && *s.expires_at > now) continue;
      if (s.owner != 0 && s.owner != node) s.taken_over_at = now;
      s.owner = node;
      s.epoch = std::max(s.epoch, above) + 1;
      s.acquired_at = now;
      s.expires_at = now + ttl;
      taken.push_back({s.shard, s.epoch});
    }
    return taken;
  });
}

std::vector<Lease> MemoryStore::renew(int node, std::span<const Lease> leases, Ms ttl) {
  return call([&] {
    const EpochMs now = db_.now_();
    auto held = db_.leases_.held(node, leases, now);
    for (const Lease& l : held) db_.leases_.shard(l.shard).expires_at = now + ttl;
    return held;
  });
}

void MemoryStore::release(int node, std::span<const Lease> leases) {
  return call([&] {
    for (const Lease& l : db_.leases_.held(node, leases, db_.now_())) {
      db_.leases_.shard(l.shard).owner = 0;
      db_.leases_.shard(l.shard).expires_at.reset();
    }
  });
}

}  // namespace rung
