// What a failure leads to: the next level of the ladder, or what a rule, give_up or the consumer says
// instead. A part of the state machine: only machine.cc calls after_failure(). Thread: pure functions.
#pragma once

#include <string>

#include "src/core/rules/policy.h"
#include "src/core/task/task.h"

namespace rung {

// With more uncounted attempts, no rule moves a task to another queue by a snooze: it is parked.
inline constexpr int kMostUncountedMoves = 100;

// The task's ladder: the one pinned to it, else its queue's. Sets Task::ladder if it was another.
const levels::Ladder& ladder_of(Task& task, const RuleBook& rules);

// Appends a short remark to an error text; the text is cut if there is no room for both.
std::string with_remark(const std::string& error, std::string remark);

// Takes retry-ladder and retry-max-attempts; a complaint becomes a remark to the error.
void take_directives(Task& task, const Directives& d, const RuleBook& rules);

void park(Task& task, const RuleBook& rules, EpochMs now);

// Due now, on the first rung of its ladder. Limits count nothing that was before.
void begin_again(Task& task, const RuleBook& rules, EpochMs now);

// Sets the task's new target. If it goes to a queue, exchange and routing key are kept: they tell people
// where it was first published.
void direct(Task& task, const Target& wanted);

// The failed task as its queue's rules see it. The views are valid as long as the task.
FailureCase failure_case(const Task& task, EpochMs now);

// The task has failed; last_error and error_type say how. Decides, in this order: the consumer's retry-never,
// the first matching rule of its queue, give_up, its ladder. Sets all that changes. `level`: the next one of
// the ladder.
void after_failure(Task& task, int level, const Directives& d, const RuleBook& rules, EpochMs now,
                   double random);

// For how long the consumer's retry-after holds back the task's queue; none = it does not. REQUIRES: the
// failure is proven to be that of a delivery of ours.
std::optional<Ms> queue_hold(const Task& task, const Directives& d, const RuleBook& rules);
// "task 4711 asked for 5m": the reason that people see.
std::string describe_hold(TaskId task, Ms wait);

}  // namespace rung
