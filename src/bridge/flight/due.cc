#include "src/bridge/flight/due.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "src/core/base/failpoint.h"
#include "src/io/log.h"

namespace rung::bridge {

namespace {

constexpr Ms kSweepSoon{50};   // until the next sweep after full pages
constexpr Ms kRecent{10'000};  // with a large backlog: rows due within this, e.g. redriven by a person
constexpr std::size_t kEnoughReady = 5000;
constexpr int kSweptPerShard = 100;
constexpr std::size_t kMostInTheWay = 16;

}  // namespace

DueSweep::DueSweep(io::Loop& loop, DueDeps deps) : deps_(deps), soon_(loop, [this] { sweep_on(); }) {}

void DueSweep::sweep() {
  if (busy_ || !deps_.shards.any() || planted(Bug::sweep_forgotten)) return;
  busy_ = true;
  if (deps_.dispatch.opened()) {
    // A pass under way goes on to its end: else tasks behind a large backlog would wait while gates open.
    anew_ = hurry_;
    if (!std::exchange(hurry_, true)) passed_.reset();
  }
  const EpochMs until = deps_.clock.now() - kGrace;
  const bool recent = deps_.dispatch.ready() > kEnoughReady || look_recent_;
  const auto after = recent ? std::max(until - kRecent, recent_passed_.value_or(EpochMs{})) : passed_;
  deps_.jobs.submit<std::vector<DueEntry>>(
      Lane::sweeps,
      [shards = deps_.shards.list(), after, until,
       without = recent ? in_the_way() : std::vector<std::string>{}](Store& store) {
        return store.due(State::scheduled, shards, after, until, kSweptPerShard, without);
      },
      [this, recent](const Result<std::vector<DueEntry>>& rows) {
        busy_ = false;
        if (!rows) return log::error("sweep failed", {{"reason", rows.error().message}});
        found(*rows, recent);
      });
}

void DueSweep::found(const std::vector<DueEntry>& rows, bool recent) {
  std::vector<io::DueItem> items;
  std::size_t going = 0;  // those that do not wait behind a closed gate
  for (const DueEntry& row : rows) {
    const io::DueItem item = deps_.names.item(row);
    if (deps_.dispatch.flights().contains(item)) continue;
    items.push_back(item);
    going += deps_.dispatch.is_held_back(item) ? 0 : 1;
  }
  // Behind those that stand still may be tasks that a person fired.
  const bool standing = rows.size() - going >= kSweptPerShard;
  const auto end = standing ? end_of_page(rows, recent ? recent_passed_ : passed_) : std::nullopt;
  (recent ? recent_passed_ : passed_) = end;
  if (standing) note_standing(rows);
  // All that is recent is read, page by page; then the next page of what is not.
  look_recent_ = recent ? end.has_value() : standing;
  if (!recent && !end) hurry_ = std::exchange(anew_, false);
  if (!items.empty()) deps_.dispatch.due(items);
  if (going >= kSweptPerShard || look_recent_ || hurry_) soon_.start(kSweepSoon);
}

// Forgets half of what it knew, so that a queue that no longer stands in the way is not left out for long.
void DueSweep::note_standing(const std::vector<DueEntry>& rows) {
  for (auto& [queue, tasks] : standing_) tasks /= 2;
  for (const DueEntry& row : rows) {
    if (deps_.gates.why_closed(row.queue) != nullptr) ++standing_[row.queue];
  }
  if (standing_.size() <= kMostInTheWay) return;
  std::vector<std::pair<std::size_t, std::string>> most;
  for (const auto& [queue, tasks] : standing_) most.emplace_back(tasks, queue);
  std::ranges::partial_sort(most, most.begin() + kMostInTheWay, std::greater{});
  standing_.clear();
  for (std::size_t i = 0; i < kMostInTheWay; ++i) standing_[most[i].second] = most[i].first;
}

// A search that leaves queues out still reads past all their rows, but does not return them.
std::vector<std::string> DueSweep::in_the_way() const {
  std::vector<std::string> queues;
  for (const auto& [queue, tasks] : standing_) {
    if (tasks > 0 && deps_.gates.why_closed(queue) != nullptr) queues.push_back(queue);
  }
  return queues;
}

// Where the first of the full shards ended; none if all were read to their end. `rows`: the earliest first.
// `began`: where this page did.
std::optional<EpochMs> DueSweep::end_of_page(const std::vector<DueEntry>& rows,
                                             std::optional<EpochMs> began) const {
  std::array<int, kShards> per_shard{};
  for (const DueEntry& row : rows) {
    if (++per_shard[static_cast<std::size_t>(row.shard)] < kSweptPerShard) continue;
    const EpochMs before = row.at - Ms{1};  // more of them may be due in that ms
    return began && before <= *began ? row.at : before;
  }
  return std::nullopt;
}

void DueSweep::sweep_on() {
  if (deps_.dispatch.ready() > kEnoughReady) return soon_.start(kSweepSoon);
  sweep();
}

namespace {

constexpr Ms kLookAgainSoon{1000}, kLookAgainAfterError{5000};
constexpr int kMostStranded = 5000;      // rows per check
constexpr int kForgottenPerShard = 100;  // forgotten rows per check
constexpr Ms kForgotten{60'000};         // in `publishing` under our own epoch for this long, and not tracked

// Writes what the former owners of these shards have claimed into the tasks' rows.
Result<void> write_former_claims(Store& store, std::span<const Lease> leases) {
  const auto ids = store.short_claims(leases);
  if (!ids) return tl::unexpected(ids.error());
  for (std::size_t from = 0; from < ids->size(); from += Claims::kMostTasks) {
    const auto some = std::span(*ids).subspan(from);
    auto written = store.write_claims(some.first(std::min(some.size(), Claims::kMostTasks)));
    if (!written) return written;
  }
  return {};
}

}  // namespace

void StrandedTasks::gained(const std::vector<Gained>& gained) {
  waiting_.insert(waiting_.end(), gained.begin(), gained.end());
  for (const Gained& g : gained) unwritten_.push_back(g.lease);
  look();
}

void StrandedTasks::look() {
  // At once, so that the sweep does not find them among what is due; and before the query below: it is the
  // next job of this lane, which does one at a time.
  if (!unwritten_.empty()) {
    deps_.jobs.submit<void>(
        Lane::sweeps, [leases = unwritten_](Store& store) { return write_former_claims(store, leases); },
        [this, leases = unwritten_](const Result<void>& written) {
          if (written) return;
          log::error("writing the former owner's claims failed", {{"reason", written.error().message}});
          unwritten_.insert(unwritten_.end(), leases.begin(), leases.end());
        });
    unwritten_.clear();
  }
  std::vector<Lease> ripe;
  const BootMs now = deps_.clock.here().boot();
  std::erase_if(waiting_, [&](const Gained& g) {
    if (deps_.shards.epoch(g.lease.shard) != g.lease.epoch) return true;        // its current owner checks it
    if (g.recover_at > now || !deps_.shards.held(g.lease.shard)) return false;  // leaving: it may stay
    ripe.push_back(g.lease);
    return true;
  });
  if (ripe.empty()) return;
  deps_.jobs.submit<std::vector<DueEntry>>(
      Lane::sweeps, [ripe](Store& store) { return store.stranded(ripe, kMostStranded); },
      [this, ripe](const Result<std::vector<DueEntry>>& rows) { found(ripe, rows); });
}

void StrandedTasks::found(const std::vector<Lease>& leases, const Result<std::vector<DueEntry>>& rows) {
  const BootMs now = deps_.clock.here().boot();
  if (!rows) {
    for (const Lease& lease : leases) waiting_.push_back({lease, now + kLookAgainAfterError});
    return log::error("querying for stranded tasks failed", {{"reason", rows.error().message}});
  }
  const bool more = rows->size() == static_cast<std::size_t>(kMostStranded);
  std::vector<io::DueItem> items;
  std::set<int> unsettled;
  for (const DueEntry& row : *rows) {
    // A tracked task continues by itself, unless our work on it is still under the former lease: a claim that
    // was on its way during an outage then returns empty. Without a number for its queue it waits.
    const io::DueItem item = deps_.names.item(row);
    if (deps_.dispatch.flights().contains(row.id) || item.queue == QueueNames::kNone)
      unsettled.insert(row.shard);
    else
      items.push_back(item);
  }
  for (const Lease& lease : leases) {
    if (more || unsettled.contains(lease.shard)) waiting_.push_back({lease, now + kLookAgainSoon});
  }
  if (items.empty()) return;
  log::info("republishing what the former owner left", {{"tasks", items.size()}});
  deps_.dispatch.due_again(items);
}

// Finds our own claims whose answer was lost unnoticed. There should never be any.
Jobs::Work StrandedTasks::look_for_forgotten() {
  return [this, shards = deps_.shards.list(), until = deps_.clock.now() - kForgotten](Store& store) {
    return store.due(State::publishing, shards, std::nullopt, until, kForgottenPerShard)
        .map([this](std::vector<DueEntry> rows) {
          return Jobs::Then([this, rows = std::move(rows)] { forgotten(rows); });
        });
  };
}

void StrandedTasks::forgotten(const std::vector<DueEntry>& rows) {
  std::vector<io::DueItem> items;
  for (const DueEntry& row : rows) {
    const bool waits =
        std::ranges::any_of(waiting_, [&](const Gained& g) { return g.lease.shard == row.shard; });
    const io::DueItem item = deps_.names.item(row);
    const bool known = deps_.dispatch.flights().contains(row.id) || item.queue == QueueNames::kNone;
    if (!waits && !known) items.push_back(item);
  }
  if (items.empty()) return;
  log::warn("republishing untracked claims", {{"tasks", items.size()}});
  deps_.dispatch.due_again(items);
}

}  // namespace rung::bridge
