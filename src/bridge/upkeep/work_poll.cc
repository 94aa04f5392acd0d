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
  if (busy_ || !shards_.any()) return;
  busy_ = true;
  jobs_.submit<WorkWaiting>(
      Lane::sweeps,
      [shards = shards_.list(), now = clock_.now()](TaskStore& store) {
        return store.work_waiting(shards, now - DueSweep::kGrace, now);
      },
      [this](const Result<WorkWaiting>& waiting) {
        busy_ = false;
        if (!waiting) return log::error("querying for work failed", {{"reason", waiting.error().message}});
        if (timer_.active()) found_(*waiting);
      });
}

}  // namespace rung::bridge
