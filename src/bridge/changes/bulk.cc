#include "src/bridge/changes/bulk.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "src/bridge/changes/careful_redrive.h"
#include "src/bridge/changes/single_rows.h"
#include "src/bridge/changes/transitions.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr Ms kTryAgain{1000};   // after an error
constexpr Ms kAtOnce{1};        // there may be more
constexpr Ms kNearly{20};       // the table's clock differs from ours
constexpr Ms kTakenOver{1000};  // overdue for longer: another instance has taken it over
constexpr Ms kLease{10'000};    // another instance may take over a step this old
constexpr double kStepSeconds = 0.2;

}  // namespace

int bulk_step_size(double rate) {
  constexpr int kMost = static_cast<int>(kMostInBatch);
  return rate > 0 ? std::clamp(static_cast<int>(std::ceil(rate * kStepSeconds)), 1, kMost) : kMost;
}

namespace {

Result<BulkProgress> try_step(Store& store, Bulk bulk, const std::string& runner, const Fence& fence,
                              const RuleBookPtr& rules) {
  using Go = BulkVerdict::Go;
  BulkProgress out;
  BulkStep step{bulk.id, runner, bulk.last};
  if (bulk.care.any()) {
    const auto now = store.now();
    if (!now) return tl::unexpected(now.error());
    auto verdict = judge(store, bulk, *rules, *now);
    if (!verdict) return tl::unexpected(verdict.error());
    out.verdict = *std::move(verdict);
    if (out.verdict.go != Go::on) {
      if (auto written = store.judge_bulk(step, out.verdict, kLookAtOutcomes); !written)
        return tl::unexpected(written.error());
    }
    if (out.verdict.go == Go::wait || out.verdict.go == Go::stop) return out;
    if (out.verdict.go == Go::passed) bulk.canary_done = bulk.done;
  }
  step.rate = rate_of(bulk);
  step.keeps_sent = bulk.action == BulkAction::redrive || bulk.action == BulkAction::fire;
  const auto ids = store.bulk_next(step, step_size(bulk));
  if (!ids) return tl::unexpected(ids.error());
  if (ids->empty()) return out;
  std::vector<Event> events;
  for (const TaskId id : *ids) events.push_back(event_of(bulk, id));
  auto decisions = apply_step(store, events, fence, decider(rules), step);
  if (!decisions) return tl::unexpected(decisions.error());
  out.decisions = *std::move(decisions);
  return out;
}

}  // namespace

Result<BulkProgress> perform_step(Store& store, const Bulk& bulk, const std::string& runner,
                                  const Fence& fence, const RuleBookPtr& rules) {
  auto done = try_step(store, bulk, runner, fence, rules);
  if (done || done.error().kind != Error::Kind::permanent || done.error().message == kNotItsRunner)
    return done;
  // Else it would be taken again and again, before all others.
  BulkProgress stopped{{BulkVerdict::Go::stop, "its next step failed: " + done.error().message}, {}};
  auto written = store.judge_bulk({bulk.id, runner, bulk.last}, stopped.verdict, Ms{0});
  if (!written) return tl::unexpected(written.error());
  return stopped;
}

struct BulkRunner::Step {
  std::optional<Bulk> bulk;  // none: no work
  BulkProgress progress;
};

BulkRunner::BulkRunner(io::Loop& loop, Deps deps)
    : deps_(std::move(deps)), clock_(loop.clock()), timer_(loop, [this] { step(); }) {}

// Also while the timer waits for the next step of a slow one.
void BulkRunner::found() { step(); }

void BulkRunner::drain() {
  draining_ = true;
  timer_.stop();
}

Result<BulkRunner::Step> BulkRunner::perform(Store& store, const std::string& runner, const Fence& fence,
                                             const RuleBookPtr& rules) {
  auto bulk = store.take_bulk(runner, kLease);
  if (!bulk) return tl::unexpected(bulk.error());
  if (!*bulk) return Step{};
  auto progress = perform_step(store, **bulk, runner, fence, rules);
  if (!progress) return tl::unexpected(progress.error());
  return Step{*std::move(bulk), *std::move(progress)};
}

void BulkRunner::step() {
  if (draining_ || busy_) return;
  // Without a shard, tasks sent now would wait for another instance's sweep; and a step cannot start while
  // the database is away.
  if (!deps_.shards.any()) return;
  busy_ = true;
  deps_.jobs.submit<Step>(
      Lane::flow,
      [runner = deps_.runner, fence = deps_.shards.fence(), rules = deps_.rules](Store& store) {
        return perform(store, runner, fence, rules);
      },
      [this](const Result<Step>& step) { done(step); });
}

void BulkRunner::done(const Result<Step>& step) {
  busy_ = false;
  std::optional<Ms> pause = kTryAgain;
  if (!step) {
    log::warn("bulk step failed", {{"reason", step.error().message}});
  } else if (step->bulk) {
    note(*step->bulk, step->progress);
    pause = kAtOnce;
  } else {
    pause = until_next();
  }
  if (pause && !draining_) timer_.start(*pause);
}

void BulkRunner::note(const Bulk& bulk, const BulkProgress& progress) {
  using Go = BulkVerdict::Go;
  for (const Decision& decision : progress.decisions) deps_.observer.decided(decision);
  const Go go = progress.verdict.go;
  if (go == Go::passed)
    log::info("canary succeeded: the redrive goes on", {{"bulk", bulk.id}, {"sent", bulk.done}});
  if (go == Go::stop) log::warn("bulk stopped", {{"bulk", bulk.id}, {"reason", progress.verdict.why}});
  const double rate = rate_of(bulk), many = static_cast<double>(progress.decisions.size());
  if (go == Go::wait) {
    due_[bulk.id] = clock_.boot() + kLookAtOutcomes;
  } else if (many == 0) {
    if (go != Go::stop) log::info("bulk completed", {{"bulk", bulk.id}});
    due_.erase(bulk.id);
  } else if (rate > 0) {
    due_[bulk.id] = clock_.boot() + Ms{static_cast<std::int64_t>(1000 * many / rate)};
  }
}

// No bulk is due: the pause until a known one is. Others are found().
std::optional<Ms> BulkRunner::until_next() {
  const BootMs now = clock_.boot();
  std::erase_if(due_, [&](const auto& bulk) { return bulk.second + kTakenOver < now; });  // taken over
  std::optional<Ms> pause;
  for (const auto& [id, due] : due_)
    pause = std::max(std::min(pause.value_or(due - now), due - now), kNearly);
  return pause;
}

}  // namespace rung::bridge
