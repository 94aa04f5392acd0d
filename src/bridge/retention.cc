#include "src/bridge/retention.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr Ms kLookForOurs{1000};  // check whether shard 0 is ours
constexpr Ms kRest{10'000};       // between two passes
constexpr Ms kLeastBreath{10}, kLongestBreath{5000};
constexpr int kPauses = 3;                            // times as long as the step took
constexpr Ms kLongestPass{std::chrono::minutes{10}};  // then it is the partitions' turn

}  // namespace

Retention::Retention(io::Loop& loop, Deps deps, std::optional<Ms> keep)
    : deps_(deps), keep_(keep), timer_(loop, [this] { tick(); }) {}

void Retention::start() { timer_.start(kLookForOurs); }

void Retention::stop() {
  stopped_ = true;
  timer_.stop();
}

void Retention::reload(std::optional<Ms> keep) {
  if (std::exchange(keep_, keep) == keep && !failed_) return;
  schedule_.look_at_all();
  pass_.stage = Stage::done;  // a pass under way ends with its step
  if (!busy_ && !stopped_) timer_.start(Ms{1});
}

void Retention::tick() {
  if (busy_ || stopped_) return;
  const bool ours = deps_.shards.held(0);
  if (ours && !ours_) {
    schedule_.begin_anew();
    report_.took_charge(deps_.clock.now());
    pass_.stage = Stage::done;
  }
  ours_ = ours;
  if (!ours) return timer_.start(kLookForOurs);
  if (pass_.stage == Stage::done) pass_ = schedule_.next(pass_, keep_, deps_.clock.now(), now());
  submit();
}

void Retention::submit() {
  if (pass_.stage == Stage::done) return timer_.start(kRest);
  busy_ = true;
  deps_.jobs.submit<RetentionPass>(
      Lane::upkeep,
      [pass = pass_, &here = deps_.clock.here()](RetentionStore& store) {
        return perform_step(pass, here, store);
      },
      [this](Result<RetentionPass> pass) { arrived(std::move(pass)); });
}

void Retention::arrived(Result<RetentionPass> pass) {
  busy_ = false;
  if (!pass) {
    if (stopped_) return;
    log::warn("retention paused", {{"reason", pass.error().message}});
    pass_.stage = Stage::done;
    failed_ = true;
    return timer_.start(schedule_.failed(now()));
  }
  failed_ = false;
  const bool abandoned = pass_.stage == Stage::done;  // another retention applies by now
  report_.add(*pass, deps_.clock.now());
  if (pass->gone.tasks > 0) schedule_.tasks_went(now());
  pass->dropped.clear();
  if (abandoned) {
    if (!stopped_) timer_.start(Ms{1});
    return;
  }
  pass_ = *std::move(pass);
  if (pass_.stage == Stage::tasks && now() - pass_.began > kLongestPass) {
    pass_.stage = Stage::records;
    pass_.cut_short = true;
  }
  if (pass_.stage == Stage::done) {
    schedule_.ended(pass_, now());
    report_.ended(pass_, deps_.clock.now(), now());
  }
  if (stopped_) return;
  timer_.start(pass_.stage == Stage::done ? kRest
                                          : std::clamp(pass_.took * kPauses, kLeastBreath, kLongestBreath));
}

}  // namespace rung::bridge
