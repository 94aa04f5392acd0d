#include "src/bridge/upkeep/task_updates.h"

#include "src/io/log.h"

namespace rung::bridge {

void TaskUpdates::inserted(const NewTask& fresh) {
  const Task& task = fresh.task;
  if (task.kind == Kind::retry) deps_.attachments.failed(task, deps_.clock);
  count(task.rule);
  deps_.counts.inserted(task);
  schedule(task);
  if (deps_.tracer != nullptr) deps_.tracer->received(fresh, deps_.clock.now());
}

void TaskUpdates::decided(const Decision& decision) {
  if (decision.verdict != Decision::Verdict::applied) return;
  if (deps_.tracer != nullptr) deps_.tracer->decided(decision);
  const Task& task = decision.task;
  if (!decision.reason.empty()) deps_.store_watch.behind(task.id, decision.reason);
  deps_.counts.decided(decision);
  deps_.dispatch.changed(task);
  schedule(task);
  if (decision.child != nullptr) schedule(decision.child->task);
  if (decision.attempt) count(decision.attempt->rule);
  deps_.gates.decided(decision);
  if (task.state == State::parked) {
    log::warn("parked", {{"id", task.id.value},
                         {"queue", task.queue},
                         {"message_id", task.message_id},
                         {"attempt", task.attempt},
                         {"rule", task.rule},
                         {"error", task.last_error}});
  }
}

void TaskUpdates::holds_queue(const Task& task, Ms wait) {
  deps_.gates.hold_queue(task.queue, wait, task.id);
}

void TaskUpdates::count(const std::string& rule) {
  if (!rule.empty()) ++by_rule_[rule];
}

void TaskUpdates::schedule(const Task& task) {
  if (waits_for_claim(task)) deps_.horizon.schedule(deps_.names.item(task, *task.next_at));
}

}  // namespace rung::bridge
