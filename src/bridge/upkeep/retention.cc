#include "src/bridge/upkeep/retention.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "src/io/log.h"

namespace rung::bridge {
namespace {

using Stage = RetentionPass::Stage;

constexpr Ms kWalkEvery{std::chrono::hours{24}};  // from the beginning: skipped tasks, also parked ones
constexpr Ms kSweepPartitionsEvery{std::chrono::hours{24}};
constexpr Ms kLookEvery{std::chrono::hours{1}};
constexpr Ms kLookSoon{std::chrono::minutes{1}};  // after tasks were deleted
constexpr Ms kLongestBusy{std::chrono::hours{1}};

}  // namespace

void RetentionSchedule::begin_anew() {
  look_at_all();
  calm_until_ = {0};
  busy_pause_ = kFirstBusy;
}

RetentionPass RetentionSchedule::next(const RetentionPass& last, std::optional<Ms> keep, EpochMs now,
                                      BootMs boot) {
  RetentionPass pass;
  pass.cursor = last.cursor;
  if (boot >= walk_at_) {
    pass.cursor = {};
    walk_at_ = boot + kWalkEvery;
  }
  pass.keep = keep;
  pass.now = now;
  pass.began = boot;
  pass.look = boot >= look_at_ && boot >= calm_until_;
  pass.sweep = pass.look && boot >= sweep_at_;
  pass.stage = pass.look ? Stage::add : keep ? Stage::tasks : Stage::done;
  return pass;
}

void RetentionSchedule::tasks_went(BootMs now) { look_at_ = std::min(look_at_, now + kLookSoon); }

void RetentionSchedule::ended(const RetentionPass& pass, BootMs now) {
  if (!pass.look) return;
  look_at_ = now + kLookEvery;
  if (pass.busy)
    calm_until_ = look_at_ = now + busy_pause_;
  else if (pass.sweep)
    sweep_at_ = now + kSweepPartitionsEvery;
  busy_pause_ = pass.busy ? std::min(busy_pause_ * 2, kLongestBusy) : kFirstBusy;
}

Ms RetentionSchedule::failed(BootMs now) {
  look_at_ = now + kLookEvery;
  return kLookEvery;
}

void RetentionReport::add(const RetentionPass& step, EpochMs now) {
  const RetentionTotals& gone = step.gone;
  totals_.tasks += gone.tasks;
  totals_.partitions += gone.partitions;
  totals_.audit += gone.audit;
  totals_.bulks += gone.bulks;
  totals_.events += gone.events;
  if (gone.tasks + gone.partitions + gone.audit + gone.bulks + gone.events > 0) totals_.last = now;
  dropped_.insert(dropped_.end(), step.dropped.begin(), step.dropped.end());
}

void RetentionReport::ended(const RetentionPass& pass, EpochMs db_now, BootMs now) {
  if (pass.keep && !pass.cut_short) tasks_done_ = db_now;
  if (pass.look && !pass.busy && !pass.refused && pass.trouble.empty()) partitions_done_ = db_now;
  if (pass.look) {
    if (!pass.trouble.empty() && pass.trouble != trouble_)
      log::warn("changing the history's partitions failed", {{"reason", pass.trouble}});
    trouble_ = pass.trouble;
  }
  const bool something =
      totals_.tasks + totals_.audit + totals_.bulks > said_.tasks + said_.audit + said_.bulks;
  if (dropped_.empty() && (!something || now - said_at_ < kSayEvery)) return;
  std::string names;
  for (const std::string& name : dropped_) names += (names.empty() ? "" : " ") + name;
  log::info("purged finished tasks", {{"retention", pass.keep ? pass.keep->count() / 1000 : 0},
                                      {"tasks", totals_.tasks - said_.tasks},
                                      {"partitions", names},
                                      {"audit", totals_.audit - said_.audit},
                                      {"bulks", totals_.bulks - said_.bulks}});
  said_ = totals_;
  said_at_ = now;
  dropped_.clear();
}

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
      Lane::retention,
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
