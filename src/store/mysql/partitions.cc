// Reads, adds and drops the partitions of rung_attempts and rung_bodies. Both tables have the same ones,
// unless a change was interrupted between the two: then only the table that lacks the change gets it.
#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "src/core/base/failpoint.h"
#include "src/store/mysql/render.h"
#include "src/store/mysql/rows.h"
#include "src/store/mysql/store_impl.h"

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

// REQUIRES: inside run(). Without the last partition, which has no end.
PartitionsOf read_partitions(Session& session) {
  PartitionsOf out;
  for (const std::string_view table : kTables) out.try_emplace(std::string(table));
  auto row = session.query(render("parts"));
  while (row->next()) {
    const std::string end = text_at(*row, 3);
    std::int64_t value = 0;
    const auto [stop, error] = std::from_chars(end.data(), end.data() + end.size(), value);
    if (error != std::errc{} || stop != end.data() + end.size()) continue;
    auto& partitions = out[text_at(*row, 1)];
    partitions.push_back({text_at(*row, 2), partitions.empty() ? TaskId{} : partitions.back().end, {value}});
  }
  return out;
}

std::int64_t count_of(Session& session, const std::string& sql) {
  auto row = session.query(sql);
  return row->next() ? row->getInt64(1) : 0;
}

bool too_much_to_copy(Session& session, TaskId from) {
  const Literal most = Literal::number(kMostRows + 1);
  return count_of(session, render("rest_bodies", {{"most", most}})) > kMostRows ||
         count_of(session, render("rest_attempts", {{"most", most}})) > kMostRows ||
         count_of(session, render("rest_bytes", {{"from", Literal::number(from.value)}, {"most", most}})) >
             kMostBytes;
}

std::string reorganize(std::string_view table, std::span<const Partition> partitions) {
  std::string list;
  for (const Partition& partition : partitions) {
    list += render("parts_add.one", {{"part", Literal::identifier(partition.name)},
                                     {"end", Literal::number(partition.end.value)}}) +
            ", ";
  }
  return render("parts_add", {{"table", Literal::identifier(table)},
                              {"parts", Literal::rendered(list + render("parts_add.rest"))}});
}

// Runs `body` on a connection of its own, which waits a second for a table. False: the table is in use.
Result<bool> change_tables(const Session& own, const std::function<void(Session&)>& body) {
  // Closing it releases all its locks, even after an error.
  Session session(own.options(), own.addresses(), kLongestChange);
  return session.run_for([&] {
    session.exec(render("part_session"));
    try {
      body(session);
      return true;
    } catch (const ::sql::SQLException& e) {
      if (e.getErrorCode() != kLockWaitOver && e.getErrorCode() != kDeadlock) throw;
      return false;
    }
  });
}

}  // namespace

Result<std::vector<Partition>> MysqlStore::partitions() {
  return session_->run_for([&] {
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
  });
}

Result<PartitionsAdded> MysqlStore::add_partitions(std::span<const Partition> partitions) {
  std::vector<std::string> statements;
  bool full = false;
  auto looked = session_->run([&] {
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
  });
  if (!looked) return tl::unexpected(looked.error());
  if (statements.empty()) return PartitionsAdded::added;
  if (full) return PartitionsAdded::full;
  auto done = change_tables(*session_, [&](Session& session) {
    for (const std::string& statement : statements) {
      session.exec(statement);
      failpoint("partition.added");
    }
  });
  if (!done) return tl::unexpected(done.error());
  return *done ? PartitionsAdded::added : PartitionsAdded::busy;
}

Result<PartitionDrop> MysqlStore::drop_partition(const Partition& partition) {
  // Its name in each table that has it, and its lower bound of ids there.
  std::vector<std::pair<std::string, std::string>> names;
  TaskId from = partition.from;
  const auto task_left = [&] {
    const auto row = session_->query(render(
        "part_held", {{"from", Literal::number(from.value)}, {"to", Literal::number(partition.end.value)}}));
    return row->next();
  };
  // First without a lock: nearly always this already gives the answer.
  const auto kept = session_->run_for([&] {
    const PartitionsOf all = read_partitions(*session_);
    for (const std::string_view table : kTables) {
      const auto& partitions = all.find(table)->second;
      const auto it = std::ranges::find(partitions, partition.end, &Partition::end);
      if (it == partitions.end()) continue;
      names.emplace_back(table, it->name);
      from = std::min(from, it->from);
    }
    return task_left();
  });
  if (!kept) return tl::unexpected(kept.error());
  if (*kept) return PartitionDrop::kept;
  if (names.empty()) return PartitionDrop::dropped;
  bool meanwhile = false;
  auto done = change_tables(*session_, [&](Session& session) {
    // A new task may have an old id: made before an outage, written after it.
    session.exec(render("part_lock"));
    const auto looked = session_->run([&] { meanwhile = task_left(); });
    if (!looked) throw Abort{looked.error()};
    for (const auto& [table, name] : names) {
      if (meanwhile) break;
      try {
        session.exec(render("part_drop",
                            {{"table", Literal::identifier(table)}, {"part", Literal::identifier(name)}}));
      } catch (const ::sql::SQLException& e) {
        if (e.getErrorCode() != kNoSuchPartition) throw;
      }
      failpoint("partition.dropped");
    }
    session.exec(render("part_unlock"));
  });
  if (!done) return tl::unexpected(done.error());
  if (!*done) return PartitionDrop::busy;
  return meanwhile ? PartitionDrop::kept : PartitionDrop::dropped;
}

}  // namespace rung::mysql
