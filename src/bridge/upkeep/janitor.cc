#include "src/bridge/upkeep/janitor.h"

#include <utility>

#include "src/bridge/flight/dispatch.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr Ms kTick{1000}, kSeldom{10'000};
// Tasks that a person or another instance made due are found within this plus DueSweep::kGrace.
constexpr Ms kPollEvery{500};

}  // namespace

Janitor::Janitor(const Sidecar& sidecar, std::function<void(const WorkWaiting&)> found)
    : sidecar_(sidecar),
      found_(std::move(found)),
      sweep_(sidecar),
      silence_(sidecar),
      copies_(sidecar),
      stranded_(sidecar),
      check_silence_(
          sidecar.table.add({"silence", kTick, Lane::sweeps, Jobs::Who::owners,
                             [this] { return started_ ? silence_.check() : Jobs::Work{}; }, true})),
      find_queues_(sidecar.table.add({"queues of what awaits an answer", kSeldom, Lane::sweeps,
                                      Jobs::Who::owners, [this] { return silence_.find_queues(); }})) {
  add("tidy", kTick, Jobs::Who::all, [this] { tidy(); });
  add("look", kTick, Jobs::Who::owners, [this] { look(); });
  add("poll", kPollEvery, Jobs::Who::owners, [this] { poll(); });
  sidecar_.table.add({"forgotten claims", kSeldom, Lane::sweeps, Jobs::Who::owners,
                      [this] { return started_ ? stranded_.look_for_forgotten() : Jobs::Work{}; }});
}

// What these submit to the database has bounds of its own.
void Janitor::add(const char* name, Ms period, Jobs::Who who, std::function<void()> act) {
  const auto begin = [this, act = std::move(act)] {
    if (started_) act();
    return Jobs::Work{};
  };
  sidecar_.table.add({name, period, Lane::sweeps, who, begin});
}

void Janitor::stop() {
  started_ = false;
  sweep_.stop();
  copies_.stop();
}

void Janitor::tidy() {
  sidecar_.horizon.check_clock();
  sidecar_.horizon.tidy_names();
}

void Janitor::look() {
  sidecar_.dispatch.tick();
  sidecar_.horizon.extend();
  stranded_.look();
}

// While nothing waits, the lanes of queries, of the flow and of upkeep take turns: the database ends an idle
// connection, and the first message after a pause would have to wait for a login, and then upkeep for another
// one.
void Janitor::poll() {
  constexpr std::array kLanesInTurn{Lane::sweeps, Lane::flow, Lane::upkeep};
  turn_ = quiet_ ? (turn_ + 1) % kLanesInTurn.size() : 0;
  // Not upkeep's instead of these: that one answers at once if the database refuses, and would each time.
  if (busy_[turn_]) turn_ = turn_ == 0 ? 1 : 0;
  if (std::exchange(busy_[turn_], true)) return;
  sidecar_.jobs.submit<WorkWaiting>(
      kLanesInTurn[turn_],
      [shards = sidecar_.shards.list(), now = sidecar_.clock.now()](Store& store) {
        return store.work_waiting(shards, now - DueSweep::kGrace, now);
      },
      [this, turn = turn_](const Result<WorkWaiting>& waiting) {
        busy_[turn] = false;
        quiet_ = waiting && *waiting == WorkWaiting{};
        if (!waiting) return log::error("querying for work failed", {{"reason", waiting.error().message}});
        if (started_) found(*waiting);
      });
}

void Janitor::found(const WorkWaiting& waiting) {
  if (waiting.scheduled) sweep_.sweep();
  if (waiting.awaiting) sidecar_.table.want(check_silence_);
  if (waiting.parked) copies_.found();
  found_(waiting);
}

}  // namespace rung::bridge
