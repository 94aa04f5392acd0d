#include "src/bridge/upkeep/janitor.h"

namespace rung::bridge {
namespace {

constexpr Ms kTick{1000};
constexpr int kSlowTicks = 10;

}  // namespace

Janitor::Janitor(io::Loop& loop, const Deps& deps)
    : shards_(deps.shards),
      horizon_(deps.horizon),
      dispatch_(deps.dispatch),
      can_publish_(deps.can_publish),
      sweep_(loop, {deps.jobs, deps.shards, deps.clock, deps.dispatch, deps.gates, deps.names}),
      silence_({deps.jobs, deps.shards, deps.transitions, deps.clock, deps.observer, deps.attachments,
                deps.rules}),
      copies_({deps.jobs, deps.shards, deps.transitions, deps.outbox, deps.clock, deps.proof, deps.rules,
               deps.parked_exchange}),
      stranded_({deps.jobs, deps.shards, deps.clock, deps.dispatch, deps.names}),
      timer_(loop, [this] { tick(); }) {}

void Janitor::start() { timer_.start(kTick, kTick); }

void Janitor::stop() {
  timer_.stop();
  sweep_.stop();
}

void Janitor::tick() {
  horizon_.check_clock();
  horizon_.tidy_names();
  if (!shards_.any()) return;
  dispatch_.tick();
  horizon_.extend();
  silence_.tick();
  stranded_.look();
  if (++ticks_ % kSlowTicks == 0) stranded_.look_for_forgotten();
}

void Janitor::found(const WorkWaiting& waiting) {
  if (!timer_.active()) return;
  if (waiting.scheduled) sweep_.sweep();
  half_ = !half_;
  if (!half_) return;
  if (waiting.awaiting) silence_.check();
  if (waiting.parked && can_publish_()) copies_.send_owed();
}

}  // namespace rung::bridge
