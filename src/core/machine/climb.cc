// What a failure leads to: a part of the state machine, declared in machine.h.
#include <algorithm>
#include <utility>

#include "levels/duration.h"
#include "src/core/base/utf8.h"
#include "src/core/gates/gates.h"
#include "src/core/machine/machine.h"
#include "src/core/task/task.h"

namespace rung {
namespace {

// With more uncounted attempts, no rule moves a task to another queue by a snooze: it is parked.
constexpr int kMostUncountedMoves = 100;
constexpr std::string_view kBreakerRule = "breaker", kMoveLimitRule = "move_limit";

// The action of the first rule that matches; none = the ladder as it is.
RuleAction rule_action(Task& task, const RuleBook& rules, EpochMs now) {
  const FailureRules* list = rules.failure_rules(task.queue);
  if (list == nullptr) return {};
  const FailureRules::Match match = list->match(failure_case(task, now));
  if (match.rule == nullptr) return {};
  task.rule = match.rule->name;
  task.error_type = match.type;
  return match.rule->then;
}

// Why the task is given up instead of being retried after `wait`; "" if it is not.
std::string gives_up(const Task& task, const GiveUp& limit, EpochMs now, Ms wait) {
  if (limit.attempts > 0 && counted_attempts(task) >= limit.attempts)
    return "gave up: " + std::to_string(counted_attempts(task)) + " attempts failed";
  if (limit.after && counted_age(task, now) + wait > *limit.after)
    return "gave up: the next retry would be later than " + levels::format_duration(*limit.after) +
           " after the first failure";
  return {};
}

// The action moves the task to another queue without counting the attempt, and too many attempts were not
// counted: rules of several queues may move it in a circle for ever.
bool moves_too_often(const Task& task, const RuleAction& action) {
  return action.kind == RuleAction::Kind::snooze && !action.to.empty() && action.to != task.queue &&
         task.uncounted_attempts >= kMostUncountedMoves;
}

// The attempt was a probe of the breaker, and the breaker counts its failure: the target is still down, which
// says nothing about the message.
bool probe_failed(const Task& task, const RuleBook& rules) {
  const auto& breaker = rules.queue(task.queue).gate.breaker;
  return task.probe != 0 && task.attempt > 0 && breaker && is_breaker_failure(*breaker, task.error_type);
}

}  // namespace

const levels::Ladder& ladder_of(Task& task, const RuleBook& rules) {
  const levels::Ladder* ladder = task.ladder_pinned ? rules.ladder(task.ladder) : nullptr;
  if (ladder == nullptr) {
    // Not pinned, or a reload removed the pinned ladder: use the queue's present ladder.
    task.ladder = rules.queue(task.queue).ladder;
    task.ladder_pinned = false;
    ladder = rules.ladder(task.ladder);
  }
  if (ladder == nullptr) {
    task.ladder = "default";
    ladder = rules.ladder(task.ladder);
  }
  return *ladder;
}

std::string with_remark(const std::string& error, std::string remark) {
  remark = clean_utf8((error.empty() ? "[" : " [") + remark + "]", kErrorBytes / 4);
  return clean_utf8(error, kErrorBytes - remark.size()) + remark;
}

void take_directives(Task& task, const Directives& d, const RuleBook& rules) {
  std::string complaint = d.complaint;
  // Our deliveries carry the ladder that we set: only a different one is a request.
  if (!d.ladder.empty() && d.ladder != task.ladder) {
    if (rules.ladder(d.ladder) != nullptr) {
      task.ladder = d.ladder;
      task.ladder_pinned = true;
    } else {
      if (!complaint.empty()) complaint += "; ";
      complaint += "retry-ladder names '" + d.ladder + "', which is not in the config";
    }
  }
  if (d.max_attempts > 0) task.max_attempts = d.max_attempts;
  if (!complaint.empty()) task.last_error = with_remark(task.last_error, complaint);
}

void end_task(Task& task, State as, const RuleBook& rules, EpochMs now) {
  task.state = as;
  task.finished_at = now;
  task.finished_by = FinishedBy::nobody;
  task.next_at.reset();
  if (as == State::parked && rules.queue(task.queue).publish_parked) task.next_at = now;
}

void begin_again(Task& task, const RuleBook& rules, EpochMs now) {
  task.state = State::scheduled;
  task.next_at = now;
  task.finished_at.reset();
  task.finished_by = FinishedBy::nobody;
  task.level = 1;
  task.max_attempts = 0;
  task.uncounted_attempts = task.attempt;
  if (task.first_failed_at.ms != 0) task.uncounted_time = now - task.first_failed_at;
  task.levels = ladder_of(task, rules).levels();
}

void direct(Task& task, const Target& wanted) {
  Target target = normalised(wanted);
  if (!task.queue.empty() && task.queue != target.queue) task.moved_from = task.queue;
  task.by_exchange = target.queue.empty();
  task.queue = std::move(target.queue);
  if (!task.by_exchange) return;
  task.exchange = std::move(target.exchange);
  task.routing_key = std::move(target.routing_key);
}

FailureCase failure_case(const Task& task, EpochMs now) {
  return {task.queue,         task.tag,           task.error_type,        task.last_error,
          retry_reason(task), &task.rule_headers, counted_attempts(task), counted_age(task, now)};
}

std::optional<Ms> queue_hold(const Task& task, const Directives& d, const RuleBook& rules) {
  const RetryAfterRules& gate = rules.queue(task.queue).gate.retry_after;
  if (!d.retry_after || !gate.pauses_queue || task.queue.empty()) return std::nullopt;
  Task copy = task;
  return std::min({*d.retry_after, gate.cap.value_or(ladder_of(copy, rules).highest()), gate.longest_hold});
}

std::string describe_hold(TaskId task, Ms wait) {
  return "task " + task.str() + " asked for " + levels::format_duration(wait);
}

void after_failure(Task& task, int level, const Directives& d, const RuleBook& rules, EpochMs now,
                   double random) {
  task.rule.clear();
  const bool never = d.never || rules.only_parks(task);
  // Before the remark of take_directives, which would change the error text.
  const RuleAction action = never ? RuleAction{} : rule_action(task, rules, now);
  take_directives(task, d, rules);
  // A ladder that a rule names is for this step. One that is pinned to the task takes precedence.
  const levels::Ladder& ladder = ladder_of(task, rules);
  const bool names = !task.ladder_pinned && !action.ladder.empty();
  const levels::Ladder* named = names ? rules.ladder(action.ladder) : nullptr;
  const levels::Ladder& used = named != nullptr ? *named : ladder;
  if (named != nullptr) task.ladder = action.ladder;
  task.levels = used.levels();
  if (never || action.kind == RuleAction::Kind::park) return end_task(task, State::parked, rules, now);
  if (action.kind == RuleAction::Kind::discard) return end_task(task, State::discarded, rules, now);
  if (moves_too_often(task, action)) {
    task.last_error = with_remark(task.last_error, "parked: after " + std::to_string(kMostUncountedMoves) +
                                                       " uncounted attempts, the rule " + task.rule +
                                                       " would move it to another queue once more");
    task.rule = kMoveLimitRule;
    return end_task(task, State::parked, rules, now);
  }

  const bool snooze = action.kind == RuleAction::Kind::snooze;
  const bool held = snooze || probe_failed(task, rules);
  if (held && !snooze && task.rule.empty()) task.rule = kBreakerRule;
  if (held && task.attempt > 0) ++task.uncounted_attempts;
  const bool spent = task.max_attempts > 0 && counted_attempts(task) >= task.max_attempts;
  if (spent || (!held && level > used.levels())) return end_task(task, State::parked, rules, now);

  const int waits_at = std::clamp(held ? level - 1 : level, 1, used.levels());
  Ms wait = snooze ? action.snooze : action.delay.value_or(used.delay(waits_at, random));
  if (d.retry_after) {
    const std::optional<Ms>& cap = rules.queue(task.queue).gate.retry_after.cap;
    wait = std::min(*d.retry_after, cap.value_or(std::max(used.highest(), action.snooze)));
  }
  if (const std::string why = gives_up(task, rules.queue(task.queue).give_up, now, wait); !why.empty()) {
    task.rule = "give_up";
    task.last_error = with_remark(task.last_error, why);
    return end_task(task, State::parked, rules, now);
  }
  task.state = State::scheduled;
  task.level = held ? level - 1 : level;
  task.next_at = now + wait;
  task.finished_at.reset();
  task.finished_by = FinishedBy::nobody;
  if (!action.to.empty()) direct(task, {action.to, "", ""});
}

}  // namespace rung
