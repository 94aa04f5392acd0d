#include "src/bridge/base/flow_counts.h"

#include "src/core/base/result.h"
#include "src/core/base/utf8.h"

namespace rung::bridge {

std::string matched_label(const RuleBook& rules, const std::string& queue, bool room) {
  const RuleBook::PatternRules* entry = rules.pattern_of(queue);
  if (entry == nullptr) return FlowCounts::kOther;
  return room && is_utf8(queue) ? queue : entry->pattern.text();
}

ActivityCounts FlowCounts::Queue::activity() const {
  const auto of = [this](Ended how) { return ended[static_cast<std::size_t>(how)]; };
  return {taken_in[0] + of(Ended::failed) + of(Ended::timed_out) + of(Ended::returned), retried,
          of(Ended::succeeded) + of(Ended::presumed)};
}

void FlowCounts::configure(const RuleBookPtr& rules) {
  rules_ = rules;
  by_queue_.try_emplace(kOther);
  for (const auto& [name, queue] : rules->queues()) by_queue_.try_emplace(name);
  for (auto& [label, queue] : by_queue_) queue.late_by = late_by(label);
}

// All queues that a label counts have the same rules.
std::optional<Ms> FlowCounts::late_by(const std::string& label) const {
  return label == kOther ? rules_->defaults().late_by : rules_->queue(label).late_by;
}

FlowCounts::Queue& FlowCounts::of(const std::string& queue) {
  const auto place = by_queue_.find(queue);
  if (place != by_queue_.end()) return place->second;
  const auto [added, is_new] = by_queue_.try_emplace(matched_label(*rules_, queue, matched_ < kMostMatched));
  if (is_new && added->first == queue) ++matched_;
  if (is_new) added->second.late_by = late_by(added->first);
  return added->second;
}

void FlowCounts::inserted(const Task& task) {
  ++of(task.queue).taken_in[task.kind == Kind::retry ? 0 : 1];
  if (!task.rule.empty()) ++totals.decided_by_rule[task.rule];
  finish(task);
}

void FlowCounts::decided(const Decision& decision) {
  RUNG_REQUIRE(decision.verdict == Decision::Verdict::applied);
  const Task& task = decision.task;
  // A report that confirms a presumed success ends nothing for a second time.
  const bool again = decision.was == State::succeeded && task.state == State::succeeded;
  if (decision.attempt && !again && decision.attempt->outcome != Outcome::pending) {
    const Outcome outcome = decision.attempt->outcome;
    const bool presumed = outcome == Outcome::succeeded && task.finished_by == FinishedBy::presumed;
    Queue& queue = of(decision.failed_in.empty() ? task.queue : decision.failed_in);
    ++queue[presumed ? Ended::presumed : ended_by(outcome)];
  }
  if (decision.attempt && !decision.attempt->rule.empty()) ++totals.decided_by_rule[decision.attempt->rule];
  if (decision.was != task.state) finish(task);
}

void FlowCounts::finish(const Task& task) {
  if (is_finished(task.state)) ++of(task.queue)[task.state];
}

void FlowCounts::published(const Task& task, PublishResult::How how, Ms late, Ms behind_gates) {
  Queue& queue = of(task.queue);
  ++queue[how];
  if (how != PublishResult::How::confirmed) return;
  queue.late.add(late - behind_gates);
  if (task.kind == Kind::retry || task.attempt > 1) ++queue.retried;
  if (!queue.late_by) return;
  PromiseCounts& promised = queue.promised;
  ++(late <= *queue.late_by                  ? promised.in_time
     : late - behind_gates <= *queue.late_by ? promised.gated
                                             : promised.late);
}

}  // namespace rung::bridge
