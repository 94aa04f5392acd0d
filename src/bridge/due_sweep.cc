#include "src/bridge/due_sweep.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>

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
  const bool recent = deps_.dispatch.ready() > kEnoughReady || look_recent_;
  std::vector<std::string> without;
  // Only then: a search that leaves queues out still reads past all their rows.
  if (recent) {
    for (const auto& [queue, why] : deps_.gates.all_closed()) without.push_back(queue);
  }
  deps_.jobs.submit<std::vector<DueEntry>>(
      Lane::control,
      [shards = deps_.shards.list(), after = recent ? until - kRecent : passed_, until,
       without = std::move(without)](TaskStore& store) {
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
    if (deps_.dispatch.tracker().contains(item)) continue;
    items.push_back(item);
    going += deps_.dispatch.is_held_back(item) ? 0 : 1;
  }
  // Behind those that stand still may be tasks that a person fired.
  const bool standing = rows.size() - going >= kSweptPerShard;
  if (!recent) passed_ = standing ? end_of_page(rows) : std::nullopt;
  look_recent_ = standing && !look_recent_;
  if (!items.empty()) deps_.dispatch.due(items);
  if (going >= kSweptPerShard || look_recent_) soon_.start(kSweepSoon);
}

// Where the first of the full shards ended; none if all were read to their end. `rows`: the earliest first.
std::optional<EpochMs> DueSweep::end_of_page(const std::vector<DueEntry>& rows) const {
  std::array<int, kShards> per_shard{};
  for (const DueEntry& row : rows) {
    if (++per_shard[static_cast<std::size_t>(row.shard)] < kSweptPerShard) continue;
    const EpochMs before = row.at - Ms{1};  // more of them may be due in that ms
    return passed_ && before <= *passed_ ? row.at : before;
  }
  return std::nullopt;
}

void DueSweep::sweep_on() {
  if (deps_.dispatch.ready() > kEnoughReady) return soon_.start(kSweepSoon);
  sweep();
}

}  // namespace rung::bridge
