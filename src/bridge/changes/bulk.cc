#include "src/bridge/changes/bulk.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "src/bridge/changes/transitions.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr Ms kLook{1000};     // how often to poll the table while there is no work
constexpr Ms kAtOnce{1};      // there may be more
constexpr Ms kNearly{20};     // the table's clock differs from ours
constexpr Ms kLease{10'000};  // another instance may take over a step this old
constexpr double kStepSeconds = 0.2;

}  // namespace

int bulk_step_size(double rate) {
  constexpr int kMost = static_cast<int>(kMostInBatch);
  return rate > 0 ? std::clamp(static_cast<int>(std::ceil(rate * kStepSeconds)), 1, kMost) : kMost;
}

struct BulkRunner::Step {
  std::optional<Bulk> bulk;  // none: no work
  std::vector<Decision> decisions;
};

BulkRunner::BulkRunner(io::Loop& loop, Deps deps)
    : deps_(std::move(deps)), clock_(loop.clock()), timer_(loop, [this] { step(); }) {}

void BulkRunner::start() { timer_.start(kLook); }

void BulkRunner::drain() {
  draining_ = true;
  timer_.stop();
}

Result<BulkRunner::Step> BulkRunner::perform(Store& store, const std::string& runner, const Fence& fence,
                                             const Decider& decide) {
  auto bulk = store.take_bulk(runner, kLease);
  if (!bulk) return tl::unexpected(bulk.error());
  if (!*bulk) return Step{};
  const BulkStep step{(*bulk)->id, runner, (*bulk)->last};
  const auto ids = store.bulk_next(step, bulk_step_size((*bulk)->rate));
  if (!ids) return tl::unexpected(ids.error());
  if (ids->empty()) return Step{*std::move(bulk), {}};
  std::vector<Event> events;
  for (const TaskId id : *ids) events.push_back(event_of(**bulk, id));
  auto decisions = store.apply(events, fence, decide, &step);
  if (!decisions) return tl::unexpected(decisions.error());
  return Step{*std::move(bulk), *std::move(decisions)};
}

void BulkRunner::step() {
  if (draining_ || busy_) return;
  // Without a shard, tasks sent now would wait for another instance's sweep; and a step cannot start while
  // the database is away.
  if (!deps_.shards.any()) return timer_.start(kLook);
  busy_ = true;
  deps_.jobs.submit<Step>(
      Lane::flow,
      [runner = deps_.runner, fence = deps_.shards.fence(), decide = decider(deps_.rules)](Store& store) {
        return perform(store, runner, fence, decide);
      },
      [this](const Result<Step>& step) { done(step); });
}

void BulkRunner::done(const Result<Step>& step) {
  busy_ = false;
  Ms pause = kLook;
  if (!step) {
    log::warn("bulk step failed", {{"reason", step.error().message}});
  } else if (step->bulk) {
    for (const Decision& decision : step->decisions) deps_.observer.decided(decision);
    if (step->decisions.empty()) log::info("bulk completed", {{"bulk", step->bulk->id}});
    const double rate = step->bulk->rate, many = static_cast<double>(step->decisions.size());
    if (many > 0 && rate > 0)
      due_[step->bulk->id] = clock_.boot() + Ms{static_cast<std::int64_t>(1000 * many / rate)};
    if (many == 0) due_.erase(step->bulk->id);
    pause = kAtOnce;
  } else {
    pause = until_next();
  }
  if (!draining_) timer_.start(pause);
}

// No bulk is due: the pause until a known one is, or until a new one may have come.
Ms BulkRunner::until_next() {
  const BootMs now = clock_.boot();
  std::erase_if(due_, [&](const auto& bulk) { return bulk.second + kLook < now; });  // taken over
  Ms pause = kLook;
  for (const auto& [id, due] : due_) pause = std::min(pause, due - now);
  return std::max(pause, kNearly);
}

}  // namespace rung::bridge
