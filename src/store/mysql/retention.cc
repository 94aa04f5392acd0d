// Retention, row by row: finished tasks, their remains in a partition that stays, old records. And the
// partitions of rung_attempts and rung_bodies: both tables have the same ones, unless a change was
// interrupted between the two: then only the table that lacks the change gets it.
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "src/core/base/failpoint.h"
#include "src/store/mysql/session.h"

namespace rung::mysql {
namespace {

// Bodies first: once their partition is dropped under the lock, nothing that a task needs is at risk any
// more.
constexpr std::array<std::string_view, 2> kTables{"rung_bodies", "rung_attempts"};
constexpr std::chrono::minutes kLongestChange{10};  // deleting a big file may be slow
constexpr int kNoSuchPartition = 1507;
// Maximum rows to copy if partitions were not added in time: some seconds' work at most.
constexpr std::int64_t kMostRows = 10'000;
constexpr std::int64_t kMostBytes = 64 * 1024 * 1024;

using PartitionsOf = std::map<std::string, std::vector<Partition>, std::less<>>;  // by table, by end

// Without the last partition, which has no end.
PartitionsOf read_partitions(Session& session) {
  PartitionsOf out;
  for (const std::string_view table : kTables) out.try_emplace(std::string(table));
  for (const auto& [table, name, end] : session.rows<std::string, std::string, TaskId>(render("parts"))) {
    auto& partitions = out[table];
    partitions.push_back({name, partitions.empty() ? TaskId{} : partitions.back().end, end});
  }
  return out;
}

bool too_much_to_copy(Session& session, TaskId from) {
  const Place most{"most", kMostRows + 1};
  const auto many = [&](std::string_view table) {
    return session.number(render("rest_rows", {{"table", Sql::identifier(table)}, most})) > kMostRows;
  };
  return std::ranges::any_of(kTables, many) ||
         session.number(render("rest_bytes", {{"from", from}, most})) > kMostBytes;
}

Sql reorganize(std::string_view table, std::span<const Partition> partitions) {
  std::vector<Sql> parts;
  for (const Partition& partition : partitions)
    parts.push_back(
        render("parts_add.one", {{"part", Sql::identifier(partition.name)}, {"end", partition.end}}));
  parts.push_back(render("parts_add.rest"));
  return render("parts_add", {{"table", Sql::identifier(table)}, {"parts", parts}});
}

// Runs `body` on a connection of its own, which waits a second for a table. False: the table is in use.
bool change_tables(const Session& own, const std::function<void(Session&)>& body) {
  // Closing it releases all its locks, even after an error.
  Session session(own.options(), own.addresses(), kLongestChange);
  return session.hold([&] {
    session.exec(render("part_session"));
    try {
      body(session);
      return true;
    } catch (const DatabaseError& e) {
      if (e.code != kLockWaitOver && e.code != kDeadlock) throw;
      return false;
    }
  });
}

std::int64_t erase(Session& session, std::string_view table, std::string_view column,
                   std::span<const TaskId> ids) {
  return ids.empty() ? 0 : session.exec(delete_by(table, column, Sql::of(ids)));
}

// Removes from `ids` the tasks of a running bulk, which would find them gone.
void without_bulks(Session& session, std::vector<TaskId>& ids) {
  const auto bulks = session.rows<TaskId>(render("bulks_under_way"));
  if (bulks.empty() || ids.empty()) return;
  const auto named = session.rows<TaskId>(render("bulks_name", {{"bulks", bulks}, {"ids", ids}}));
  const std::set<TaskId> stay(named.begin(), named.end());
  std::erase_if(ids, [&](TaskId id) { return stay.contains(id); });
}

}  // namespace

std::vector<Partition> MysqlStore::partitions() {
  std::map<TaskId, Partition> by_end;
  for (const auto& [table, partitions] : read_partitions(*session_)) {
    for (const Partition& partition : partitions) {
      Partition& both = by_end.try_emplace(partition.end, partition).first->second;
      both.from = std::min(both.from, partition.from);
    }
  }
  std::vector<Partition> out;
  for (auto& [end, partition] : by_end) out.push_back(std::move(partition));
  return out;
}

PartitionsAdded MysqlStore::add_partitions(std::span<const Partition> partitions) {
  std::vector<Sql> statements;
  bool full = false;
  const PartitionsOf all = read_partitions(*session_);
  std::map<TaskId, Partition> wanted;  // by end; also partitions that only one table has so far
  for (const auto& [table, there] : all) {
    for (const Partition& partition : there) wanted.try_emplace(partition.end, partition);
  }
  for (const Partition& partition : partitions) wanted.try_emplace(partition.end, partition);
  for (const auto& [table, there] : all) {
    const TaskId last = there.empty() ? TaskId{} : there.back().end;
    std::vector<Partition> later;
    for (auto it = wanted.upper_bound(last); it != wanted.end(); ++it) later.push_back(it->second);
    if (later.empty()) continue;
    statements.push_back(reorganize(table, later));
    full = full || too_much_to_copy(*session_, last);
  }
  if (statements.empty()) return PartitionsAdded::added;
  if (full) return PartitionsAdded::full;
  const bool done = change_tables(*session_, [&](Session& session) {
    for (const Sql& statement : statements) {
      session.exec(statement);
      failpoint("partition.added");
    }
  });
  return done ? PartitionsAdded::added : PartitionsAdded::busy;
}

PartitionDrop MysqlStore::drop_partition(const Partition& partition) {
  // Its name in each table that has it, and its lower bound of ids there.
  std::vector<std::pair<std::string, std::string>> names;
  TaskId from = partition.from;
  const PartitionsOf all = read_partitions(*session_);
  for (const std::string_view table : kTables) {
    const auto& partitions = all.find(table)->second;
    const auto it = std::ranges::find(partitions, partition.end, &Partition::end);
    if (it == partitions.end()) continue;
    names.emplace_back(table, it->name);
    from = std::min(from, it->from);
  }
  const auto task_left = [&] {
    return session_->query(render("part_held", {{"from", from}, {"to", partition.end}}))->next();
  };
  // First without a lock: nearly always this already gives the answer.
  if (task_left()) return PartitionDrop::kept;
  if (names.empty()) return PartitionDrop::dropped;
  bool meanwhile = false;
  const bool done = change_tables(*session_, [&](Session& session) {
    // A new task may have an old id: made before an outage, written after it.
    session.exec(render("part_lock"));
    meanwhile = task_left();
    for (const auto& [table, name] : names) {
      if (meanwhile) break;
      try {
        session.exec(
            render("part_drop", {{"table", Sql::identifier(table)}, {"part", Sql::identifier(name)}}));
      } catch (const DatabaseError& e) {
        if (e.code != kNoSuchPartition) throw;
      }
      failpoint("partition.dropped");
    }
  });
  if (!done) return PartitionDrop::busy;
  return meanwhile ? PartitionDrop::kept : PartitionDrop::dropped;
}

PurgeResult MysqlStore::purge_finished(EpochMs before, const PurgeCursor& from, int limit) {
  PurgeResult page{0, from, false};
  std::vector<TaskId> over;
  const auto rows = session_->rows<TaskId, EpochMs, State>(
      render("over_page", {{"at", from.at}, {"id", from.id}, {"before", before}, {"limit", limit}}));
  for (const auto& [id, at, state] : rows) {
    page.last = {at, id};
    if (state != State::parked && state != State::unknown) over.push_back(id);
  }
  page.more = std::ssize(rows) == limit;
  if (over.empty()) return page;
  std::ranges::sort(over);
  return session_->transaction(
      [&] {
        auto ids = session_->rows<TaskId>(render("over_lock", {{"ids", over}, {"before", before}}));
        without_bulks(*session_, ids);
        PurgeResult out = page;
        if (ids.empty()) return out;
        session_->later(render("cause_changes_of_purged", {{"ids", ids}}));
        erase(*session_, "rung_task_headers", "task_id", ids);
        out.tasks = erase(*session_, "rung_tasks", "id", ids);
        return out;
      },
      "purge");
}

Swept MysqlStore::sweep(TaskId from, TaskId to, int limit) {
  return session_->transaction(
      [&] {
        Swept out;
        const auto page = session_->rows<TaskId, bool>(
            render("sweep_page", {{"from", from}, {"to", to}, {"limit", limit}}));
        std::vector<TaskId> gone;
        for (const auto& [id, is_gone] : page) {
          if (is_gone) gone.push_back(id);
        }
        if (std::ssize(page) == limit) out.next = TaskId{std::get<0>(page.back()).value + 1};
        erase(*session_, "rung_attempts", "task_id", gone);
        erase(*session_, "rung_bodies", "task_id", gone);
        out.tasks = std::ssize(gone);
        return out;
      },
      "sweep");
}

PurgedRecords MysqlStore::purge_records(EpochMs before, int limit) {
  return session_->transaction([&] {
    PurgedRecords out;
    const Place old{"before", before}, most{"limit", limit};
    const auto erase_old = [&](std::string_view table) {
      const Place name{"table", Sql::identifier(table)};
      return erase(*session_, table, "id", session_->rows<TaskId>(render("old_rows", {name, old, most})));
    };
    out.audit = erase_old("rung_audit");
    out.events = erase_old("rung_events");
    out.more = out.audit == limit || out.events == limit;
    const auto bulks = session_->rows<TaskId>(render("old_bulk", {old}));
    if (bulks.empty()) return out;
    out.more = true;  // this one may have further items, or not be the last
    // The row is still shown: its items go first.
    const auto items = session_->exec(render("old_bulk_items_delete", {{"bulk", bulks}, most}));
    if (items < limit) out.bulks = erase(*session_, "rung_bulks", "id", bulks);
    return out;
  });
}

}  // namespace rung::mysql
