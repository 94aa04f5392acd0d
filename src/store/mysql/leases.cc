#include <algorithm>
#include <numeric>
#include <tuple>

#include "src/core/base/failpoint.h"
#include "src/store/mysql/store_impl.h"

namespace rung::mysql {
namespace {

Literal micros(Ms ttl) { return Literal::number(ttl.count() * 1000); }

std::vector<int> shards_of(std::span<const Lease> leases) {
  std::vector<int> ids;
  ids.reserve(leases.size());
  for (const Lease& l : leases) ids.push_back(l.shard);
  return ids;
}

// (shard,epoch), for IN
Literal pairs_of(std::span<const Lease> leases) {
  std::vector<Literal> pairs;
  pairs.reserve(leases.size());
  for (const Lease& l : leases) {
    pairs.push_back(Literal::rendered("(" + std::to_string(l.shard) + "," + std::to_string(l.epoch) + ")"));
  }
  return Literal::list(pairs);
}

Lease lease_at(const ::sql::ResultSet& row) { return {row.getInt(1), row.getUInt64(2)}; }

// The columns of `nodes`.
NodeRow node_at(const ::sql::ResultSet& row) {
  NodeRow n;
  n.id = row.getInt(1);
  n.name = text_at(row, 2);
  n.started_at = time_at(row, 3).value_or(EpochMs{});
  n.seen_at = time_at(row, 4).value_or(EpochMs{});
  n.expires_at = time_at(row, 5).value_or(EpochMs{});
  n.version = text_at(row, 6);
  n.address = text_at(row, 7);
  n.problems = problems_from_json(text_at(row, 8));
  n.link = static_cast<BrokerLink>(row.getInt(9));
  n.config = text_at(row, 10);
  return n;
}

std::vector<Lease> those_of(std::span<const Lease> believed, std::vector<Lease> held) {
  std::erase_if(held, [&](const Lease& h) { return std::ranges::find(believed, h) == believed.end(); });
  return held;
}

std::string nodes_where(std::string condition) {
  return render("nodes", {{"which", Literal::rendered(std::move(condition))}});
}

std::string leases_held(std::string_view lock, int node, std::span<const Lease> leases) {
  return render("leases_held",
                {{"shards", Literal::numbers(shards_of(leases))}, {"node", Literal::number(node)}}) +
         ' ' + render(lock);
}

// Inside a transaction: those of `leases` that `node` holds, by shard, with their rows locked by `lock`.
std::vector<Lease> lock_leases(Session& session, std::string_view lock, int node,
                               std::span<const Lease> leases) {
  if (leases.empty() || node == 0) return {};
  return those_of(leases, session.all(leases_held(lock, node, leases), lease_at));
}

}  // namespace

std::vector<Lease> MysqlTables::share_leases(const Fence& fence) {
  return lock_leases(session_, "leases_held.share", fence.node, fence.leases);
}

void MysqlTables::guard_leases(const Fence& fence) {
  session_.later(render("leases_guard", {{"shards", Literal::numbers(shards_of(fence.leases))},
                                         {"leases", pairs_of(fence.leases)},
                                         {"node", Literal::number(fence.node)},
                                         {"count", Literal::number(fence.leases.size())}}));
}

std::vector<Lease> MysqlTables::current_leases() { return session_.all(render("leases_standing"), lease_at); }

MysqlTables::Locked MysqlTables::lock(const Fence& fence, std::span<const TaskId> ids) {
  const std::string tasks =
      render("lock_tasks",
             {{"ids", Literal::ids(ids)}, {"columns", task_columns()}, {"short_claim", short_claim()}});
  Locked locked;
  ResultPtr rows;
  if (fence.leases.empty() || fence.node == 0) {
    rows = session_.query(tasks);
  } else {
    ResultPtr leases;
    std::tie(leases, rows) =
        session_.query(leases_held("leases_held.share", fence.node, fence.leases), tasks);
    while (leases->next()) locked.held.push_back(lease_at(*leases));
    locked.held = those_of(fence.leases, std::move(locked.held));
  }
  while (rows->next()) {
    if (locked.tasks.empty()) locked.now = time_at(*rows, kTaskColumns + 1).value_or(EpochMs{});
    LockedTask row{task_at(*rows), !rows->isNull(kTaskColumns + 2)};
    if (row.short_claim) {
      row.task = with_short_claim(std::move(row.task), rows->getUInt64(kTaskColumns + 2),
                                  rows->getInt(kTaskColumns + 3));
    }
    locked.tasks.push_back(std::move(row));
  }
  return locked;
}

Result<int> MysqlStore::register_node(const NodeIdentity& identity, Ms ttl) {
  return session_->transaction_for(
      [&] {
        const Literal name = Literal::text(identity.name);
        const Literal incarnation = Literal::number(identity.incarnation);
        const Literal version = Literal::text(identity.version.substr(0, 64));
        const Literal address = Literal::text(identity.address.substr(0, 255));
        const std::string by_name = render("node_by_name", {{"name", name}});
        auto row = session_->query(by_name);
        if (row->next()) {
          const int id = row->getInt(1);
          session_->exec(render("node_retake", {{"incarnation", incarnation},
                                                {"ttl_us", micros(ttl)},
                                                {"version", version},
                                                {"address", address},
                                                {"node", Literal::number(id)}}));
          return id;
        }
        // A duplicate key, if another process registers the same name: the transaction is repeated.
        session_->exec(render("node_insert", {{"name", name},
                                              {"incarnation", incarnation},
                                              {"ttl_us", micros(ttl)},
                                              {"version", version},
                                              {"address", address}}));
        row = session_->query(by_name);
        if (!row->next()) throw Again{"the node's row vanished"};
        return row->getInt(1);
      },
      "register");
}

// Without a transaction: each statement stands alone. A process that takes the name between them increments
// the count, so the row does not look like an older one.
Result<Beat> MysqlStore::heartbeat(int node, std::uint64_t incarnation, Ms ttl,
                                   const std::vector<HealthProblem>& problems, BrokerLink link,
                                   const std::string& config) {
  return session_->run_for([&] {
    Beat beat;
    failpoint("beat.before_commit");
    beat.still_ours =
        session_->exec(render("node_beat", {{"ttl_us", micros(ttl)},
                                            {"problems", Literal::text(problems_to_json(problems))},
                                            {"broker_link", Literal::number(static_cast<int>(link))},
                                            {"config", Literal::text(config)},
                                            {"node", Literal::number(node)},
                                            {"incarnation", Literal::number(incarnation)}})) == 1;
    failpoint("beat.after_commit");
    auto row = session_->query(nodes_where(render("nodes.live_or", {{"node", Literal::number(node)}})));
    while (row->next()) {
      NodeRow n = node_at(*row);
      beat.now = time_at(*row, 12).value_or(EpochMs{});
      if (n.id == node) {
        beat.name = n.name;
        beat.beats = row->getUInt64(11);
      }
      if (n.expires_at > beat.now) beat.live.push_back(std::move(n));
    }
    return beat;
  });
}

Result<void> MysqlStore::leave(int node, std::uint64_t incarnation) {
  return session_->transaction(
      [&] {
        const Literal id = Literal::number(node);
        const auto left = session_->exec(
            render("node_leave", {{"node", id}, {"incarnation", Literal::number(incarnation)}}));
        if (left == 0) return;
        const auto shards = session_->all(render("leases_of", {{"node", id}}),
                                          [](const ::sql::ResultSet& row) { return row.getInt(1); });
        if (shards.empty()) return;
        session_->exec(render("leases_release", {{"shards", Literal::numbers(shards)}, {"node", id}}));
      },
      "leave");
}

Result<std::vector<NodeRow>> MysqlStore::live_nodes() {
  return session_->read_all(nodes_where(render("nodes.live")), node_at);
}
Result<std::vector<NodeRow>> MysqlStore::nodes() {
  return session_->read_all(nodes_where(render("nodes.all")), node_at);
}

Result<std::vector<ShardOverdue>> MysqlStore::overdue() {
  std::vector<int> shards(kShards);
  std::iota(shards.begin(), shards.end(), 0);
  return session_->read_all(
      render("shards_overdue", {{"shards", Literal::numbers(shards)}}), [](const ::sql::ResultSet& row) {
        return ShardOverdue{row.getInt(1), row.getInt64(2), time_at(row, 3).value_or(EpochMs{})};
      });
}

Result<std::vector<ShardRow>> MysqlStore::shards() {
  return session_->read_all(render("shards"), [](const ::sql::ResultSet& row) {
    return ShardRow{row.getInt(1),   row.getInt(2),   row.getUInt64(3), time_at(row, 4),
                    time_at(row, 5), text_at(row, 6), time_at(row, 7)};
  });
}

Result<std::vector<Lease>> MysqlStore::acquire(int node, std::uint64_t incarnation,
                                               std::span<const int> shards, Ms ttl, std::uint64_t above) {
  if (shards.empty()) return std::vector<Lease>{};
  return session_->transaction_for(
      [&] {
        const Place id{"node", Literal::number(node)};
        const auto row =
            session_->query(render("node_incarnation", {id, {"incarnation", Literal::number(incarnation)}}));
        if (!row->next()) return std::vector<Lease>{};
        std::vector<Lease> taken =
            session_->all(render("leases_free", {{"shards", Literal::numbers(shards)}, id}), lease_at);
        if (taken.empty()) return taken;
        session_->exec(render("leases_take", {id,
                                              {"ttl_us", micros(ttl)},
                                              {"above", Literal::number(above)},
                                              {"shards", Literal::numbers(shards_of(taken))}}));
        for (Lease& l : taken) l.epoch = std::max(l.epoch, above) + 1;
        return taken;
      },
      "acquire");
}

Result<std::vector<Lease>> MysqlStore::renew(int node, std::span<const Lease> leases, Ms ttl) {
  if (leases.empty() || node == 0) return std::vector<Lease>{};
  const auto statement = [&](std::span<const Lease> some) {
    return render("leases_renew", {{"ttl_us", micros(ttl)},
                                   {"shards", Literal::numbers(shards_of(some))},
                                   {"leases", pairs_of(some)},
                                   {"node", Literal::number(node)}});
  };
  // Nearly always all are held, and one statement says so.
  const auto renewed = session_->run_for([&] {
    failpoint("renew.before_commit");
    const auto rows = session_->exec(statement(leases));
    failpoint("renew.after_commit");
    return rows;
  });
  if (!renewed) return tl::unexpected(renewed.error());
  if (*renewed == static_cast<std::int64_t>(leases.size()))
    return std::vector<Lease>(leases.begin(), leases.end());
  return session_->transaction_for([&] {
    std::vector<Lease> held = lock_leases(*session_, "leases_held.own", node, leases);
    if (!held.empty()) session_->exec(statement(held));
    return held;
  });
}

Result<void> MysqlStore::release(int node, std::span<const Lease> leases) {
  return session_->transaction(
      [&] {
        const std::vector<Lease> held = lock_leases(*session_, "leases_held.own", node, leases);
        if (held.empty()) return;
        session_->exec(render("leases_release", {{"shards", Literal::numbers(shards_of(held))},
                                                 {"node", Literal::number(node)}}));
      },
      "release");
}

}  // namespace rung::mysql
