#include "src/bridge/upkeep/counts.h"

#include <algorithm>
#include <utility>

#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr Ms kForgetEvery{std::chrono::minutes{10}};
constexpr int kMostForgotten = 1000;  // at a time

}  // namespace

CountUpkeep::CountUpkeep(Jobs& jobs, const DbClock& clock, const FlowCounts& counts,
                         const NodeIdentity& identity)
    : jobs_(jobs),
      clock_(clock),
      counts_(counts),
      identity_(identity),
      add_(jobs.add(
          {"counts of deliveries", kEvery, Lane::upkeep, Jobs::Who::all, [this] { return next(); }})),
      forget_(jobs.add({"forget counts, gates, causes", kForgetEvery, Lane::upkeep, Jobs::Who::leader,
                        [this] { return forget(); }})) {}

// What failed may have been committed: it is repeated under its id, so that nothing counts twice.
Jobs::Work CountUpkeep::next() {
  if (pending_ == nullptr && clock_.known()) fill();
  if (pending_ == nullptr) return nullptr;
  return [this, batch = pending_](Store& store) {
    return store.add_counts(*batch).map([this] { return Jobs::Then([this] { added(); }); });
  };
}

void CountUpkeep::fill() {
  CountBatch batch;
  for (const auto& [label, counts] : counts_.by_queue()) {
    const Told& told = told_[label];
    CountBatch::Change change{label, counts.promised - told.promised, counts.activity() - told.activity};
    if (change.promised == PromiseCounts{} && change.activity == ActivityCounts{}) continue;
    batch.changes.push_back(std::move(change));
    if (batch.changes.size() == CountBatch::kMost) break;  // the others next time
  }
  if (batch.changes.empty()) return;
  // All instances lock the rows in the same order, so that they only wait for each other.
  std::ranges::sort(batch.changes, {}, &CountBatch::Change::queue);
  batch.at = clock_.now();
  batch.maker = identity_.name;
  batch.id = std::to_string(identity_.incarnation) + '-' + std::to_string(++batches_);
  pending_ = std::make_shared<const CountBatch>(std::move(batch));
}

void CountUpkeep::added() {
  for (const CountBatch::Change& more : pending_->changes) {
    Told& told = told_[more.queue];
    told.promised += more.promised;
    told.activity += more.activity;
  }
  if (std::exchange(pending_, nullptr)->changes.size() == CountBatch::kMost) add();  // there may be more
}

Jobs::Work CountUpkeep::forget() {
  return [this, at = clock_.now()](Store& store) {
    return store.forget(at, kMostForgotten).map([this](int gone) {
      return Jobs::Then([this, gone] {
        if (gone >= kMostForgotten) jobs_.run(forget_);
      });
    });
  };
}

namespace {

constexpr Ms kFoldEvery{1000};
constexpr Ms kReadCausesEvery{std::chrono::seconds{15}};
// Changes of one transaction. A transaction of the flow leaves one for each of its causes, usually a few.
constexpr int kFoldAtOnce = 2000;

Result<Jobs::Then> fold(Store& store) {
  const auto folded = store.fold_causes(kFoldAtOnce);
  if (!folded) return tl::unexpected(folded.error());
  return [worse = folded->worse] {
    for (const CauseRow& row : worse) {
      log::warn(
          "an ignored cause got worse",
          {{"cause", row.id}, {"queue", row.queue}, {"last_hour", row.last_hour}, {"sample", row.sample}});
    }
  };
}

}  // namespace

Jobs::Id add_cause_jobs(Jobs& jobs) {
  // On the lane of queries, whose connection is in use: that of upkeep would be opened for it each time.
  jobs.add({"read causes", kReadCausesEvery, Lane::sweeps, Jobs::Who::owners, [] {
              return Jobs::Work(
                  [](Store& store) { return store.read_causes().map([] { return Jobs::Then{}; }); });
            }});
  return jobs.add(
      {"count causes", kFoldEvery, Lane::upkeep, Jobs::Who::leader, [] { return Jobs::Work(fold); }, true});
}

}  // namespace rung::bridge
