#include "src/bridge/retention.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr Ms kLookForOurs{1000};  // is shard 0 ours
constexpr Ms kRest{10'000};       // between two passes
constexpr Ms kLeastBreath{10}, kLongestBreath{5000};
constexpr int kPauses = 3;                            // times as long as the step took
constexpr Ms kLongestPass{std::chrono::minutes{10}};  // then the parts have their turn
constexpr Ms kWalkEvery{std::chrono::hours{24}};  // from the beginning: what was passed over, parked ones too
constexpr Ms kSweepPartsEvery{std::chrono::hours{24}};
constexpr Ms kLookEvery{std::chrono::hours{1}};
constexpr Ms kLookSoon{std::chrono::minutes{1}};  // where tasks went
constexpr Ms kFirstBusy{std::chrono::minutes{5}}, kLongestBusy{std::chrono::hours{1}};
constexpr Ms kSayEvery{std::chrono::hours{24}};
constexpr int kTasks = 500, kRecords = 1000;  // of one step

}  // namespace

Retention::Retention(io::Loop& loop, Deps deps, std::optional<Ms> keep)
    : deps_(deps),
      keep_(keep),
      timer_(loop, [this] { tick(); }),
      said_at_(BootMs{0} - kSayEvery),
      patience_(kFirstBusy) {}

void Retention::start() { timer_.start(kLookForOurs); }

void Retention::stop() {
  stopped_ = true;
  timer_.stop();
}

void Retention::reload(std::optional<Ms> keep) {
  if (std::exchange(keep_, keep) == keep) return;
  walk_at_ = look_at_ = sweep_at_ = {0};
  pass_.stage = Stage::through;  // one that is under way ends with its step
  if (!busy_ && !stopped_) timer_.start(Ms{1});
}

void Retention::tick() {
  if (busy_ || stopped_) return;
  const bool ours = deps_.shards.held(0);
  if (ours && !ours_) {
    walk_at_ = look_at_ = sweep_at_ = calm_until_ = {0};
    patience_ = kFirstBusy;
    pass_.stage = Stage::through;
  }
  ours_ = ours;
  if (!ours) return timer_.start(kLookForOurs);
  if (pass_.stage == Stage::through) begin();
  submit();
}

void Retention::begin() {
  const BootMs now = deps_.clock.here().boot();
  Pass pass;
  pass.place = pass_.place;
  if (now >= walk_at_) {
    pass.place = {};
    walk_at_ = now + kWalkEvery;
  }
  pass.keep = keep_;
  pass.now = deps_.clock.now();
  pass.look = now >= look_at_ && now >= calm_until_;
  pass.sweep = pass.look && now >= sweep_at_;
  pass.stage = pass.look ? Stage::add : keep_ ? Stage::tasks : Stage::through;
  began_ = now;
  pass_ = std::move(pass);
}

void Retention::submit() {
  if (pass_.stage == Stage::through) return timer_.start(kRest);
  busy_ = true;
  deps_.jobs.submit<Pass>(
      Lane::upkeep,
      [pass = pass_, &here = deps_.clock.here()](RetentionStore& store) {
        return perform(pass, here, store);
      },
      [this](Result<Pass> pass) { arrived(std::move(pass)); });
}

// One step. What goes wrong with the tables' parts (the user may not, the tables are in use) holds up nothing
// else.
Result<Retention::Pass> Retention::perform(Pass pass, const Clock& here, RetentionStore& store) {
  const BootMs from = here.boot();
  pass.done = {};
  const EpochMs before = pass.now - pass.keep.value_or(Ms{0});
  Result<void> step;
  if (pass.stage == Stage::add) {
    step = add(pass, store);
  } else if (pass.stage == Stage::tasks) {
    const auto gone = store.let_go(before, pass.place, kTasks);
    if (!gone) return tl::unexpected(gone.error());
    pass.done.tasks = gone->tasks;
    pass.place = gone->last;
    if (!gone->more) pass.stage = Stage::records;
  } else if (pass.stage == Stage::records) {
    const auto gone = store.let_go_records(before, kRecords);
    if (!gone) return tl::unexpected(gone.error());
    pass.done.audit = gone->audit;
    pass.done.bulks = gone->bulks;
    pass.done.events = gone->events;
    if (!gone->more) pass.stage = pass.look ? Stage::list : Stage::through;
  } else if (pass.stage == Stage::list) {
    step = list(pass, store);
  } else if (pass.stage == Stage::drop) {
    step = drop(pass, store);
  } else {
    const auto swept = store.sweep(pass.sweep_from, pass.sweep_to, kTasks);
    if (!swept) return tl::unexpected(swept.error());
    if (swept->next) pass.sweep_from = *swept->next;
    if (!swept->next) pass.stage = Stage::drop;
  }
  if (!step) return tl::unexpected(step.error());
  pass.took = here.boot() - from;
  return pass;
}

Result<void> Retention::add(Pass& pass, RetentionStore& store) {
  pass.stage = pass.keep ? Stage::tasks : Stage::through;
  const auto there = store.parts();
  if (!there) return tl::unexpected(there.error());
  // Also where nothing is to be added: what was cut short between the two tables is seen to by this.
  const auto added = store.add_parts(parts_to_add(*there, pass.now, pass.keep));
  if (!added && added.error().kind == Error::Kind::transient) return tl::unexpected(added.error());
  if (!added) pass.trouble = added.error().message;
  if (added && *added == PartsAdded::busy) pass.busy = true;
  if (added && *added == PartsAdded::full)
    pass.trouble =
        "the last part holds too much to be divided beside the work: docs/operations.md, Retention";
  return {};
}

Result<void> Retention::list(Pass& pass, RetentionStore& store) {
  auto there = store.parts();
  if (!there) return tl::unexpected(there.error());
  pass.old = *std::move(there);
  std::ranges::reverse(pass.old);
  pass.stage = Stage::drop;
  return {};
}

Result<void> Retention::drop(Pass& pass, RetentionStore& store) {
  if (pass.old.empty()) {
    pass.stage = Stage::through;
    return {};
  }
  const Part part = pass.old.back();
  pass.old.pop_back();
  const PartDue due = part_due(part, pass.now, *pass.keep);
  // Once refused, the tables are left alone until the next look: each try makes others wait.
  bool kept = true;
  if (due.drop && !pass.busy && !pass.refused) {
    const auto end = store.drop_part(part);
    if (!end && end.error().kind == Error::Kind::transient) return tl::unexpected(end.error());
    if (!end) pass.trouble = end.error().message;
    pass.refused = !end;
    if (end && *end == PartEnd::busy) pass.busy = true;
    if (end && *end == PartEnd::dropped) {
      kept = false;
      pass.done.parts = 1;
      pass.dropped.push_back(part.name);
    }
  }
  if (kept && pass.sweep && due.sweep_to > part.from && !pass.busy) {
    pass.sweep_from = part.from;
    pass.sweep_to = due.sweep_to;
    pass.stage = Stage::sweep;
  }
  return {};
}

void Retention::arrived(Result<Pass> pass) {
  busy_ = false;
  if (!pass) {
    if (stopped_) return;
    log::warn("retention stops for a while", {{"reason", pass.error().message}});
    pass_.stage = Stage::through;
    look_at_ = deps_.clock.here().boot() + kLookEvery;
    return timer_.start(kLookEvery);
  }
  const bool abandoned = pass_.stage == Stage::through;  // another retention holds by now
  const Done& now = pass->done;
  done_.tasks += now.tasks;
  done_.parts += now.parts;
  done_.audit += now.audit;
  done_.bulks += now.bulks;
  done_.events += now.events;
  if (now.tasks + now.parts + now.audit + now.bulks + now.events > 0) done_.last = deps_.clock.now();
  if (now.tasks > 0) look_at_ = std::min(look_at_, deps_.clock.here().boot() + kLookSoon);
  names_.insert(names_.end(), pass->dropped.begin(), pass->dropped.end());
  pass->dropped.clear();
  if (abandoned) {
    if (!stopped_) timer_.start(Ms{1});
    return;
  }
  pass_ = *std::move(pass);
  if (pass_.stage == Stage::tasks && deps_.clock.here().boot() - began_ > kLongestPass)
    pass_.stage = Stage::records;
  if (pass_.stage == Stage::through) through();
  if (stopped_) return;
  timer_.start(
      pass_.stage == Stage::through ? kRest : std::clamp(pass_.took * kPauses, kLeastBreath, kLongestBreath));
}

void Retention::through() {
  const BootMs now = deps_.clock.here().boot();
  if (pass_.look) {
    look_at_ = now + kLookEvery;
    if (pass_.busy)
      calm_until_ = look_at_ = now + patience_;
    else if (pass_.sweep)
      sweep_at_ = now + kSweepPartsEvery;
    patience_ = pass_.busy ? std::min(patience_ * 2, kLongestBusy) : kFirstBusy;
    if (!pass_.trouble.empty() && pass_.trouble != trouble_)
      log::warn("the history's tables could not be changed", {{"reason", pass_.trouble}});
    trouble_ = pass_.trouble;
  }
  // A line for a day's work, not for a batch.
  const bool something = done_.tasks + done_.audit + done_.bulks > said_.tasks + said_.audit + said_.bulks;
  if (names_.empty() && (!something || now - said_at_ < kSayEvery)) return;
  std::string parts;
  for (const std::string& name : names_) parts += (parts.empty() ? "" : " ") + name;
  log::info("let go of what is over and old", {{"retention", pass_.keep ? pass_.keep->count() / 1000 : 0},
                                               {"tasks", done_.tasks - said_.tasks},
                                               {"parts", parts},
                                               {"audit", done_.audit - said_.audit},
                                               {"bulks", done_.bulks - said_.bulks}});
  said_ = done_;
  said_at_ = now;
  names_.clear();
}

}  // namespace rung::bridge
