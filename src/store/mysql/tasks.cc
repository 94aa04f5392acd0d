// The part of tasks that writer_ does not do: the messages of claims, and which tasks are due.
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

int stage_of(State state) { return static_cast<int>(state); }

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

Result<Claimed> MysqlStore::claim(std::span<const Event> claims, const Fence& fence, const Decider& decide,
                                  std::size_t most_bytes) {
  const TaskWriter::ClaimLimits limits{most_bytes};
  auto decisions = writer_.apply(claims, fence, decide, nullptr, &limits);
  if (!decisions) return tl::unexpected(decisions.error());
  return Claimed{*std::move(decisions), tables_->messages()};
}

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
  const Sql first = after ? Sql::of(*after) : Sql::before_all_times();
  const Sql others = all_but(without);
  const auto publishing = [&] {
    return due_entries(*session_,
                       render("publishing", {{"until", until}, {"after", first}, {"shards", shards}}));
  };
  if (state == State::publishing) return at_most(most, publishing());
  const int stage = stage_of(state);
  const auto read_few = [&](std::size_t limit) {
    return due_entries(*session_, render("due_few", {{"stage", stage},
                                                     {"shards", shards},
                                                     {"until", until},
                                                     {"after", first},
                                                     {"without", others},
                                                     {"limit", limit + 1}}));
  };
  auto few = read_few(most);
  if (!few || few->empty()) return few;  // mostly so: one statement
  std::unordered_set<TaskId> claimed;
  if (state == State::scheduled) {
    const auto ids = session_->read_all(render("claimed", {{"until", until}}), id_at);
    if (!ids) return tl::unexpected(ids.error());
    claimed.insert(ids->begin(), ids->end());
  }
  const auto without_claimed = [&](Result<std::vector<DueEntry>> entries) {
    if (entries) std::erase_if(*entries, [&](const DueEntry& e) { return claimed.contains(e.id); });
    return entries;
  };
  const std::size_t limit = most + claimed.size();
  if (few->size() > most && !claimed.empty()) few = read_few(limit);
  if (!few || few->size() <= limit) return at_most(most, without_claimed(std::move(few)));
  // Many: raise each shard's limit by the tasks claimed in that shard, not in all shards.
  std::map<int, std::size_t> claimed_in;
  if (!claimed.empty()) {
    const auto rows = publishing();
    if (!rows) return tl::unexpected(rows.error());
    claimed.clear();
    for (const DueEntry& row : *rows) {
      claimed.insert(row.id);
      ++claimed_in[row.shard];
    }
  }
  std::vector<Sql> parts;
  for (const int shard : shards) {
    parts.push_back(render("due_shard", {{"stage", stage},
                                         {"shard", shard},
                                         {"until", until},
                                         {"after", first},
                                         {"without", others},
                                         {"limit", most + claimed_in[shard]}}));
  }
  return at_most(most, without_claimed(due_entries(*session_, Sql::joined(parts, " UNION ALL "))));
}

Result<WorkWaiting> MysqlStore::work_waiting(std::span<const int> shards, EpochMs scheduled_until,
                                             EpochMs until) {
  if (shards.empty()) return WorkWaiting{};
  return session_->run_for([&] {
    return session_
        ->first(render("work_waiting", {{"scheduled", stage_of(State::scheduled)},
                                        {"awaiting", stage_of(State::awaiting)},
                                        {"parked", stage_of(State::parked)},
                                        {"shards", shards},
                                        {"scheduled_until", scheduled_until},
                                        {"until", until}}),
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
