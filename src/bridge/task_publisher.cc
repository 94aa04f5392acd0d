#include "src/bridge/task_publisher.h"

#include <unordered_map>
#include <utility>
#include <variant>

#include "src/bridge/breakers.h"
#include "src/core/headers.h"
#include "src/core/origin.h"
#include "src/io/log.h"

namespace rung::bridge {

TaskPublisher::TaskPublisher(Deps deps)
    : deps_(std::move(deps)),
      held_back_(deps_.loop, deps_.clock, deps_.outbox,
                 [this](ClaimedTask claimed, const Message& message) { send(std::move(claimed), message); }),
      route_log_(deps_.clock.here()) {}

void TaskPublisher::publish(const std::vector<ClaimedTask>& tasks,
                            const std::vector<StoredMessage>& messages) {
  std::unordered_map<TaskId, const StoredMessage*> by_id;
  for (const StoredMessage& stored : messages) by_id.emplace(stored.id, &stored);
  for (const ClaimedTask& claimed : tasks) {
    body_bytes_ += claimed.bytes;
    const auto stored = by_id.find(claimed.task->id);
    const MessagePtr message = stored != by_id.end() ? stored->second->message : nullptr;
    if (message == nullptr) {
      const std::string why = stored == by_id.end()
                                  ? "its body is not in the database"
                                  : "its row in rung_bodies cannot be read: " + stored->second->broken;
      log::error("stored message unreadable", {{"id", claimed.task->id.value}, {"reason", why}});
      published(claimed, {0, How::rejected, why});
      continue;
    }
    mean_body_bytes_ = mean_body_bytes_ * 0.98 + 0.02 * static_cast<double>(claimed.bytes);
    if (held_back_.is_early(claimed)) {
      held_back_.add(claimed, message);
    } else {
      send(claimed, *message);
    }
  }
}

// A retry goes only to its queue: other queues bound to the original exchange must not get copies (trap 5).
// It keeps its original routing key, if any. A delay that has not failed yet goes to its original target.
Outgoing TaskPublisher::outgoing_for(const ClaimedTask& claimed, const Message& message) const {
  const Task& task = *claimed.task;
  const Target target = target_of(task);
  Outgoing outgoing{0, target.exchange, target.queue.empty() ? target.routing_key : target.queue,
                    dress(message, task, deps_.proof.token(task)), claimed.lane};
  if (target.queue.empty() || !keeps_routing_key(task, deps_.prefix)) return outgoing;
  outgoing.queue = target.queue;
  outgoing.exchange.clear();
  outgoing.routing_key = task.routing_key;
  return outgoing;
}

void TaskPublisher::send(ClaimedTask claimed, const Message& message) {
  if (!is_covered(deps_.shards, claimed)) return release(claimed);
  // The config may have named it after the task was made.
  if (std::string why = error_queue_target(target_of(*claimed.task), deps_.rules->targets()); !why.empty())
    return published(claimed, {0, How::rejected, std::move(why)});
  deps_.targets.sent(claimed.queue, deps_.clock.here().boot());
  Outgoing outgoing = outgoing_for(claimed, message);
  if (deps_.tracer != nullptr) deps_.tracer->sent(*claimed.task, outgoing, deps_.clock.now());
  deps_.outbox.send(std::move(outgoing), [this, claimed = std::move(claimed)](const PublishResult& result) {
    published(claimed, result);
  });
}

void TaskPublisher::release(const ClaimedTask& claimed) {
  body_bytes_ -= claimed.bytes;
  deps_.tracker.release(claimed);
}

// An earlier attempt may succeed while the next copy is held back. The task cannot end otherwise then.
void TaskPublisher::changed(const Task& task) {
  if (held_back_.size() == 0 || !is_finished(task.state) || !deps_.tracker.publishing(task.id)) return;
  if (const auto claimed = held_back_.take(task.id)) release(*claimed);
}

void TaskPublisher::published(const ClaimedTask& claimed, const PublishResult& result) {
  const Task& task = *claimed.task;
  deps_.targets.answered(claimed.queue, result.how, deps_.clock.here().boot());
  body_bytes_ -= claimed.bytes;
  deps_.tracker.answered(claimed);
  const EpochMs now = deps_.clock.now();
  const Ms late = now - task.next_at.value_or(now);
  deps_.counts.published(task, result.how, late);
  if (deps_.tracer != nullptr) deps_.tracer->answered(task, result, now);
  switch (result.how) {
    case How::confirmed:
      deps_.stalls.confirmed();
      if (task.next_at) lateness_.add(late);
      deps_.breakers.published(task);
      if (!result.reason.empty()) route_log_.routing_key_lost(task.queue, result.reason);
      return record(task.shard, {task.id, event::Confirmed{task.attempt, now, task.epoch}, {}, claimed.task});
    case How::returned:
      if (const Target target = target_of(task); !target.exchange.empty())
        route_log_.exchange_refused(target.exchange, result.reason);
      return record(task.shard, {task.id, event::Returned{task.attempt, now, result.reason}});
    case How::nacked:
      return record(task.shard, {task.id, event::Deferred{task.attempt, Targets::kRefusedPause, result.reason,
                                                          claimed.copy_may_be_out}});
    case How::rejected: {
      Directives never;
      never.never = true;
      return record(task.shard, {task.id, event::Failed{task.attempt, "cannot be published: " + result.reason,
                                                        "unsendable", never}});
    }
    case How::lost:
    case How::fenced:
      return deps_.unpublished(claimed, result.how);
  }
}

// The shard stays in use until the row records it: if it were given back earlier, its new owner would find
// the row in `publishing` and publish the task again.
void TaskPublisher::record(int shard, Event event) {
  const TaskId id = event.id;
  if (auto* failed = std::get_if<event::Failed>(&event.what)) failed->by_publisher = true;
  // A confirm changes nothing that anybody waits for; if the consumer was faster, its report was handled
  // already.
  const bool moves = !std::holds_alternative<event::Confirmed>(event.what);
  const auto recorded = [this, id, shard, moves](const Result<Decision>& decision) {
    deps_.tracker.untrack(id, shard);
    if (decision && moves) deps_.observer.decided(*decision);
  };
  deps_.transitions.add(std::move(event), recorded, {}, Transitions::OnError::keep);
}

}  // namespace rung::bridge
