// The messages of tasks, and which tasks are due.
#include <algorithm>
#include <map>
#include <unordered_set>

#include "src/store/mysql/store_impl.h"

namespace rung::mysql {
namespace {

// A condition that leaves out those queues.
Sql all_but(std::span<const std::string> queues) {
  if (queues.empty()) return {};
  std::vector<std::string> names;
  for (const std::string& queue : queues) names.push_back(queue + '.');
  return render("due.without", {{"queues", names}});
}

// `entries`, sorted: the first `per_shard` of each shard.
Result<std::vector<DueEntry>> at_most(std::size_t per_shard, Result<std::vector<DueEntry>> entries) {
  if (!entries || entries->size() <= per_shard) return entries;
  std::map<int, std::size_t> seen;
  std::erase_if(*entries, [&](const DueEntry& e) { return ++seen[e.shard] > per_shard; });
  return entries;
}

Result<std::vector<DueEntry>> due_entries(Session& session, const Sql& sql) {
  auto entries =
      session.read_all(sql, row_of(&DueEntry::id, &DueEntry::shard, &DueEntry::at, &DueEntry::queue));
  if (entries)
    std::ranges::stable_sort(*entries, {}, [](const DueEntry& e) { return std::pair(e.at, e.id); });
  return entries;
}

}  // namespace

Result<std::vector<StoredMessage>> MysqlStore::messages(std::span<const TaskId> ids) {
  if (ids.empty()) return std::vector<StoredMessage>{};
  return session_->run_for([&] { return messages_at(*session_->query(render("messages", {{"ids", ids}}))); });
}

// Finds scheduled tasks in an index that a claim does not change, so claimed tasks have to be removed.
Result<std::vector<DueEntry>> MysqlStore::due(State state, std::span<const int> shards,
                                              std::optional<EpochMs> after, EpochMs until, int per_shard,
                                              std::span<const std::string> without) {
  if (shards.empty() || per_shard <= 0) return std::vector<DueEntry>{};
  const auto most = static_cast<std::size_t>(per_shard);
  const Place until_then{"until", until}, from{"after", after ? Sql::of(*after) : Sql::before_all_times()};
  const auto publishing = [&] {
    return due_entries(*session_, render("publishing", {until_then, from, {"shards", shards}}));
  };
  if (state == State::publishing) return at_most(most, publishing());
  const Place stage{"stage", static_cast<int>(state)}, others{"without", all_but(without)};
  auto few = due_entries(
      *session_,
      render("due_few", {stage, {"shards", shards}, until_then, from, others, {"limit", most + 1}}));
  if (!few || few->empty()) return few;  // mostly so: one statement
  std::unordered_set<TaskId> claimed;
  std::map<int, std::size_t> claimed_in;
  if (state == State::scheduled) {
    const auto rows = publishing();
    if (!rows) return rows;
    for (const DueEntry& row : *rows) {
      claimed.insert(row.id);
      ++claimed_in[row.shard];
    }
  }
  const auto without_claimed = [&](Result<std::vector<DueEntry>> entries) {
    if (entries) std::erase_if(*entries, [&](const DueEntry& e) { return claimed.contains(e.id); });
    return entries;
  };
  if (few->size() <= most) return at_most(most, without_claimed(std::move(few)));
  // Many: each shard's limit is raised by the tasks claimed in that shard, not in all shards.
  std::vector<Sql> parts;
  for (const int shard : shards) {
    const std::size_t limit = most + claimed_in[shard];
    parts.push_back(
        render("due_shard", {stage, {"shard", shard}, until_then, from, others, {"limit", limit}}));
  }
  return at_most(most, without_claimed(due_entries(*session_, Sql::joined(parts, " UNION ALL "))));
}

Result<WorkWaiting> MysqlStore::work_waiting(std::span<const int> shards, EpochMs scheduled_until,
                                             EpochMs until) {
  if (shards.empty()) return WorkWaiting{};
  return session_->run_for([&] {
    return session_
        ->first(render("work_waiting",
                       {{"shards", shards}, {"scheduled_until", scheduled_until}, {"until", until}}),
                row_of(&WorkWaiting::scheduled, &WorkWaiting::awaiting, &WorkWaiting::parked,
                       &WorkWaiting::bulks, &WorkWaiting::cause_changes))
        .value_or(WorkWaiting{});
  });
}

Result<std::vector<DueEntry>> MysqlStore::stranded(std::span<const Lease> leases, int limit) {
  if (leases.empty() || limit <= 0) return std::vector<DueEntry>{};
  std::vector<Sql> any;
  for (const Lease& lease : leases)
    any.push_back(render("stranded.lease", {{"shard", lease.shard}, {"epoch", lease.epoch}}));
  return due_entries(*session_, render("stranded", {{"leases", Sql::joined(any, " OR ")}, {"limit", limit}}));
}

Result<std::vector<TaskId>> MysqlStore::short_claims(std::span<const Lease> leases) {
  return session_->run_for([&] {
    std::vector<TaskId> ids;
    for (const Lease& lease : leases) {
      const auto found = session_->all(
          render("short_claims",
                 {{"short_claim", short_claim()}, {"shard", lease.shard}, {"epoch", lease.epoch}}),
          id_at);
      ids.insert(ids.end(), found.begin(), found.end());
    }
    return ids;
  });
}

}  // namespace rung::mysql
