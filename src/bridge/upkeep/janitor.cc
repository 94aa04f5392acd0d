#include "src/bridge/upkeep/janitor.h"

#include <utility>

namespace rung::bridge {
namespace {

constexpr Ms kTick{1000};
constexpr int kSlowTicks = 10;

}  // namespace

Janitor::Janitor(io::Loop& loop, Deps deps)
    : deps_(std::move(deps)),
      sweep_(loop, deps_.due),
      silence_(deps_.silence),
      copies_(deps_.copies),
      stranded_(deps_.due),
      timer_(loop, [this] { tick(); }) {}

void Janitor::start() { timer_.start(kTick, kTick); }

void Janitor::stop() {
  timer_.stop();
  sweep_.stop();
  copies_.stop();
}

void Janitor::tick() {
  deps_.horizon.check_clock();
  deps_.horizon.tidy_names();
  if (!deps_.due.shards.any()) return;
  deps_.due.dispatch.tick();
  deps_.horizon.extend();
  silence_.tick();
  stranded_.look();
  if (++ticks_ % kSlowTicks != 0) return;
  stranded_.look_for_forgotten();
  silence_.find_queues();
}

void Janitor::found(const WorkWaiting& waiting) {
  if (!timer_.active()) return;
  if (waiting.scheduled) sweep_.sweep();
  half_ = !half_;
  if (!half_) return;
  if (waiting.awaiting) silence_.check();
  if (deps_.can_publish()) copies_.send_owed(waiting.parked);
}

}  // namespace rung::bridge
