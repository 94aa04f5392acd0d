// The part of tasks that writer_ does not do: the messages of claims, and which tasks are due.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <unordered_set>

#include "src/core/base/failpoint.h"
#include "src/store/mysql/store_impl.h"

namespace rung::mysql {
namespace {

std::string union_all(const std::vector<std::string>& parts) {
  std::string sql;
  for (const std::string& part : parts) sql.append(sql.empty() ? "" : " UNION ALL ").append(part);
  return sql;
}

// A condition that leaves out those queues. Begins with a blank, or is empty.
std::string all_but(std::span<const std::string> queues) {
  if (queues.empty()) return {};
  std::vector<Literal> names;
  for (const std::string& queue : queues) names.push_back(Literal::text(queue + '.'));
  return ' ' + render("due.without", {{"queues", Literal::list(names)}});
}

// `entries`, sorted: the first `per_shard` of each shard.
Result<std::vector<DueEntry>> at_most(std::size_t per_shard, Result<std::vector<DueEntry>> entries) {
  if (!entries || entries->size() <= per_shard) return entries;
  std::map<int, std::size_t> seen;
  std::erase_if(*entries, [&](const DueEntry& e) { return ++seen[e.shard] > per_shard; });
  return entries;
}

// In test builds RUNG_TEST_SHORT_CLAIMS in the environment makes every claim short: tests have few tasks.
std::size_t short_claims_from() {
  if constexpr (kFailpoints) {
    static const bool all = std::getenv("RUNG_TEST_SHORT_CLAIMS") != nullptr;
    if (all) return 1;
  }
  return kShortClaims;
}

Result<std::vector<DueEntry>> due_entries(Session& session, const std::string& sql) {
  auto entries = session.read_all(sql, [](const ::sql::ResultSet& row) {
    return DueEntry{id_at(row), row.getInt(2), time_at(row, 3).value_or(EpochMs{}), text_at(row, 4)};
  });
  if (entries)
    std::ranges::stable_sort(*entries, {}, [](const DueEntry& e) { return std::pair(e.at, e.id); });
  return entries;
}

}  // namespace

Result<Claimed> MysqlStore::claim(std::span<const Event> claims, const Fence& fence, const Decider& decide,
                                  std::size_t most_bytes) {
  auto decisions = writer_.claim(claims, fence, decide, {most_bytes, short_claims_from()});
  if (!decisions) return tl::unexpected(decisions.error());
  return Claimed{*std::move(decisions), tables_->messages()};
}

Result<std::vector<StoredMessage>> MysqlStore::messages(std::span<const TaskId> ids) {
  if (ids.empty()) return std::vector<StoredMessage>{};
  return session_->run_for([&] {
    return messages_at(*session_->query(render("messages", {{"ids", Literal::ids(ids)}})));
  });
}

// Finds scheduled tasks in an index that a claim does not change, so claimed tasks have to be removed.
Result<std::vector<DueEntry>> MysqlStore::due(State state, std::span<const int> shards,
                                              std::optional<EpochMs> after, EpochMs until, int per_shard,
                                              std::span<const std::string> without) {
  if (shards.empty() || per_shard <= 0) return std::vector<DueEntry>{};
  const auto most = static_cast<std::size_t>(per_shard);
  const Literal last = Literal::time(until);
  const Literal first = after ? Literal::time(*after) : Literal::before_all_times();
  const Literal all = Literal::numbers(shards);
  const Literal others = Literal::rendered(all_but(without));
  const auto publishing = [&] {
    return due_entries(*session_, render("publishing", {{"until", last}, {"after", first}, {"shards", all}}));
  };
  if (state == State::publishing) return at_most(most, publishing());
  const Literal stage = Literal::number(static_cast<int>(state));
  const auto read_few = [&](std::size_t limit) {
    return due_entries(*session_, render("due_few", {{"stage", stage},
                                                     {"shards", all},
                                                     {"until", last},
                                                     {"after", first},
                                                     {"without", others},
                                                     {"limit", Literal::number(limit + 1)}}));
  };
  auto few = read_few(most);
  if (!few || few->empty()) return few;  // mostly so: one statement
  std::unordered_set<TaskId> claimed;
  if (state == State::scheduled) {
    const auto ids = session_->read_all(render("claimed", {{"until", last}}), id_at);
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
  std::vector<std::string> parts;
  parts.reserve(shards.size());
  for (const int shard : shards) {
    parts.push_back(render("due_shard", {{"stage", stage},
                                         {"shard", Literal::number(shard)},
                                         {"until", last},
                                         {"after", first},
                                         {"without", others},
                                         {"limit", Literal::number(most + claimed_in[shard])}}));
  }
  return at_most(most, without_claimed(due_entries(*session_, union_all(parts))));
}

Result<WorkWaiting> MysqlStore::work_waiting(std::span<const int> shards, EpochMs scheduled_until,
                                             EpochMs until) {
  if (shards.empty()) return WorkWaiting{};
  const auto stage = [](State state) { return Literal::number(static_cast<int>(state)); };
  return session_->run_for([&] {
    auto row = session_->query(render("work_waiting", {{"scheduled", stage(State::scheduled)},
                                                       {"awaiting", stage(State::awaiting)},
                                                       {"parked", stage(State::parked)},
                                                       {"shards", Literal::numbers(shards)},
                                                       {"scheduled_until", Literal::time(scheduled_until)},
                                                       {"until", Literal::time(until)}}));
    if (!row->next()) return WorkWaiting{};
    const auto there = [&](std::uint32_t column) { return row->getInt(column) != 0; };
    return WorkWaiting{there(1), there(2), there(3), there(4), there(5)};
  });
}

Result<std::vector<DueEntry>> MysqlStore::stranded(std::span<const Lease> leases, int limit) {
  if (leases.empty() || limit <= 0) return std::vector<DueEntry>{};
  std::string any;
  for (const Lease& lease : leases) {
    any += any.empty() ? "" : " OR ";
    any += render("stranded.lease",
                  {{"shard", Literal::number(lease.shard)}, {"epoch", Literal::number(lease.epoch)}});
  }
  return due_entries(*session_, render("stranded", {{"leases", Literal::rendered(std::move(any))},
                                                    {"limit", Literal::number(limit)}}));
}

Result<std::vector<TaskId>> MysqlStore::short_claims(std::span<const Lease> leases) {
  return session_->run_for([&] {
    std::vector<TaskId> ids;
    for (const Lease& lease : leases) {
      const auto found = session_->all(render("short_claims", {{"short_claim", short_claim()},
                                                               {"shard", Literal::number(lease.shard)},
                                                               {"epoch", Literal::number(lease.epoch)}}),
                                       id_at);
      ids.insert(ids.end(), found.begin(), found.end());
    }
    return ids;
  });
}

}  // namespace rung::mysql
