#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "src/store/memory/memory_store_impl.h"

namespace rung {
namespace {

// Failures by kCauseBucket, as CauseRow::trend has them.
std::vector<std::int64_t> trend_of(const std::map<EpochMs, std::int64_t>& failures, EpochMs now) {
  std::vector<std::int64_t> trend(kCauseBuckets, 0);
  for (auto it = failures.upper_bound(now - std::chrono::hours{1}); it != failures.end(); ++it) {
    // Not negative, also if the clock has gone back since.
    const auto age = std::max<std::int64_t>((now - it->first) / kCauseBucket, 0);
    trend[kCauseBuckets - 1 - static_cast<std::size_t>(age)] += it->second;
  }
  return trend;
}

}  // namespace

void MemoryStore::write_causes(const CauseChanges& changes, int node) {
  const EpochMs now = db_.now_locked();
  for (CauseRow row : changes.fresh()) {
    row.first_seen = row.last_seen = now;
    const std::string id = row.id, queue = row.queue, detail = describe(row);
    if (!db_.causes_.try_emplace(id, MemoryDb::Cause{std::move(row)}).second) continue;
    record({0, {}, node_name(node), "cause_appeared", id, detail});
    write_outgoing({0, {}, OutgoingKind::cause_appeared, id, queue});
  }
  db_.cause_book_.stored(changes.fresh());
  for (const auto& [id, counts] : changes.counts()) {
    MemoryDb::Cause& cause = db_.causes_[id];
    cause.row.scheduled += counts.scheduled;
    cause.row.parked += counts.parked;
    cause.row.succeeded += counts.succeeded;
    cause.row.total += counts.total;
    if (counts.failures == 0) continue;
    cause.row.last_seen = now;
    cause.failures[EpochMs{now.ms - now.ms % kCauseBucket.count()}] += counts.failures;
  }
}

std::int64_t MemoryStore::last_hour(const MemoryDb::Cause& cause) const {
  const auto trend = trend_of(cause.failures, db_.now_locked());
  return std::accumulate(trend.begin(), trend.end(), std::int64_t{0});
}

CauseRow MemoryStore::shown(const MemoryDb::Cause& cause) const {
  CauseRow row = cause.row;
  row.last_hour = last_hour(cause);
  row.trend = trend_of(cause.failures, db_.now_locked());
  return row;
}

Result<std::vector<CauseRow>> MemoryStore::causes(const CauseFilter& filter) {
  return call([&] {
    std::vector<CauseRow> all;
    for (const auto& [id, cause] : db_.causes_) {
      const CauseRow row = shown(cause);
      if (!filter.id.empty() && id != filter.id) continue;
      if (!filter.queue.empty() && row.queue != filter.queue) continue;
      if (!filter.states.empty() && std::ranges::find(filter.states, row.state) == filter.states.end())
        continue;
      if (filter.with_tasks && row.scheduled + row.parked == 0) continue;
      all.push_back(row);
    }
    std::ranges::sort(all, [](const CauseRow& a, const CauseRow& b) {
      const auto open = [](const CauseRow& row) { return row.scheduled + row.parked; };
      return std::tuple(-open(a), -a.last_seen.ms, a.id) < std::tuple(-open(b), -b.last_seen.ms, b.id);
    });
    const auto from = std::min(static_cast<std::size_t>(filter.offset), all.size());
    const auto to = std::min(from + static_cast<std::size_t>(filter.limit), all.size());
    return std::vector<CauseRow>(all.begin() + static_cast<std::ptrdiff_t>(from),
                                 all.begin() + static_cast<std::ptrdiff_t>(to));
  });
}

Result<std::optional<CauseRow>> MemoryStore::triage(const std::string& cause, const CauseTriage& triage,
                                                    const std::string& who) {
  return call([&]() -> std::optional<CauseRow> {
    const auto it = db_.causes_.find(cause);
    if (it == db_.causes_.end()) return std::nullopt;
    const CauseRow before = it->second.row;
    CauseRow& row = it->second.row;
    row.state = state_after(before, triage);
    row.owner = triage.owner.value_or(row.owner);
    row.note = triage.note.value_or(row.note);
    row.link = triage.link.value_or(row.link);
    row.worse_at.reset();
    if (triage.state == CauseState::ignored) it->second.ignored_rate = last_hour(it->second);
    record({0, {}, "", "cause_triaged", cause, describe_triage(before, row, who)});
    return shown(it->second);
  });
}

Result<CauseStore::Totals> MemoryStore::cause_totals() {
  return call([&] {
    Totals out;
    for (const auto& [id, cause] : db_.causes_) {
      ++out.by_state[cause.row.state];
      if (cause.row.worse_at) ++out.worse;
    }
    return out;
  });
}

// Counts are always whole here: only what follows from them is left.
Result<CausesFolded> MemoryStore::fold_causes(int) {
  return call([&] {
    CausesFolded out;
    for (auto& [id, cause] : db_.causes_) {
      if (cause.row.state != CauseState::ignored ||
          last_hour(cause) < kWorse * std::max<std::int64_t>(cause.ignored_rate, 1))
        continue;
      cause.row.state = CauseState::fresh;
      cause.row.worse_at = db_.now_locked();
      record({0, {}, "", "cause_worse", id, describe(cause.row)});
      write_outgoing({0, {}, OutgoingKind::cause_worse, id, cause.row.queue});
      out.worse.push_back(shown(cause));
    }
    return out;
  });
}

Result<void> MemoryStore::read_causes() {
  auto done = call([&] {
    std::vector<std::pair<std::string, std::string>> all;
    for (const auto& [id, cause] : db_.causes_) all.emplace_back(id, cause.row.queue);
    db_.cause_book_.load(all);
    return true;
  });
  if (!done) return tl::unexpected(done.error());
  return {};
}

// No row is older than causes.
Result<CausesRegrouped> MemoryStore::regroup_causes(int) { return CausesRegrouped{}; }

Result<int> MemoryStore::forget_causes(EpochMs before, int limit) {
  return call([&] {
    int gone = 0;
    std::erase_if(db_.causes_, [&](const auto& entry) {
      const CauseRow& row = entry.second.row;
      const bool idle = row.scheduled == 0 && row.parked == 0 && row.succeeded == 0 && row.last_seen < before;
      return idle && gone < limit && ++gone > 0;
    });
    return gone;
  });
}

}  // namespace rung
