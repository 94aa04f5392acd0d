#include "src/bridge/upkeep/promise_upkeep.h"

#include <utility>

#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr Ms kForgetPromisesEvery{std::chrono::minutes{1}};
constexpr int kMostPromisesForgotten = 1000;  // at a time

}  // namespace

PromiseUpkeep::PromiseUpkeep(io::Loop& loop, Deps deps)
    : deps_(deps), timer_(loop, [this] {
        forget();  // before add(): it takes its turn once a minute, however much there is to add
        add();
      }) {}

// nullptr: there is nothing to add.
std::shared_ptr<const PromiseBatch> PromiseUpkeep::next() {
  PromiseBatch batch;
  for (const auto& [label, counts] : deps_.counts.by_queue()) {
    if (counts.promised == PromiseCounts{}) continue;
    const auto told = told_.find(label);
    const PromiseCounts more = told == told_.end() ? counts.promised : counts.promised - told->second;
    if (more != PromiseCounts{}) batch.changes.push_back({label, more});
    if (batch.changes.size() == PromiseBatch::kMost) break;  // the others next time
  }
  if (batch.changes.empty()) return nullptr;
  batch.at = deps_.clock.now();
  batch.maker = deps_.identity.name;
  batch.id = std::to_string(deps_.identity.incarnation) + '-' + std::to_string(++batches_);
  return std::make_shared<const PromiseBatch>(std::move(batch));
}

void PromiseUpkeep::add() {
  if (!deps_.clock.known()) return;
  again_ = busy_;
  if (busy_) return;
  if (pending_ == nullptr) pending_ = next();
  if (pending_ == nullptr) return;
  busy_ = true;
  deps_.jobs.submit<bool>(
      Lane::upkeep,
      [batch = pending_](PromiseStore& store) -> Result<bool> {
        if (auto done = store.add_promises(*batch); !done) return tl::unexpected(done.error());
        return true;
      },
      [this](const Result<bool>& done) { added(done); });
}

// What failed may have been committed: it is repeated under its id, so that nothing counts twice.
void PromiseUpkeep::added(const Result<bool>& done) {
  busy_ = false;
  if (!done)
    return log::warn("counts of late_by not recorded",
                     {{"queues", pending_->changes.size()}, {"reason", done.error().message}});
  for (const auto& [label, more] : pending_->changes) told_[label] += more;
  pending_ = nullptr;
  if (again_) add();
}

void PromiseUpkeep::forget() {
  const BootMs now = deps_.clock.here().boot();
  if (busy_ || !deps_.clock.known() || !deps_.shards.held(0) || now < forget_at_) return;
  forget_at_ = now + kForgetPromisesEvery;
  busy_ = true;
  deps_.jobs.submit<int>(
      Lane::upkeep,
      [at = deps_.clock.now()](PromiseStore& store) {
        return store.forget_promises(at, kMostPromisesForgotten);
      },
      [this](const Result<int>& gone) {
        busy_ = false;
        if (!gone) return log::warn("old counts of late_by not deleted", {{"reason", gone.error().message}});
        if (*gone >= kMostPromisesForgotten) forget_at_ = BootMs{0};
        if (std::exchange(again_, false)) add();
      });
}

}  // namespace rung::bridge
