#include "src/bridge/flight/due.h"

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <utility>

#include "src/bridge/base/queue_names.h"
#include "src/bridge/flight/dispatch.h"
#include "src/bridge/flight/gates.h"
#include "src/core/base/failpoint.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

// Rows of one shard in one load of the heap; a load is at most 64 times that.
constexpr int kLoadPerShard = 2000;
constexpr Ms kSweepSoon{50};     // until the next sweep after full pages
constexpr Ms kSweepAgain{1000};  // after an error
constexpr Ms kRecent{10'000};    // with a large backlog: rows due within this, e.g. redriven by a person
constexpr std::size_t kEnoughReady = 5000;
constexpr int kSweptPerShard = 100;
constexpr std::size_t kMostInTheWay = 16;

// StrandedTasks.
constexpr Ms kLookForStrandedEvery{1000}, kLookForForgottenEvery{10'000};
constexpr int kMostStranded = 5000;      // rows per check
constexpr int kForgottenPerShard = 100;  // forgotten rows per check
constexpr Ms kForgotten{60'000};         // in `publishing` under our own epoch for this long, and not tracked

}  // namespace

Horizon::Horizon(const Sidecar& sidecar)
    : sidecar_(sidecar),
      heap_(
          sidecar.loop, sidecar.clock,
          [this](const std::vector<io::DueItem>& due) { sidecar_.dispatch.due(due); }, Dispatch::kAhead) {}

void Horizon::schedule(const io::DueItem& item) {
  if (item.at > horizon_ || !sidecar_.shards.held(item.shard) || item.queue == QueueNames::kNone) return;
  heap_.add(item);
  bound();
}

void Horizon::bound() {
  while (heap_.size() + sidecar_.dispatch.ready() + sidecar_.dispatch.held() > sidecar_.settings.max_loaded) {
    const auto incomplete_from = heap_.drop_latest();
    if (!incomplete_from) return;
    horizon_ = std::min(horizon_, *incomplete_from - Ms{1});
  }
}

void Horizon::gained(const std::vector<int>& shards) {
  if (horizon_.ms == 0) horizon_ = sidecar_.clock.now() + sidecar_.settings.window;
  load(shards, std::nullopt, horizon_);
}

void Horizon::extend() {
  const EpochMs target = sidecar_.clock.now() + sidecar_.settings.window;
  // Not every second: a tenth of the window at a time. But at once if a load was cut short or the heap was
  // full.
  if (loading_ > 0 || !sidecar_.shards.any() || sidecar_.names.is_full() ||
      horizon_ + sidecar_.settings.window / 10 > target)
    return;
  if (heap_.size() + sidecar_.dispatch.ready() + sidecar_.dispatch.held() >= sidecar_.settings.max_loaded)
    return;
  const EpochMs from = horizon_;
  horizon_ = target;  // first: rows inserted from now on add themselves; rows found twice fire once
  load(sidecar_.shards.list(), from, target);
}

void Horizon::tidy_names() {
  QueueNames& names = sidecar_.names;
  if (names.needs_tidying()) {
    std::vector<bool> used(names.size());
    const auto use = [&](std::uint32_t queue) { used[queue] = true; };
    heap_.each_queue(use);
    sidecar_.dispatch.each_queue(use);
    names.free_unused(
        used, [&](std::uint32_t queue, const std::string& name) { sidecar_.dispatch.forget(queue, name); });
  }
  const std::string problem =
      "more than " + std::to_string(QueueNames::kMost) +
      " queues that the config does not name have waiting tasks: those of further ones are late";
  if (sidecar_.health.show("queue_names", names.is_full() ? problem : ""))
    log::warn("too many queues have waiting tasks: those of further ones wait in the database",
              {{"queues", names.others()}});
  if (!names.is_full()) return;
  // What is due goes before what is not: the next call frees the numbers that only the heap's end needed.
  const std::size_t most = heap_.size() - heap_.size() / 4;
  while (heap_.size() > 0 && heap_.size() >= most) {
    const auto incomplete_from = heap_.drop_latest();
    if (incomplete_from) horizon_ = std::min(horizon_, *incomplete_from - Ms{1});
  }
}

void Horizon::load(std::vector<int> shards, std::optional<EpochMs> after, EpochMs until) {
  ++loading_;
  sidecar_.jobs.submit<std::vector<DueEntry>>(
      Lane::sweeps,
      [shards = std::move(shards), after, until](Store& store) {
        return store.due(State::scheduled, shards, after, until, kLoadPerShard);
      },
      [this](Result<std::vector<DueEntry>> rows) {
        --loading_;
        if (!rows) {
          log::error("loading due times failed", {{"reason", rows.error().message}});
          return;
        }
        std::ranges::sort(*rows, {}, &DueEntry::at);  // oldest fire first
        std::array<int, kShards> per_shard{};
        for (const DueEntry& row : *rows) {
          const io::DueItem item = sidecar_.names.item(row);
          if (item.queue != QueueNames::kNone) heap_.add(item);
          // Cut short: the heap is incomplete beyond this shard's last row.
          if (++per_shard[static_cast<std::size_t>(row.shard)] == kLoadPerShard)
            horizon_ = std::min(horizon_, row.at);
        }
        bound();
      });
}

DueSweep::DueSweep(const Sidecar& sidecar)
    : sidecar_(sidecar),
      sweep_(sidecar.table.add(
          {"sweep", kSweepAgain, Lane::sweeps, Jobs::Who::owners, [this] { return sweep(); }, true})) {}

void DueSweep::polled() {
  polled_ = true;
  sidecar_.table.run(sweep_);
}

Jobs::Work DueSweep::sweep() {
  if (!sidecar_.shards.any() || planted(Bug::sweep_forgotten)) return nullptr;
  if (!std::exchange(polled_, false) && sidecar_.dispatch.ready() > kEnoughReady) {
    sidecar_.table.soon(sweep_, kSweepSoon);
    return nullptr;
  }
  if (sidecar_.dispatch.opened()) {
    // A pass under way goes on to its end: else tasks behind a large backlog would wait while gates open.
    anew_ = hurry_;
    if (!std::exchange(hurry_, true)) passed_.reset();
  }
  const EpochMs until = sidecar_.clock.now() - kGrace;
  const bool recent = sidecar_.dispatch.ready() > kEnoughReady || look_recent_;
  const auto after = recent ? std::max(until - kRecent, recent_passed_.value_or(EpochMs{})) : passed_;
  return [this, recent, shards = sidecar_.shards.list(), after, until,
          without = recent ? in_the_way() : std::vector<std::string>{}](Store& store) {
    return [this, recent, rows = store.due(State::scheduled, shards, after, until, kSweptPerShard, without)] {
      found(rows, recent);
    };
  };
}

void DueSweep::found(const std::vector<DueEntry>& rows, bool recent) {
  std::vector<io::DueItem> items;
  std::size_t going = 0;  // those that do not wait behind a closed gate
  for (const DueEntry& row : rows) {
    const io::DueItem item = sidecar_.names.item(row);
    if (sidecar_.dispatch.flights().contains(item)) continue;
    items.push_back(item);
    going += sidecar_.dispatch.is_held_back(item) ? 0 : 1;
  }
  // Behind those that stand still may be tasks that a person fired.
  const bool standing = rows.size() - going >= kSweptPerShard;
  const auto end = standing ? end_of_page(rows, recent ? recent_passed_ : passed_) : std::nullopt;
  (recent ? recent_passed_ : passed_) = end;
  if (standing) note_standing(rows);
  // All that is recent is read, page by page; then the next page of what is not.
  look_recent_ = recent ? end.has_value() : standing;
  if (!recent && !end) hurry_ = std::exchange(anew_, false);
  if (!items.empty()) sidecar_.dispatch.due(items);
  if (going >= kSweptPerShard || look_recent_ || hurry_) sidecar_.table.soon(sweep_, kSweepSoon);
}

// Forgets half of what it knew, so that a queue that no longer stands in the way is not left out for long.
void DueSweep::note_standing(const std::vector<DueEntry>& rows) {
  for (auto& [queue, tasks] : standing_) tasks /= 2;
  for (const DueEntry& row : rows) {
    if (sidecar_.gates.why_closed(row.queue) != nullptr) ++standing_[row.queue];
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
    if (tasks > 0 && sidecar_.gates.why_closed(queue) != nullptr) queues.push_back(queue);
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

StrandedTasks::StrandedTasks(const Sidecar& sidecar)
    : sidecar_(sidecar),
      write_(sidecar.table.add({"former claims", kLookForStrandedEvery, Lane::sweeps, Jobs::Who::owners,
                                [this] { return write(); }})),
      look_(sidecar.table.add({"stranded tasks", kLookForStrandedEvery, Lane::sweeps, Jobs::Who::owners,
                               [this] { return look(); }})) {
  sidecar.table.add({"forgotten claims", kLookForForgottenEvery, Lane::sweeps, Jobs::Who::owners,
                     [this] { return look_for_forgotten(); }});
}

// At once, so that the sweep does not find the claims among what is due; and before the query for stranded
// tasks: that is the next job of this lane, which does one at a time.
void StrandedTasks::gained(const std::vector<Gained>& gained) {
  waiting_.insert(waiting_.end(), gained.begin(), gained.end());
  for (const Gained& g : gained) unwritten_.push_back(g.lease);
  sidecar_.table.run(write_);
  sidecar_.table.run(look_);
}

// Writes what the former owners of these shards have claimed into the tasks' rows.
Jobs::Work StrandedTasks::write() {
  if (unwritten_.empty()) return nullptr;
  return [this, leases = unwritten_](Store& store) {
    const std::vector<TaskId> ids = store.short_claims(leases);
    for (std::size_t from = 0; from < ids.size(); from += Dispatch::kMostTasks) {
      const auto some = std::span(ids).subspan(from);
      store.write_claims(some.first(std::min(some.size(), Dispatch::kMostTasks)));
    }
    return [this, written = std::ssize(leases)] {
      unwritten_.erase(unwritten_.begin(), unwritten_.begin() + written);
    };
  };
}

Jobs::Work StrandedTasks::look() {
  std::vector<Lease> ripe;
  const BootMs now = sidecar_.loop.clock().boot();
  std::erase_if(waiting_, [&](const Gained& g) {
    return sidecar_.shards.epoch(g.lease.shard) != g.lease.epoch;  // its current owner checks it
  });
  for (const Gained& g : waiting_) {
    // A shard that is being given back may stay ours: it waits on.
    if (g.recover_at <= now && sidecar_.shards.held(g.lease.shard)) ripe.push_back(g.lease);
  }
  if (ripe.empty()) return nullptr;
  return [this, ripe](Store& store) {
    return [this, ripe, rows = store.stranded(ripe, kMostStranded)] { found(ripe, rows); };
  };
}

void StrandedTasks::found(const std::vector<Lease>& leases, const std::vector<DueEntry>& rows) {
  const bool more = rows.size() == static_cast<std::size_t>(kMostStranded);
  std::vector<io::DueItem> items;
  std::set<int> unsettled;
  for (const DueEntry& row : rows) {
    // A tracked task continues by itself, unless our work on it is still under the former lease: a claim that
    // was on its way during an outage then returns empty. Without a number for its queue it waits.
    const io::DueItem item = sidecar_.names.item(row);
    if (sidecar_.dispatch.flights().contains(row.id) || item.queue == QueueNames::kNone)
      unsettled.insert(row.shard);
    else
      items.push_back(item);
  }
  std::erase_if(waiting_, [&](const Gained& g) {
    return !more && !unsettled.contains(g.lease.shard) && std::ranges::find(leases, g.lease) != leases.end();
  });
  if (items.empty()) return;
  log::info("republishing what the former owner left", {{"tasks", items.size()}});
  sidecar_.dispatch.due_again(items);
}

// Finds our own claims whose answer was lost unnoticed. There should never be any.
Jobs::Work StrandedTasks::look_for_forgotten() {
  return [this, shards = sidecar_.shards.list(), until = sidecar_.clock.now() - kForgotten](Store& store) {
    return [this, rows = store.due(State::publishing, shards, std::nullopt, until, kForgottenPerShard)] {
      forgotten(rows);
    };
  };
}

void StrandedTasks::forgotten(const std::vector<DueEntry>& rows) {
  std::vector<io::DueItem> items;
  for (const DueEntry& row : rows) {
    const bool waits =
        std::ranges::any_of(waiting_, [&](const Gained& g) { return g.lease.shard == row.shard; });
    const io::DueItem item = sidecar_.names.item(row);
    const bool known = sidecar_.dispatch.flights().contains(row.id) || item.queue == QueueNames::kNone;
    if (!waits && !known) items.push_back(item);
  }
  if (items.empty()) return;
  log::warn("republishing untracked claims", {{"tasks", items.size()}});
  sidecar_.dispatch.due_again(items);
}

}  // namespace rung::bridge
