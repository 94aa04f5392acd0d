#include "src/bridge/flight/publishing.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <variant>

#include "src/bridge/changes/single_rows.h"
#include "src/core/base/failpoint.h"
#include "src/core/base/result.h"
#include "src/core/machine/headers.h"
#include "src/core/machine/machine.h"
#include "src/core/task/task.h"
#include "src/io/log.h"

namespace rung::bridge {

void Claims::claim(std::vector<io::DueItem> items) {
  if (items.empty()) return;
  ++jobs_;
  std::vector<Event> claims;
  claims.reserve(items.size());
  Batch batch;
  for (const io::DueItem& item : items) {
    const Flight* flight = deps_.flights.find(item.id);
    RUNG_REQUIRE(flight != nullptr && flight->stage == Flight::Stage::claiming);
    const Ms gated = deps_.flow.gates.waited(deps_.flow.names.name(item.queue), item.at);
    const Permit* permit = flight->permit.get();
    claims.push_back(
        {item.id, event::Claim{kAhead, gated, permit ? permit->probe : 0, permit && permit->again}});
    batch.behind_gates.push_back(behind_gates(item, *flight));
  }
  Fence needed =
      narrowed(deps_.flow.shards.fence(), items, [](const io::DueItem& item) { return item.shard; });
  batch.items = std::move(items);
  const auto work = [events = std::move(claims), fence = std::move(needed),
                     decide = decider(deps_.flow.rules)](Store& store) {
    return claim_tasks(store, events, fence, decide, kMostBytes);  // the others when there is room
  };
  deps_.flow.jobs.submit<Claimed>(Lane::flow, work, [this, batch = std::move(batch)](Result<Claimed> result) {
    --jobs_;
    claimed(batch, std::move(result));
    deps_.done();
  });
}

// A gate lets a task go when it opens, or with a token. Until then a task with a token has waited for
// its turn, but for when nothing could be sent at all.
Ms Claims::behind_gates(const io::DueItem& item, const Flight& flight) const {
  const Ms closed = deps_.flow.gates.closed_since(deps_.flow.names.name(item.queue), item.at);
  if (!flight.permit || !flight.permit->value) return closed;
  const DbClock& clock = deps_.flow.clock;
  const EpochMs sent_at = clock.now() - (clock.here().boot() - flight.permit->released_at);
  if (sent_at <= item.at) return closed;
  return std::max(closed, sent_at - item.at - deps_.unable.between(item.at, sent_at));
}

void Claims::claimed(const Batch& batch, Result<Claimed> result) {
  const std::vector<io::DueItem>& items = batch.items;
  if (!result) {
    log::error("claim failed", {{"tasks", items.size()}, {"reason", result.error().message}});
    for (const io::DueItem& item : items) not_claimed(item);  // the sweep finds them again
    return;
  }
  RUNG_REQUIRE(result->decisions.size() == items.size());
  std::vector<Flight*> reads;  // in order: the messages belong to the first tasks
  reads.reserve(result->messages.size());
  ShortClaims fresh{deps_.flow.clock.here().boot(), {}};
  for (std::size_t i = 0; i < items.size(); ++i) {
    Decision& decision = result->decisions[i];
    if (decision.verdict == Decision::Verdict::applied) {
      const bool has_message = reads.size() < result->messages.size();
      const std::size_t bytes = message_bytes(decision.task);
      if (decision.short_claim) fresh.ids.push_back(items[i].id);
      Flight& flight = deps_.flights.claimed(items[i].id, std::move(decision), bytes, has_message);
      flight.claim->behind_gates = batch.behind_gates[i];
      if (has_message) {
        reads.push_back(&flight);
      } else {
        unread_.push_back(&flight);
      }
      continue;
    }
    not_claimed(items[i]);
    // Not due yet by the database's clock, which is more exact than our reading of it.
    const Task& task = decision.task;
    if (decision.reason == kNotOurShard) {
      deps_.flow.shards.refused();  // if it is ours after all, the sweep finds it
    } else if (task.state == State::scheduled && task.next_at) {
      deps_.flow.horizon.schedule(deps_.flow.names.item(task, *task.next_at));
    }
  }
  if (!fresh.ids.empty()) short_.push_back(std::move(fresh));
  deps_.publisher.publish(reads, result->messages);
  if (draining_ && !planted(Bug::b2)) release_unfetched();  // no fetch follows during a drain
}

void Claims::not_claimed(const io::DueItem& item) {
  if (const auto unused = deps_.flights.not_claimed(item.id)) deps_.unused(item.queue, *unused);
}

void Claims::fetch() {
  std::vector<Flight*> batch;
  std::vector<TaskId> ids;
  std::unordered_map<TaskId, std::shared_ptr<const Task>> tasks;
  std::size_t bytes = 0;
  while (!unread_.empty() && ids.size() < kMostTasks) {
    Flight& next = *unread_.front();
    const Task& task = *next.claim->task;
    bytes += next.claim->bytes;
    if (!ids.empty() && bytes > kMostBytes) break;
    unread_.pop_front();
    if (!deps_.flow.shards.held(task.shard) || !is_covered(deps_.flow.shards, task)) {
      deps_.flights.release(next);
    } else {
      deps_.flights.read(next);
      ids.push_back(task.id);
      tasks.emplace(task.id, next.claim->task);
      batch.push_back(&next);
    }
  }
  RUNG_REQUIRE(unread_.size() == deps_.flights.count(Flight::Stage::unread));
  if (ids.empty()) return;
  ++jobs_;
  deps_.flow.jobs.submit<Messages>(
      Lane::flow,
      [ids = std::move(ids), tasks = std::move(tasks)](Store& store) {
        auto messages = read_messages(store, ids);
        if (!messages) return messages;
        for (StoredMessage& stored : *messages) prove(stored, *tasks.at(stored.id));
        return messages;
      },
      [this, batch = std::move(batch)](const Result<Messages>& messages) {
        --jobs_;
        fetched(batch, messages);
        deps_.done();
      });
}

void Claims::fetched(const std::vector<Flight*>& batch, const Result<Messages>& messages) {
  if (messages) return deps_.publisher.publish(batch, *messages);
  log::error("reading message bodies failed",
             {{"tasks", batch.size()}, {"reason", messages.error().message}});
  for (Flight* flight : batch) deps_.flights.release(*flight);
}

void Claims::tick() {
  const BootMs now = deps_.flow.clock.here().boot();
  for (; !short_.empty() && now - short_.front().at >= kShortFor; short_.pop_front()) {
    std::vector<TaskId> open;
    for (const TaskId id : short_.front().ids) {
      if (deps_.flights.publishing(id)) open.push_back(id);
    }
    if (open.empty()) continue;
    deps_.flow.jobs.submit<void>(
        Lane::flow, [open](Store& store) { return store.write_claims(open); },
        [tasks = open.size()](const Result<void>& written) {
          if (!written)
            log::error("writing claims failed", {{"tasks", tasks}, {"reason", written.error().message}});
        });
  }
}

void Claims::release_unfetched() {
  for (; !unread_.empty(); unread_.pop_front()) deps_.flights.release(*unread_.front());
}

void Claims::drain() {
  draining_ = true;
  release_unfetched();
}

TaskPublisher::TaskPublisher(Deps deps)
    : deps_(std::move(deps)),
      held_timer_(deps_.flow.loop, [this] { send_due(); }),
      route_log_(deps_.flow.clock.here()) {}

void TaskPublisher::publish(const std::vector<Flight*>& flights, const std::vector<StoredMessage>& messages) {
  std::unordered_map<TaskId, const StoredMessage*> by_id;
  for (const StoredMessage& stored : messages) by_id.emplace(stored.id, &stored);
  for (Flight* flight : flights) {
    const Claim& claim = *flight->claim;
    const auto stored = by_id.find(claim.task->id);
    const MessagePtr message = stored != by_id.end() ? stored->second->message : nullptr;
    if (message == nullptr) {
      const std::string why = stored == by_id.end()
                                  ? "its body is not in the database"
                                  : "its row in rung_bodies cannot be read: " + stored->second->broken;
      log::error("stored message unreadable", {{"id", claim.task->id.value}, {"reason", why}});
      reject(*flight, why);
      continue;
    }
    mean_body_bytes_ = mean_body_bytes_ * 0.98 + 0.02 * static_cast<double>(claim.bytes);
    if (claim.task->next_at > due_by()) {
      hold(*flight, message);
    } else {
      send(*flight, *message);
    }
  }
}

EpochMs TaskPublisher::due_by() const {
  return deps_.flow.clock.now() + Ms{planted(Bug::one_ms_early) ? 1 : 0};
}

void TaskPublisher::hold(Flight& flight, MessagePtr message) {
  deps_.flights.hold(flight, std::move(message));
  const auto place = held_.emplace(flight.claim->task->next_at.value(), &flight);
  if (place == held_.begin()) held_timer_.start(place->first - due_by());
}

// Also during a drain: claimed tasks are completed.
void TaskPublisher::send_due() {
  const EpochMs now = due_by();
  while (!held_.empty() && held_.begin()->first <= now) {
    Flight& flight = *held_.extract(held_.begin()).mapped();
    const MessagePtr message = flight.claim->message;
    send(flight, *message);
  }
  RUNG_REQUIRE(held_.size() == deps_.flights.count(Flight::Stage::held));
  if (!held_.empty()) held_timer_.start(held_.begin()->first - now);
  deps_.flow.outbox.flush();
}

// A retry goes only to its queue: other queues bound to the original exchange must not get copies (trap 5).
// It keeps its original routing key, if any. A delay that has not failed yet goes to its original target.
Outgoing TaskPublisher::outgoing_for(const Flight& flight, const Message& message) const {
  const Task& task = *flight.claim->task;
  const Target target = target_of(task);
  Outgoing outgoing{0, target.exchange, target.queue.empty() ? target.routing_key : target.queue,
                    dress(message, task, deps_.flow.proof.token(task)), flight.lane};
  if (target.queue.empty() || !keeps_routing_key(task, deps_.flow.prefix)) return outgoing;
  outgoing.queue = target.queue;
  outgoing.exchange.clear();
  outgoing.routing_key = task.routing_key;
  return outgoing;
}

void TaskPublisher::send(Flight& flight, const Message& message) {
  const Task& task = *flight.claim->task;
  if (!is_covered(deps_.flow.shards, task)) return deps_.flights.release(flight);
  // The config may have named it after the task was made.
  if (const std::string why = error_queue_target(target_of(task), deps_.flow.rules->targets()); !why.empty())
    return reject(flight, why);
  deps_.flights.send(flight, deps_.flow.clock.here().boot());
  Outgoing outgoing = outgoing_for(flight, message);
  if (deps_.flow.tracer != nullptr) deps_.flow.tracer->sent(task, outgoing, deps_.flow.clock.now());
  deps_.flow.outbox.send(std::move(outgoing),
                         [this, &flight](const PublishResult& result) { published(flight, result); });
}

// An earlier attempt may succeed while the next copy is held. The task cannot end otherwise then.
void TaskPublisher::changed(const Task& task) {
  if (held_.empty() || !is_finished(task.state)) return;
  const Flight* flight = deps_.flights.find(task.id);
  if (flight == nullptr || flight->stage != Flight::Stage::held) return;
  const auto held = std::ranges::find(held_, flight, [](const auto& entry) { return entry.second; });
  RUNG_REQUIRE(held != held_.end());
  held_.erase(held);
  deps_.flights.release(*flight);
}

// Not by the broker: no answer of its queue.
void TaskPublisher::reject(Flight& flight, const std::string& why) {
  deps_.flights.unsendable(flight);
  conclude(flight, {0, How::rejected, why});
}

void TaskPublisher::published(Flight& flight, const PublishResult& result) {
  deps_.flights.answered(flight, result.how, deps_.flow.clock.here().boot());
  conclude(flight, result);
}

void TaskPublisher::conclude(Flight& flight, const PublishResult& result) {
  const Claim& claim = *flight.claim;
  const Task& task = *claim.task;
  const EpochMs now = deps_.flow.clock.now();
  const Ms late = now - task.next_at.value_or(now);
  deps_.flow.counts.published(task, result.how, late, claim.behind_gates);
  if (deps_.flow.tracer != nullptr) deps_.flow.tracer->answered(task, result, now);
  switch (result.how) {
    case How::confirmed:
      deps_.stalls.confirmed();
      if (task.next_at) lateness_.add(late - claim.behind_gates);
      deps_.flow.gates.published(task);
      if (!result.reason.empty()) route_log_.routing_key_lost(task.queue, result.reason);
      return record({task.id, event::Confirmed{task.attempt, now, task.epoch}, {}, claim.task});
    case How::returned:
      if (const Target target = target_of(task); !target.exchange.empty())
        route_log_.exchange_refused(target.exchange, result.reason);
      return record({task.id, event::Returned{task.attempt, now, result.reason}});
    case How::nacked:
      return record({task.id, event::Deferred{task.attempt, Targets::kRefusedPause, result.reason,
                                              claim.copy_may_be_out}});
    case How::rejected: {
      Directives never;
      never.never = true;
      return record({task.id, event::Failed{task.attempt, "cannot be published: " + result.reason,
                                            "unsendable", never}});
    }
    case How::lost:
    case How::fenced:
      return deps_.unpublished(flight, result.how);
  }
}

// The shard stays in use until the row records it: if it were given back earlier, its new owner would find
// the row in `publishing` and publish the task again.
void TaskPublisher::record(Event event) {
  const TaskId id = event.id;
  if (auto* failed = std::get_if<event::Failed>(&event.what)) failed->by_publisher = true;
  // A confirm changes nothing that anybody waits for; if the consumer was faster, its report was handled
  // already.
  const bool moves = !std::holds_alternative<event::Confirmed>(event.what);
  const auto recorded = [this, id, moves](const Result<Decision>& decision) {
    deps_.flights.end(id);
    if (decision && moves) deps_.flow.observer.decided(*decision);
  };
  deps_.flow.transitions.add(std::move(event), recorded, {}, Transitions::OnError::keep);
}

}  // namespace rung::bridge
