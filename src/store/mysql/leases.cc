#include <algorithm>
#include <tuple>

#include "src/core/base/failpoint.h"
#include "src/store/mysql/session.h"

namespace rung::mysql {
namespace {

std::vector<int> shards_of(std::span<const Lease> leases) {
  std::vector<int> ids;
  ids.reserve(leases.size());
  for (const Lease& l : leases) ids.push_back(l.shard);
  return ids;
}

// (shard,epoch), for IN
Sql pairs_of(std::span<const Lease> leases) {
  std::vector<Sql> pairs;
  pairs.reserve(leases.size());
  for (const Lease& l : leases) {
    pairs.push_back(Sql::rendered("(" + std::to_string(l.shard) + "," + std::to_string(l.epoch) + ")"));
  }
  return Sql::of(pairs);
}

Lease lease_at(const ::sql::ResultSet& row) { return {row.getInt(1), row.getUInt64(2)}; }

// The columns of `nodes`.
NodeRow node_at(const ::sql::ResultSet& row) {
  NodeRow n;
  std::string problems;
  int link = 0;
  Fields(row) >> n.id >> n.name >> n.started_at >> n.seen_at >> n.expires_at >> n.version >> n.address >>
      problems >> link >> n.config;
  n.problems = problems_from_json(problems);
  n.link = static_cast<BrokerLink>(link);
  return n;
}

std::vector<Lease> those_of(std::span<const Lease> believed, std::vector<Lease> held) {
  std::erase_if(held, [&](const Lease& h) { return std::ranges::find(believed, h) == believed.end(); });
  return held;
}

Sql nodes_where(const Sql& condition) { return render("nodes", {{"which", condition}}); }

Sql leases_held(std::string_view lock, int node, std::span<const Lease> leases) {
  return render("leases_held", {{"shards", shards_of(leases)}, {"node", node}}) + render(lock);
}

// Inside a transaction: those of `leases` that `node` holds, by shard, with their rows locked by `lock`.
std::vector<Lease> lock_leases(Session& session, std::string_view lock, int node,
                               std::span<const Lease> leases) {
  if (leases.empty() || node == 0) return {};
  return those_of(leases, session.all(leases_held(lock, node, leases), lease_at));
}

}  // namespace

std::vector<Lease> MysqlStore::share_leases(const Fence& fence) {
  return lock_leases(*session_, "leases_held.share", fence.node, fence.leases);
}

void MysqlStore::guard_leases(const Fence& fence) {
  session_->later(render("leases_guard", {{"shards", shards_of(fence.leases)},
                                          {"leases", pairs_of(fence.leases)},
                                          {"node", fence.node},
                                          {"count", fence.leases.size()}}));
}

std::vector<Lease> MysqlStore::current_leases() { return session_->all(render("leases_standing"), lease_at); }

MysqlStore::Locked MysqlStore::lock(const Fence& fence, std::span<const TaskId> ids) {
  const Sql tasks = render("lock_tasks", {{"ids", ids}, {"columns", task_columns()}});
  Locked locked;
  ResultPtr rows;
  if (fence.leases.empty() || fence.node == 0) {
    rows = session_->query(tasks);
  } else {
    ResultPtr leases;
    std::tie(leases, rows) =
        session_->query(leases_held("leases_held.share", fence.node, fence.leases), tasks);
    while (leases->next()) locked.held.push_back(lease_at(*leases));
    locked.held = those_of(fence.leases, std::move(locked.held));
  }
  while (rows->next()) {
    Fields fields(*rows);
    LockedTask row{task_from(fields)};
    EpochMs now;
    std::optional<std::uint64_t> epoch;
    int node = 0;
    fields >> now >> epoch >> node;
    if (locked.tasks.empty()) locked.now = now;
    row.short_claim = epoch.has_value();
    if (epoch) row.task = with_short_claim(std::move(row.task), *epoch, node);
    locked.tasks.push_back(std::move(row));
  }
  return locked;
}

int MysqlStore::register_node(const NodeIdentity& identity, Ms ttl) {
  return session_->transaction(
      [&] {
        const Sql by_name = render("node_by_name", {{"name", identity.name}});
        const auto there = static_cast<int>(session_->number(by_name));
        // A duplicate key, if another process registers the same name: the transaction is repeated.
        session_->exec(
            render(there != 0 ? "node_retake" : "node_insert", {{"name", identity.name},
                                                                {"incarnation", identity.incarnation},
                                                                {"ttl_us", micros(ttl)},
                                                                {"version", identity.version.substr(0, 64)},
                                                                {"address", identity.address.substr(0, 255)},
                                                                {"node", there}}));
        return there != 0 ? there : static_cast<int>(session_->number(by_name));
      },
      "register");
}

// Without a transaction: each statement stands alone. A process that takes the name between them increments
// the count, so the row does not look like an older one.
Beat MysqlStore::heartbeat(int node, std::uint64_t incarnation, Ms ttl,
                           const std::vector<HealthProblem>& problems, BrokerLink link,
                           const std::string& config) {
  Beat beat;
  failpoint("beat.before_commit");
  beat.still_ours = session_->exec(render("node_beat", {{"ttl_us", micros(ttl)},
                                                        {"problems", problems_to_json(problems)},
                                                        {"broker_link", static_cast<int>(link)},
                                                        {"config", config},
                                                        {"node", node},
                                                        {"incarnation", incarnation}})) == 1;
  failpoint("beat.after_commit");
  session_->each(nodes_where(render("nodes.live_or", {{"node", node}})), [&](const ::sql::ResultSet& row) {
    NodeRow n = node_at(row);
    beat.now = time_at(row, 12).value_or(EpochMs{});
    if (n.id == node) {
      beat.name = n.name;
      beat.beats = row.getUInt64(11);
    }
    if (n.expires_at > beat.now) beat.live.push_back(std::move(n));
  });
  return beat;
}

void MysqlStore::leave(int node, std::uint64_t incarnation) {
  session_->transaction(
      [&] {
        const Place id{"node", node};
        const auto left = session_->exec(render("node_leave", {id, {"incarnation", incarnation}}));
        if (left == 0) return;
        const auto leases = session_->all(render("leases_of", {id}), lease_at);
        if (!leases.empty()) session_->exec(render("leases_release", {{"shards", shards_of(leases)}, id}));
      },
      "leave");
}

std::vector<NodeRow> MysqlStore::live_nodes() {
  return session_->all(nodes_where(render("nodes.live_or", {{"node", 0}})), node_at);
}
std::vector<NodeRow> MysqlStore::nodes() { return session_->all(nodes_where(Sql::of(true)), node_at); }

std::vector<ShardOverdue> MysqlStore::overdue() {
  return session_->all(render("shards_overdue", {{"shards", kAllShards}}),
                       row_of(&ShardOverdue::shard, &ShardOverdue::tasks, &ShardOverdue::oldest));
}

std::vector<ShardRow> MysqlStore::shards() {
  return session_->all(render("shards"),
                       row_of(&ShardRow::shard, &ShardRow::owner, &ShardRow::epoch, &ShardRow::expires_at,
                              &ShardRow::acquired_at, &ShardRow::owner_name, &ShardRow::taken_over_at));
}

std::vector<Lease> MysqlStore::acquire(int node, std::uint64_t incarnation, std::span<const int> shards,
                                       Ms ttl, std::uint64_t above) {
  if (shards.empty()) return {};
  return session_->transaction(
      [&] {
        const Place id{"node", node};
        const auto row = session_->query(render("node_incarnation", {id, {"incarnation", incarnation}}));
        if (!row->next()) return std::vector<Lease>{};
        std::vector<Lease> taken = session_->all(render("leases_free", {{"shards", shards}, id}), lease_at);
        if (taken.empty()) return taken;
        session_->exec(render("leases_take",
                              {id, {"ttl_us", micros(ttl)}, {"above", above}, {"shards", shards_of(taken)}}));
        for (Lease& l : taken) l.epoch = std::max(l.epoch, above) + 1;
        return taken;
      },
      "acquire");
}

std::vector<Lease> MysqlStore::renew(int node, std::span<const Lease> leases, Ms ttl) {
  if (leases.empty() || node == 0) return {};
  const auto statement = [&](std::span<const Lease> some) {
    return render(
        "leases_renew",
        {{"ttl_us", micros(ttl)}, {"shards", shards_of(some)}, {"leases", pairs_of(some)}, {"node", node}});
  };
  // Nearly always all are held, and one statement says so.
  failpoint("renew.before_commit");
  const auto renewed = session_->exec(statement(leases));
  failpoint("renew.after_commit");
  if (renewed == std::ssize(leases)) return {leases.begin(), leases.end()};
  return session_->transaction([&] {
    std::vector<Lease> held = lock_leases(*session_, "for_update", node, leases);
    if (!held.empty()) session_->exec(statement(held));
    return held;
  });
}

void MysqlStore::release(int node, std::span<const Lease> leases) {
  session_->transaction(
      [&] {
        const std::vector<Lease> held = lock_leases(*session_, "for_update", node, leases);
        if (held.empty()) return;
        session_->exec(render("leases_release", {{"shards", shards_of(held)}, {"node", node}}));
      },
      "release");
}

}  // namespace rung::mysql
