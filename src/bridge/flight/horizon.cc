#include "src/bridge/flight/horizon.h"

#include <algorithm>
#include <array>
#include <utility>

#include "src/bridge/flight/dispatch.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr int kLoadPerShard = 2000;  // rows of one shard in one load; a load is at most 64 times that

}  // namespace

Horizon::Horizon(io::Loop& loop, StoreJobs& jobs, Shards& shards, DbClock& clock, QueueNames& names,
                 Dispatch& dispatch, Settings settings)
    : jobs_(jobs),
      shards_(shards),
      clock_(clock),
      names_(names),
      dispatch_(dispatch),
      settings_(settings),
      heap_(
          loop, clock, [this](const std::vector<io::DueItem>& due) { dispatch_.due(due); },
          Dispatch::kAhead) {}

void Horizon::schedule(const io::DueItem& item) {
  if (item.at > horizon_ || !shards_.held(item.shard) || item.queue == QueueNames::kNone) return;
  heap_.add(item);
  bound();
}

void Horizon::bound() {
  while (heap_.size() + dispatch_.ready() + dispatch_.held() > settings_.max_loaded) {
    const auto incomplete_from = heap_.drop_latest();
    if (!incomplete_from) return;
    horizon_ = std::min(horizon_, *incomplete_from - Ms{1});
  }
}

void Horizon::gained(const std::vector<int>& shards) {
  if (horizon_.ms == 0) horizon_ = clock_.now() + settings_.window;
  load(shards, std::nullopt, horizon_);
}

void Horizon::extend() {
  const EpochMs target = clock_.now() + settings_.window;
  // Not every second: a tenth of the window at a time. But at once if a load was cut short or the heap was
  // full.
  if (loading_ > 0 || !shards_.any() || names_.is_full() || horizon_ + settings_.window / 10 > target) return;
  if (heap_.size() + dispatch_.ready() + dispatch_.held() >= settings_.max_loaded) return;
  const EpochMs from = horizon_;
  horizon_ = target;  // first: rows inserted from now on add themselves; rows found twice fire once
  load(shards_.list(), from, target);
}

void Horizon::tidy_names() {
  if (!names_.needs_tidying()) return dispatch_.names_short(false);
  std::vector<bool> used(names_.size());
  const auto use = [&](std::uint32_t queue) { used[queue] = true; };
  heap_.each_queue(use);
  dispatch_.each_queue(use);
  names_.free_unused(used,
                     [&](std::uint32_t queue, const std::string& name) { dispatch_.forget(queue, name); });
  dispatch_.names_short(names_.is_full());
  if (!names_.is_full()) return;
  // What is due goes before what is not: the next call frees the numbers that only the heap's end needed.
  const std::size_t most = heap_.size() - heap_.size() / 4;
  while (heap_.size() > 0 && heap_.size() >= most) {
    const auto incomplete_from = heap_.drop_latest();
    if (incomplete_from) horizon_ = std::min(horizon_, *incomplete_from - Ms{1});
  }
}

void Horizon::load(std::vector<int> shards, std::optional<EpochMs> after, EpochMs until) {
  ++loading_;
  jobs_.submit<std::vector<DueEntry>>(
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
          const io::DueItem item = names_.item(row);
          if (item.queue != QueueNames::kNone) heap_.add(item);
          // Cut short: the heap is incomplete beyond this shard's last row.
          if (++per_shard[static_cast<std::size_t>(row.shard)] == kLoadPerShard)
            horizon_ = std::min(horizon_, row.at);
        }
        bound();
      });
}

}  // namespace rung::bridge
