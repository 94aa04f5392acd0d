// What the judge checks of redrives that look at their own outcome: a few are sent first, the others follow
// if those succeed, and slowly at first.
#include <algorithm>

#include "tests/simulator/judge.h"

namespace rung::sim {
namespace {

// Between its look at the canary and the commit of the others' first step.
constexpr Ms kLooked{2000};
// In its first ten seconds, with the step under way and steps of the database's clock.
constexpr int kRampMost = 10 + 3;

}  // namespace

void Judge::redrives(std::int64_t bulk, const Care& care) {
  redrives_[bulk] = {care.canary, care.ramp, {}, {}};
}

std::vector<TaskId> Judge::canary_of(std::int64_t bulk) const {
  std::vector<TaskId> tasks;
  for (const auto& [id, attempt] : redrives_.at(bulk).sent) tasks.push_back(id);
  return tasks;
}

void Judge::judge_step(CarefulRedrive& redrive, const std::vector<Decision>& decisions) {
  const Us now = world_.events.now();
  bool in_canary = false;
  for (const Decision& decision : decisions) {
    if (decision.verdict != Decision::Verdict::applied) continue;
    if (std::ssize(redrive.sent) < redrive.canary) {
      redrive.sent.emplace_back(decision.task.id, decision.task.attempt + 1);
      in_canary = true;
      continue;
    }
    if (in_canary) return broken("a canary is no larger than asked for", facts_[decision.task.id].message);
    if (redrive.others.empty() && redrive.canary > 0) judge_canary(redrive);
    redrive.others.push_back(now);
  }
  const auto early = std::ranges::count_if(redrive.others,
                                           [&](Us at) { return at < redrive.others.front() + 10 * kSecond; });
  if (redrive.ramp && early > kRampMost)
    broken("a ramp begins with one a second: " + std::to_string(early) + " in 10 s", 0);
}

// The others are sent now: one of the canary at least has been delivered and handled, and none has failed.
void Judge::judge_canary(const CarefulRedrive& redrive) {
  const Us now = world_.events.now();
  const bool calm = !world_.troubles.any_in(now - kCalm, now);
  bool any = false;
  for (const auto& [id, attempt] : redrive.sent) {
    Facts& facts = facts_[id];
    const bool came =
        !facts.arrivals[attempt].empty() || facts.succeeded_by_hand || facts.succeeded_word[attempt];
    any = any || came;
    if (!came && !facts.given_up)
      return broken("the others follow a canary that was sent: one of it was not", facts.message);
    for (const AttemptRow& row : store_->history(id)) {
      const bool failed =
          row.attempt.outcome != Outcome::pending && row.attempt.outcome != Outcome::succeeded;
      if (calm && row.attempt.attempt == attempt && failed && row.attempt.outcome_at &&
          world_.db->now() - *row.attempt.outcome_at > kLooked)
        return broken("the others follow a canary that succeeded", facts.message);
    }
  }
  if (!any) broken("the others follow a canary that was sent: nothing was", 0);
}

}  // namespace rung::sim
