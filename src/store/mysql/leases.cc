#include <algorithm>
#include <numeric>
#include <tuple>

#include "src/core/base/failpoint.h"
#include "src/store/mysql/render.h"
#include "src/store/mysql/rows.h"
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

std::vector<Lease> read_leases(::sql::ResultSet& rows) {
  std::vector<Lease> out;
  while (rows.next()) out.push_back({rows.getInt(1), rows.getUInt64(2)});
  return out;
}

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

Result<std::vector<NodeRow>> read_nodes(Session& session, std::string_view statement) {
  return session.run_for([&] {
    std::vector<NodeRow> nodes;
    auto row = session.query(render(statement));
    while (row->next()) nodes.push_back(node_at(*row));
    return nodes;
  });
}

}  // namespace

std::vector<Lease> lock_leases(Session& session, std::string_view statement, int node,
                               std::span<const Lease> leases) {
  if (leases.empty() || node == 0) return {};
  auto rows = session.query(
      render(statement, {{"shards", Literal::numbers(shards_of(leases))}, {"node", Literal::number(node)}}));
  return those_of(leases, read_leases(*rows));
}

std::vector<Lease> MysqlTables::share_leases(const Fence& fence) {
  return lock_leases(session_, "leases_share", fence.node, fence.leases);
}

void MysqlTables::guard_leases(const Fence& fence) {
  session_.later(render("leases_guard", {{"shards", Literal::numbers(shards_of(fence.leases))},
                                         {"leases", pairs_of(fence.leases)},
                                         {"node", Literal::number(fence.node)},
                                         {"count", Literal::number(fence.leases.size())}}));
}

std::vector<Lease> MysqlTables::current_leases() {
  auto rows = session_.query(render("leases_standing"));
  return read_leases(*rows);
}

MysqlTables::Locked MysqlTables::lock(const Fence& fence, std::span<const TaskId> ids) {
  const std::string tasks =
      render("lock_tasks", {{"ids", Literal::ids(ids)}, {"short_claim", short_claim()}});
  Locked locked;
  ResultPtr rows;
  if (fence.leases.empty() || fence.node == 0) {
    rows = session_.query(tasks);
  } else {
    ResultPtr leases;
    std::tie(leases, rows) =
        session_.query(render("leases_share", {{"shards", Literal::numbers(shards_of(fence.leases))},
                                               {"node", Literal::number(fence.node)}}),
                       tasks);
    locked.held = those_of(fence.leases, read_leases(*leases));
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
        try {
          session_->exec(render("node_insert", {{"name", name},
                                                {"incarnation", incarnation},
                                                {"ttl_us", micros(ttl)},
                                                {"version", version},
                                                {"address", address}}));
        } catch (const ::sql::SQLException& e) {
          if (is_duplicate(e)) throw Again{"another process registers the same node name"};
          throw;
        }
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
    auto row = session_->query(render("nodes_after_beat", {{"node", Literal::number(node)}}));
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
        std::vector<int> shards;
        auto rows = session_->query(render("leases_of", {{"node", id}}));
        while (rows->next()) shards.push_back(rows->getInt(1));
        if (shards.empty()) return;
        session_->exec(render("leases_leave", {{"shards", Literal::numbers(shards)}, {"node", id}}));
      },
      "leave");
}

Result<std::vector<NodeRow>> MysqlStore::live_nodes() { return read_nodes(*session_, "nodes_live"); }
Result<std::vector<NodeRow>> MysqlStore::nodes() { return read_nodes(*session_, "nodes"); }

Result<std::vector<ShardOverdue>> MysqlStore::overdue() {
  return session_->run_for([&] {
    std::vector<int> all(kShards);
    std::iota(all.begin(), all.end(), 0);
    std::vector<ShardOverdue> late;
    auto row = session_->query(render("shards_overdue", {{"shards", Literal::numbers(all)}}));
    while (row->next())
      late.push_back({row->getInt(1), row->getInt64(2), time_at(*row, 3).value_or(EpochMs{})});
    return late;
  });
}

Result<std::vector<ShardRow>> MysqlStore::shards() {
  return session_->run_for([&] {
    std::vector<ShardRow> shards;
    auto row = session_->query(render("shards"));
    while (row->next()) {
      shards.push_back({row->getInt(1), row->getInt(2), row->getUInt64(3), time_at(*row, 4), time_at(*row, 5),
                        text_at(*row, 6), time_at(*row, 7)});
    }
    return shards;
  });
}

Result<std::vector<Lease>> MysqlStore::acquire(int node, std::uint64_t incarnation,
                                               std::span<const int> shards, Ms ttl, std::uint64_t above) {
  if (shards.empty()) return std::vector<Lease>{};
  return session_->transaction_for(
      [&] {
        auto rows =
            session_->query(render("node_incarnation", {{"node", Literal::number(node)},
                                                        {"incarnation", Literal::number(incarnation)}}));
        if (!rows->next()) return std::vector<Lease>{};
        rows = session_->query(
            render("leases_free", {{"shards", Literal::numbers(shards)}, {"node", Literal::number(node)}}));
        std::vector<Lease> taken = read_leases(*rows);
        if (taken.empty()) return taken;
        session_->exec(render("leases_take", {{"node", Literal::number(node)},
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
  // Nearly always all are held, and one statement says so.
  const auto renewed = session_->run_for([&] {
    failpoint("renew.before_commit");
    const auto rows =
        session_->exec(render("leases_renew_all", {{"ttl_us", micros(ttl)},
                                                   {"shards", Literal::numbers(shards_of(leases))},
                                                   {"leases", pairs_of(leases)},
                                                   {"node", Literal::number(node)}}));
    failpoint("renew.after_commit");
    return rows;
  });
  if (!renewed) return tl::unexpected(renewed.error());
  if (*renewed == static_cast<std::int64_t>(leases.size()))
    return std::vector<Lease>(leases.begin(), leases.end());
  return session_->transaction_for([&] {
    std::vector<Lease> held = lock_leases(*session_, "leases_own", node, leases);
    if (!held.empty()) {
      session_->exec(
          render("leases_renew", {{"ttl_us", micros(ttl)}, {"shards", Literal::numbers(shards_of(held))}}));
    }
    return held;
  });
}

Result<void> MysqlStore::release(int node, std::span<const Lease> leases) {
  return session_->transaction(
      [&] {
        const std::vector<Lease> held = lock_leases(*session_, "leases_own", node, leases);
        if (held.empty()) return;
        session_->exec(render("leases_release", {{"shards", Literal::numbers(shards_of(held))}}));
      },
      "release");
}

}  // namespace rung::mysql
