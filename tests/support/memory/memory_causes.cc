#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "tests/support/memory/memory_store_impl.h"

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

std::int64_t MemoryCauses::Row::last_hour(EpochMs now) const {
  const auto trend = trend_of(failures, now);
  return std::accumulate(trend.begin(), trend.end(), std::int64_t{0});
}

CauseRow MemoryCauses::Row::shown(EpochMs now) const {
  CauseRow out = row;
  out.last_hour = last_hour(now);
  out.trend = trend_of(failures, now);
  return out;
}

std::vector<CauseRow> MemoryCauses::write(const CauseChanges& changes, EpochMs now) {
  std::vector<CauseRow> appeared;
  for (CauseRow row : changes.fresh()) {
    row.first_seen = row.last_seen = now;
    if (rows_.try_emplace(row.id, Row{row}).second) appeared.push_back(std::move(row));
  }
  book_.stored(changes.fresh());
  for (const auto& [id, counts] : changes.counts()) {
    Row& cause = rows_[id];
    cause.row.scheduled += counts.scheduled;
    cause.row.parked += counts.parked;
    cause.row.succeeded += counts.succeeded;
    cause.row.total += counts.total;
    if (counts.failures == 0) continue;
    cause.failed = true;
    cause.row.last_seen = std::max(cause.row.last_seen, now);
    cause.failures[EpochMs{now.ms - now.ms % kCauseBucket.count()}] += counts.failures;
  }
  return appeared;
}

bool MemoryCauses::Row::idle(EpochMs before) const {
  return row.scheduled == 0 && row.parked == 0 && row.succeeded == 0 && row.last_seen < before;
}

void MemoryCauses::read(EpochMs before) {
  std::vector<std::pair<std::string, std::string>> all;
  for (const auto& [id, cause] : rows_) {
    if (!cause.idle(before)) all.emplace_back(id, cause.row.queue);
  }
  book_.load(all);
}

int MemoryCauses::forget(EpochMs before, int limit) {
  int gone = 0;
  std::erase_if(rows_,
                [&](const auto& entry) { return entry.second.idle(before) && gone < limit && ++gone > 0; });
  return gone;
}

Result<std::vector<CauseRow>> MemoryStore::causes(const CauseFilter& filter) {
  return call([&] {
    std::vector<CauseRow> all;
    for (const auto& [id, cause] : db_.causes_.rows()) {
      const CauseRow row = cause.shown(db_.now_());
      if (!filter.id.empty() && id != filter.id) continue;
      if (!filter.queue.empty() && row.queue != filter.queue) continue;
      if (!filter.states.empty() && std::ranges::find(filter.states, row.state) == filter.states.end())
        continue;
      if (filter.with_tasks && row.scheduled + row.parked == 0) continue;
      if (filter.since && row.last_seen < *filter.since) continue;
      all.push_back(row);
    }
    std::ranges::sort(all, [](const CauseRow& a, const CauseRow& b) {
      const auto place = [](const CauseRow& row) {
        return std::tuple(row.state != CauseState::regressed, -(row.scheduled + row.parked),
                          -row.last_seen.ms);
      };
      return std::tuple(place(a), a.id) < std::tuple(place(b), b.id);
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
    const auto it = db_.causes_.rows().find(cause);
    if (it == db_.causes_.rows().end()) return std::nullopt;
    const CauseRow before = it->second.row;
    CauseRow& row = it->second.row;
    row.state = state_after(before, triage);
    row.owner = triage.owner.value_or(row.owner);
    row.note = triage.note.value_or(row.note);
    row.link = triage.link.value_or(row.link);
    row.worse_at.reset();
    if (triage.state == CauseState::ignored) it->second.ignored_rate = it->second.last_hour(db_.now_());
    record({0, {}, "", "cause_triaged", cause, describe_triage(before, row, who)});
    return it->second.shown(db_.now_());
  });
}

Result<CauseStore::Totals> MemoryStore::cause_totals() {
  return call([&] {
    Totals out;
    for (const auto& [id, cause] : db_.causes_.rows()) {
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
    for (auto& [id, cause] : db_.causes_.rows()) {
      CauseRow& row = cause.row;
      const bool failed = std::exchange(cause.failed, false), ignored = row.state == CauseState::ignored;
      if (ignored ? cause.last_hour(db_.now_()) >= kWorse * std::max<std::int64_t>(cause.ignored_rate, 1)
                  : failed && row.state == CauseState::resolved) {
        row.state = ignored ? CauseState::fresh : CauseState::regressed;
        if (ignored) row.worse_at = db_.now_();
        record({0, {}, "", ignored ? "cause_worse" : "cause_regressed", id, describe(row)});
        if (ignored) out.worse.push_back(cause.shown(db_.now_()));
      }
      if (row.scheduled + row.parked > 0 || row.state == CauseState::ignored) continue;
      row.state = CauseState::resolved;
      row.worse_at.reset();
    }
    return out;
  });
}

Result<void> MemoryStore::read_causes() {
  return call([&] { db_.causes_.read(db_.now_() - kCauseKept); });
}

Result<int> MemoryStore::forget_causes(EpochMs before, int limit) {
  return call([&] { return db_.causes_.forget(before, limit); });
}

}  // namespace rung
