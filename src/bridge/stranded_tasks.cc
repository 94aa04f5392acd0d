#include "src/bridge/stranded_tasks.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>

#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr Ms kLookAgainSoon{1000}, kLookAgainAfterError{5000};
constexpr int kMostStranded = 5000;      // rows per check
constexpr int kForgottenPerShard = 100;  // forgotten rows per check
constexpr Ms kForgotten{60'000};         // in `publishing` under our own epoch for this long, and not tracked

}  // namespace

void StrandedTasks::gained(const std::vector<Gained>& gained) {
  waiting_.insert(waiting_.end(), gained.begin(), gained.end());
  look();
}

void StrandedTasks::look() {
  std::vector<Lease> ripe;
  const BootMs now = deps_.clock.here().boot();
  std::erase_if(waiting_, [&](const Gained& g) {
    if (!deps_.shards.held(g.lease.shard)) return true;  // its current owner checks it
    if (g.recover_at > now) return false;
    ripe.push_back(g.lease);
    return true;
  });
  if (ripe.empty()) return;
  deps_.jobs.submit<std::vector<DueEntry>>(
      Lane::sweeps, [ripe](TaskStore& store) { return store.stranded(ripe, kMostStranded); },
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
void StrandedTasks::look_for_forgotten() {
  deps_.jobs.submit<std::vector<DueEntry>>(
      Lane::sweeps,
      [shards = deps_.shards.list(), until = deps_.clock.now() - kForgotten](TaskStore& store) {
        return store.due(State::publishing, shards, std::nullopt, until, kForgottenPerShard);
      },
      [this](const Result<std::vector<DueEntry>>& rows) {
        if (!rows) return;
        std::vector<io::DueItem> items;
        for (const DueEntry& row : *rows) {
          const bool waits =
              std::ranges::any_of(waiting_, [&](const Gained& g) { return g.lease.shard == row.shard; });
          const io::DueItem item = deps_.names.item(row);
          const bool known = deps_.dispatch.flights().contains(row.id) || item.queue == QueueNames::kNone;
          if (!waits && !known) items.push_back(item);
        }
        if (items.empty()) return;
        log::warn("republishing untracked claims", {{"tasks", items.size()}});
        deps_.dispatch.due_again(items);
      });
}

}  // namespace rung::bridge
