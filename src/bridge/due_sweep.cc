#include "src/bridge/due_sweep.h"

#include <cstddef>
#include <optional>

#include "src/core/failpoint.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

// Tasks made due by a person or another instance are found within this plus the grace.
constexpr Ms kSweepEvery{500};
constexpr Ms kSweepGrace{300};  // rows that have just become due are the heap's
constexpr Ms kSweepSoon{50};    // until the next sweep after full pages
constexpr Ms kRecent{10'000};   // with a large backlog: rows due within this, e.g. redriven by a person
constexpr std::size_t kEnoughReady = 5000;
constexpr int kSweptPerShard = 100;

}  // namespace

DueSweep::DueSweep(io::Loop& loop, Deps deps)
    : deps_(deps), timer_(loop, [this] { sweep(); }), soon_(loop, [this] { sweep_on(); }) {}

void DueSweep::start() {
  if (!planted(Bug::sweep_forgotten)) timer_.start(kSweepEvery, kSweepEvery);
}

void DueSweep::stop() {
  timer_.stop();
  soon_.stop();
}

void DueSweep::sweep() {
  if (busy_ || !deps_.shards.any()) return;
  busy_ = true;
  const EpochMs until = deps_.clock.now() - kSweepGrace;
  std::optional<EpochMs> after;
  if (deps_.dispatch.ready() > kEnoughReady || look_recent_) after = until - kRecent;
  deps_.jobs.submit<std::vector<DueEntry>>(
      Lane::control,
      [shards = deps_.shards.list(), after, until](TaskStore& store) {
        return store.due(State::scheduled, shards, after, until, kSweptPerShard);
      },
      [this](const Result<std::vector<DueEntry>>& rows) {
        busy_ = false;
        if (!rows) return log::error("sweep failed", {{"reason", rows.error().message}});
        found(*rows);
      });
}

void DueSweep::found(const std::vector<DueEntry>& rows) {
  std::vector<io::DueItem> items;
  for (const DueEntry& row : rows) {
    const io::DueItem item = deps_.names.item(row);
    if (!deps_.dispatch.tracker().contains(item)) items.push_back(item);
  }
  // Pages full of tasks for a blocked queue: behind them may be tasks that a person fired.
  const bool standing = rows.size() - items.size() >= kSweptPerShard;
  look_recent_ = standing && !look_recent_;
  if (!items.empty()) deps_.dispatch.due(items);
  if (items.size() >= kSweptPerShard || look_recent_) soon_.start(kSweepSoon);
}

void DueSweep::sweep_on() {
  if (deps_.dispatch.ready() > kEnoughReady) return soon_.start(kSweepSoon);
  sweep();
}

}  // namespace rung::bridge
