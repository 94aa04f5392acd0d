#include "src/bridge/upkeep/count_upkeep.h"

#include <algorithm>
#include <utility>

#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr Ms kForgetCountsEvery{std::chrono::minutes{1}};
constexpr int kMostCountsForgotten = 1000;  // at a time

}  // namespace

CountUpkeep::CountUpkeep(io::Loop& loop, Deps deps)
    : deps_(deps), timer_(loop, [this] {
        forget();  // before add(): it takes its turn once a minute, however much there is to add
        add();
      }) {}

// nullptr: there is nothing to add.
std::shared_ptr<const CountBatch> CountUpkeep::next() {
  CountBatch batch;
  for (const auto& [label, counts] : deps_.counts.by_queue()) {
    const Told& told = told_[label];
    CountBatch::Change change{label, counts.promised - told.promised, counts.activity() - told.activity};
    if (change.promised == PromiseCounts{} && change.activity == ActivityCounts{}) continue;
    batch.changes.push_back(std::move(change));
    if (batch.changes.size() == CountBatch::kMost) break;  // the others next time
  }
  if (batch.changes.empty()) return nullptr;
  // All instances lock the rows in the same order, so that they only wait for each other.
  std::ranges::sort(batch.changes, {}, &CountBatch::Change::queue);
  batch.at = deps_.clock.now();
  batch.maker = deps_.identity.name;
  batch.id = std::to_string(deps_.identity.incarnation) + '-' + std::to_string(++batches_);
  return std::make_shared<const CountBatch>(std::move(batch));
}

void CountUpkeep::add() {
  if (!deps_.clock.known()) return;
  again_ = busy_;
  if (busy_) return;
  if (pending_ == nullptr) pending_ = next();
  if (pending_ == nullptr) return;
  again_ = again_ || pending_->changes.size() == CountBatch::kMost;  // there may be more
  busy_ = true;
  deps_.jobs.submit<void>(
      Lane::upkeep, [batch = pending_](CountStore& store) { return store.add_counts(*batch); },
      [this](const Result<void>& done) { added(done); });
}

// What failed may have been committed: it is repeated under its id, so that nothing counts twice.
void CountUpkeep::added(const Result<void>& done) {
  busy_ = false;
  if (!done)
    return log::warn("counts of deliveries not recorded",
                     {{"queues", pending_->changes.size()}, {"reason", done.error().message}});
  for (const CountBatch::Change& more : pending_->changes) {
    Told& told = told_[more.queue];
    told.promised += more.promised;
    told.activity += more.activity;
  }
  pending_ = nullptr;
  if (std::exchange(again_, false)) add();
}

void CountUpkeep::forget() {
  const BootMs now = deps_.clock.here().boot();
  if (busy_ || !deps_.clock.known() || !deps_.shards.held(0) || now < forget_at_) return;
  forget_at_ = now + kForgetCountsEvery;
  busy_ = true;
  deps_.jobs.submit<int>(
      Lane::upkeep,
      [at = deps_.clock.now()](CountStore& store) { return store.forget_counts(at, kMostCountsForgotten); },
      [this](const Result<int>& gone) {
        busy_ = false;
        if (!gone) log::warn("old counts of deliveries not deleted", {{"reason", gone.error().message}});
        if (gone && *gone >= kMostCountsForgotten) forget_at_ = BootMs{0};
        if (std::exchange(again_, false)) add();
      });
}

}  // namespace rung::bridge
