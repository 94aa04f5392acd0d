#include "src/bridge/upkeep/work_poll.h"

#include <utility>

#include "src/bridge/flight/due.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

// Tasks that a person or another instance made due are found within this plus DueSweep::kGrace.
constexpr Ms kAskEvery{500};

}  // namespace

WorkPoll::WorkPoll(io::Loop& loop, StoreJobs& jobs, Shards& shards, DbClock& clock, Found found)
    : jobs_(jobs), shards_(shards), clock_(clock), found_(std::move(found)), timer_(loop, [this] {
        ask();
      }) {}

void WorkPoll::start() { timer_.start(kAskEvery, kAskEvery); }

void WorkPoll::ask() {
  if (!shards_.any()) return;
  constexpr std::array kLanesInTurn{Lane::sweeps, Lane::flow, Lane::upkeep};
  turn_ = quiet_ ? (turn_ + 1) % kLanesInTurn.size() : 0;
  // Not upkeep's instead of these: that one answers at once if the database refuses, and would each time.
  if (busy_[turn_]) turn_ = turn_ == 0 ? 1 : 0;
  if (std::exchange(busy_[turn_], true)) return;
  jobs_.submit<WorkWaiting>(
      kLanesInTurn[turn_],
      [shards = shards_.list(), now = clock_.now()](TaskStore& store) {
        return store.work_waiting(shards, now - DueSweep::kGrace, now);
      },
      [this, turn = turn_](const Result<WorkWaiting>& waiting) {
        busy_[turn] = false;
        quiet_ = waiting && *waiting == WorkWaiting{};
        if (!waiting) return log::error("querying for work failed", {{"reason", waiting.error().message}});
        if (timer_.active()) found_(*waiting);
      });
}

}  // namespace rung::bridge
