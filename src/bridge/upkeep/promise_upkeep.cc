#include "src/bridge/upkeep/promise_upkeep.h"

#include <memory>
#include <utility>

#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr Ms kForgetEvery{std::chrono::minutes{1}};
constexpr int kMostForgotten = 1000;  // at a time; 500 queues leave a hundred in a minute

}  // namespace

PromiseUpkeep::PromiseUpkeep(io::Loop& loop, Deps deps)
    : deps_(deps), timer_(loop, [this] {
        add();
        forget();
      }) {}

PromiseBatch PromiseUpkeep::untold() const {
  PromiseBatch batch;
  for (const auto& [label, counts] : deps_.counts.by_queue()) {
    if (counts.promised == PromiseCounts{}) continue;
    const auto told = told_.find(label);
    const PromiseCounts more = told == told_.end() ? counts.promised : counts.promised - told->second;
    if (more != PromiseCounts{}) batch.changes.push_back({label, more});
    if (batch.changes.size() == PromiseBatch::kMost) break;  // the others next time
  }
  return batch;
}

void PromiseUpkeep::add() {
  if (busy_ || !deps_.clock.known()) return;
  auto batch = std::make_shared<PromiseBatch>(untold());
  if (batch->changes.empty()) return;
  batch->at = deps_.clock.now();
  batch->maker = deps_.identity.name;
  batch->id = std::to_string(deps_.identity.incarnation) + '-' + std::to_string(++batches_);
  busy_ = true;
  deps_.jobs.submit<bool>(
      Lane::upkeep,
      [batch](PromiseStore& store) -> Result<bool> {
        if (auto done = store.add_promises(*batch); !done) return tl::unexpected(done.error());
        return true;
      },
      [this, batch](const Result<bool>& done) { added(*batch, done); });
}

// What could not be added is added with the next batch.
void PromiseUpkeep::added(const PromiseBatch& batch, const Result<bool>& done) {
  busy_ = false;
  if (!done)
    return log::warn("counts of late_by not recorded",
                     {{"queues", batch.changes.size()}, {"reason", done.error().message}});
  for (const auto& [label, more] : batch.changes) told_[label] += more;
}

void PromiseUpkeep::forget() {
  const BootMs now = deps_.clock.here().boot();
  if (busy_ || !deps_.clock.known() || !deps_.shards.held(0) || now < forget_at_) return;
  forget_at_ = now + kForgetEvery;
  busy_ = true;
  deps_.jobs.submit<int>(
      Lane::upkeep,
      [at = deps_.clock.now()](PromiseStore& store) { return store.forget_promises(at, kMostForgotten); },
      [this](const Result<int>& gone) {
        busy_ = false;
        if (!gone) log::warn("old counts of late_by not deleted", {{"reason", gone.error().message}});
      });
}

}  // namespace rung::bridge
