#include "src/bridge/flight/dispatch.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <variant>

#include "src/bridge/base/flow_counts.h"
#include "src/bridge/base/outbox.h"
#include "src/bridge/base/queue_names.h"
#include "src/bridge/flight/due.h"
#include "src/bridge/flight/gates.h"
#include "src/bridge/leases/delivery_proof.h"
#include "src/core/base/failpoint.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr std::size_t kMostJobs = 2;
constexpr std::size_t kBytesUnderWay = 64UL * 1024 * 1024;  // bodies in memory for the broker
constexpr Ms kLinger{80};                                   // well below kAhead
// How often to check a rate while a task waits for it. The more tasks go together, the fewer transactions.
constexpr Ms kRateTurn{20};
constexpr std::size_t kMostBytes = 16UL * 1024 * 1024;  // of bodies read in one job, approximate
constexpr Ms kShortFor{1000};  // until a short claim (machine.h) is written to the task's row

// One target gets at most three quarters, so that there is room for another.
std::size_t share_of(int most) { return static_cast<std::size_t>(most - most / 4); }

// Publishes under way when leases are lost are answered within this, or their connection is dropped.
constexpr Ms kUnansweredMost{1000};

// Whether the claim is under our current lease. A lease that was lost, even if taken again, no longer covers
// it.
bool is_covered(const Shards& shards, const Task& claimed) {
  return shards.epoch(claimed.shard) == claimed.epoch;
}

}  // namespace

Dispatch::Dispatch(const Sidecar& sidecar)
    : sidecar_(sidecar),
      most_under_way_(static_cast<std::size_t>(sidecar.settings.max_unconfirmed)),
      targets_(sidecar, flights_, share_of(sidecar.settings.max_unconfirmed),
               sidecar.broker.limits().first_window),
      flights_(sidecar, targets_),
      linger_(sidecar.loop, kLinger, [this] { pump(); }),
      again_(sidecar.loop, [this] { pump(); }),
      held_timer_(sidecar.loop, [this] { send_due(); }) {}

void Dispatch::due(const std::vector<io::DueItem>& items) {
  const EpochMs now = sidecar_.clock.now();
  for (const io::DueItem& item : items) {
    sidecar_.gates.see(sidecar_.names.name(item.queue));
    if (targets_.is_full(item.queue)) {
      targets_.leave(item.queue);
    } else {
      take_in(item, now, false);
    }
  }
  pump_soon(items, now);
}

void Dispatch::due_again(const std::vector<io::DueItem>& items) {
  if (draining_) return;
  const EpochMs now = sidecar_.clock.now();
  for (const io::DueItem& item : items) take_in(item, now, true);
  pump_soon(items, now);
}

void Dispatch::take_in(const io::DueItem& item, EpochMs now, bool again) {
  if (flights_.contains(item)) return;
  flights_.add(item, again);
  if (!again && targets_.is_limited(item.queue)) return targets_.add_limited(item);
  bool overdue = false;
  if (now - item.at > kOverdueAfter) {
    // Tasks that became due in normal operation, late only because there are many, are no backlog of an
    // outage. What waited behind a gate is one.
    overdue = item.at < able_since_ || sidecar_.gates.was_closed(sidecar_.names.name(item.queue), item.at);
  }
  targets_.add(item, overdue || targets_.ramp(item.queue) < 1.0);
}

void Dispatch::pump_soon(const std::vector<io::DueItem>& items, EpochMs now) {
  if (std::ranges::any_of(items, [&](const auto& item) { return item.at - now < kAhead / 2; }))
    linger_.skip();
  // Deferred: after a pause many slots fire in one turn, not always oldest first, and all belong in one
  // claim.
  if (std::exchange(pump_posted_, true)) return;
  sidecar_.loop.post([this] {
    pump_posted_ = false;
    pump();
  });
}

void Dispatch::open(bool publishing) {
  if (publishing && !open_) {
    able_since_ = sidecar_.clock.now();
    if (shut_at_.ms != 0) unable_.add(std::exchange(shut_at_, {}), able_since_);
    targets_.sort_out(able_since_);
    // Don't count the time of an alarm or an outage as a target's silence.
    sidecar_.outbox.begin_silence();
    targets_.begin_silence(sidecar_.loop.clock().boot());
  }
  if (!publishing) shut();
  open_ = publishing;
  pump();
}

void Dispatch::shut() {
  if (open_) shut_at_ = sidecar_.clock.now();
  open_ = false;
}

void Dispatch::gates_changed(const std::vector<std::string>& queues) {
  for (const std::string& queue : queues) {
    if (targets_.gate_changed(sidecar_.names.find(queue), sidecar_.clock.now())) opened_ = true;
  }
  pump();
}

void Dispatch::each_queue(const std::function<void(std::uint32_t)>& tell) const {
  flights_.each_queue(tell);
  targets_.each_in_use(sidecar_.loop.clock().boot(), tell);
}

void Dispatch::forget(std::uint32_t queue, const std::string& name) {
  targets_.forget(queue);
  sidecar_.gates.unsee(name);
}

bool Dispatch::can_probe(const std::string& queue) const {
  return can_send() && targets_.has_gate_probe(sidecar_.names.find(queue), sidecar_.loop.clock().boot());
}

bool Dispatch::send_probe(const std::string& queue, int probe) {
  if (!can_send()) return false;
  auto taken = targets_.take_gate_probe(sidecar_.names.find(queue), sidecar_.loop.clock().boot());
  if (!taken) return false;
  taken->probe = probe;
  claim({*std::move(taken)});
  return true;
}

void Dispatch::shards_gained() {
  able_since_ = sidecar_.clock.now();
  pump();
}

void Dispatch::drain() {
  draining_ = true;
  again_.stop();
  targets_.clear();
  flights_.drop_unclaimed();
  release_unfetched();
}

std::size_t Dispatch::room() const {
  const std::size_t used = flights_.under_way();
  return used >= most_under_way_ ? 0 : most_under_way_ - used;
}

void Dispatch::pump() {
  again_.stop();
  if (!can_send()) return;
  const BootMs now = sidecar_.loop.clock().boot();
  const auto job_fits = [this] { return jobs_ < kMostJobs && flights_.bytes() < kBytesUnderWay; };
  while (job_fits() && !unread_.empty()) fetch();
  std::optional<BootMs> token = targets_.next_token(now);
  const auto may_go = [&] { return !targets_.empty() || (token && *token <= now); };
  while (job_fits() && unread_.empty() && may_go()) {
    const std::size_t before = jobs_;
    if (auto probe = targets_.take_probe(sidecar_.loop.clock().boot())) claim({*std::move(probe)});
    claim_next();
    if (jobs_ == before) break;
    token = targets_.next_token(now);
  }
  if (room() == 0) return;
  // There is room, but a rate or a pause blocks every target: try again soon. The answer of a claim pumps,
  // too, but tokens must not wait for it: a bucket saves up few.
  if (!targets_.empty() && jobs_ == 0) {
    again_.start(kRateTurn);
  } else if (token && jobs_ < kMostJobs) {
    again_.start(std::max(*token - now, kRateTurn));
  }
}

void Dispatch::tick() {
  targets_.tidy(sidecar_.loop.clock().boot());
  targets_.check(open_);
  targets_.rates_changed();  // the rate grows after a breaker has closed, and shards come and go
  write_short_claims();
  pump();
}

void Dispatch::claim_next() {
  const auto by_bytes =  // big bodies make small batches
      static_cast<std::size_t>(std::clamp(static_cast<double>(kMostBytes) / mean_body_bytes_, 1.0, 500.0));
  const std::size_t most = std::min({room(), kMostTasks, by_bytes});
  // Claiming a few tasks while most of the window is taken would make many small transactions. If the whole
  // window is small, so are the claims.
  const std::size_t worth_it = std::min(kMostTasks, most_under_way_) / 4;
  if (most == 0 || (most < worth_it && most < targets_.waiting() && most < by_bytes)) return;
  if (targets_.waiting() < kMostTasks / 2 && linger_.hold()) return;
  claim(targets_.take(most, sidecar_.loop.clock().boot()));
  linger_.end();
  if (!targets_.empty()) linger_.skip();  // the rest has waited already
}

// --- the way of those that are taken

void Dispatch::claim(std::vector<Taken> batch) {
  if (batch.empty()) return;
  ++jobs_;
  std::vector<Event> claims;
  claims.reserve(batch.size());
  for (Taken& taken : batch) {
    const Flight* flight = flights_.find(taken.item.id);
    RUNG_REQUIRE(flight != nullptr && flight->stage == Flight::Stage::claiming);
    taken.behind_gates = behind_gates(taken.item, flight->again);
    claims.push_back({taken.item.id, event::Claim{kAhead, taken.behind_gates, taken.probe, flight->again}});
  }
  Fence needed =
      narrowed(sidecar_.shards.fence(), batch, [](const Taken& taken) { return taken.item.shard; });
  const auto work = [events = std::move(claims), fence = std::move(needed),
                     decide = decider(sidecar_.rules)](Store& store) {
    return claim_tasks(store, events, fence, decide, kMostBytes);  // the others when there is room
  };
  sidecar_.jobs.submit<Claimed>(Lane::flow, work, [this, batch = std::move(batch)](Result<Claimed> result) {
    --jobs_;
    claimed(batch, std::move(result));
    sidecar_.outbox.flush();
    pump();
  });
}

// A gate lets a task go when it opens, or with a token. Until then a task that needs one has waited for its
// turn, but for when nothing could be sent at all.
Ms Dispatch::behind_gates(const io::DueItem& item, bool again) const {
  const EpochMs now = sidecar_.clock.now();
  const Ms closed = sidecar_.gates.closed_since(sidecar_.names.name(item.queue), item.at);
  if (again || now <= item.at || !targets_.is_limited(item.queue)) return closed;
  return std::max(closed, now - item.at - unable_.between(item.at, now));
}

void Dispatch::claimed(const std::vector<Taken>& batch, Result<Claimed> result) {
  if (!result) {
    log::error("claim failed", {{"tasks", batch.size()}, {"reason", result.error().message}});
    for (const Taken& taken : batch) not_claimed(taken);  // the sweep finds them again
    return;
  }
  RUNG_REQUIRE(result->decisions.size() == batch.size());
  std::vector<Flight*> reads;  // in order: the messages belong to the first tasks
  reads.reserve(result->messages.size());
  ShortClaims fresh{sidecar_.loop.clock().boot(), {}};
  for (std::size_t i = 0; i < batch.size(); ++i) {
    Decision& decision = result->decisions[i];
    if (decision.verdict == Decision::Verdict::applied) {
      const TaskId id = batch[i].item.id;
      const bool has_message = reads.size() < result->messages.size();
      const std::size_t bytes = message_bytes(decision.task);
      if (decision.short_claim) fresh.ids.push_back(id);
      Flight& flight = flights_.claimed(id, std::move(decision), bytes, has_message);
      flight.claim->behind_gates = batch[i].behind_gates;
      if (has_message) {
        reads.push_back(&flight);
      } else {
        unread_.push_back(&flight);
      }
      continue;
    }
    not_claimed(batch[i]);
    // Not due yet by the database's clock, which is more exact than our reading of it.
    const Task& task = decision.task;
    if (decision.reason == kNotOurShard) {
      sidecar_.shards.refused();  // if it is ours after all, the sweep finds it
    } else if (task.state == State::scheduled && task.next_at) {
      sidecar_.horizon.schedule(sidecar_.names.item(task, *task.next_at));
    }
  }
  if (!fresh.ids.empty()) short_.push_back(std::move(fresh));
  publish(reads, result->messages);
  if (draining_ && !planted(Bug::b2)) release_unfetched();  // no fetch follows during a drain
}

// What it had is free for another task of its queue.
void Dispatch::not_claimed(const Taken& taken) {
  flights_.not_claimed(taken.item.id);
  if (taken.probe != 0) sidecar_.gates.unsent(sidecar_.names.name(taken.item.queue), taken.probe);
  if (taken.value) targets_.not_sent(taken.item.queue, *taken.value);
}

void Dispatch::fetch() {
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
    if (!sidecar_.shards.held(task.shard) || !is_covered(sidecar_.shards, task)) {
      flights_.release(next);
    } else {
      flights_.read(next);
      ids.push_back(task.id);
      tasks.emplace(task.id, next.claim->task);
      batch.push_back(&next);
    }
  }
  RUNG_REQUIRE(unread_.size() == flights_.count(Flight::Stage::unread));
  if (ids.empty()) return;
  ++jobs_;
  sidecar_.jobs.submit<Messages>(
      Lane::flow,
      [ids = std::move(ids), tasks = std::move(tasks)](Store& store) {
        auto messages = read_messages(store, ids);
        for (StoredMessage& stored : messages) prove(stored, *tasks.at(stored.id));
        return messages;
      },
      [this, batch = std::move(batch)](const Result<Messages>& messages) {
        --jobs_;
        if (messages) {
          publish(batch, *messages);
        } else {
          log::error("reading message bodies failed",
                     {{"tasks", batch.size()}, {"reason", messages.error().message}});
          for (Flight* flight : batch) flights_.release(*flight);
        }
        sidecar_.outbox.flush();
        pump();
      });
}

void Dispatch::write_short_claims() {
  const BootMs now = sidecar_.loop.clock().boot();
  for (; !short_.empty() && now - short_.front().at >= kShortFor; short_.pop_front()) {
    std::vector<TaskId> open;
    for (const TaskId id : short_.front().ids) {
      if (flights_.publishing(id)) open.push_back(id);
    }
    if (open.empty()) continue;
    sidecar_.jobs.submit<void>(
        Lane::flow, [open](Store& store) { store.write_claims(open); },
        [tasks = open.size()](const Result<void>& written) {
          if (!written)
            log::error("writing claims failed", {{"tasks", tasks}, {"reason", written.error().message}});
        });
  }
}

void Dispatch::release_unfetched() {
  for (; !unread_.empty(); unread_.pop_front()) flights_.release(*unread_.front());
}

// `messages`: of these tasks, in any order; a missing one cannot be read. Flush the outbox afterwards.
void Dispatch::publish(const std::vector<Flight*>& flights, const Messages& messages) {
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

EpochMs Dispatch::due_by() const { return sidecar_.clock.now() + Ms{planted(Bug::one_ms_early) ? 1 : 0}; }

void Dispatch::hold(Flight& flight, MessagePtr message) {
  flights_.hold(flight, std::move(message));
  const auto place = held_.emplace(flight.claim->task->next_at.value(), &flight);
  if (place == held_.begin()) held_timer_.start(place->first - due_by());
}

// Also during a drain: claimed tasks are completed.
void Dispatch::send_due() {
  const EpochMs now = due_by();
  while (!held_.empty() && held_.begin()->first <= now) {
    Flight& flight = *held_.extract(held_.begin()).mapped();
    const MessagePtr message = flight.claim->message;
    send(flight, *message);
  }
  RUNG_REQUIRE(held_.size() == flights_.count(Flight::Stage::held));
  if (!held_.empty()) held_timer_.start(held_.begin()->first - now);
  sidecar_.outbox.flush();
}

// A retry goes only to its queue: other queues bound to the original exchange must not get copies (trap 5).
// It keeps its original routing key, if any. A delay that has not failed yet goes to its original target.
Outgoing Dispatch::outgoing_for(const Flight& flight, const Message& message) const {
  const Task& task = *flight.claim->task;
  const Target target = target_of(task);
  Outgoing outgoing{0, target.exchange, target.queue.empty() ? target.routing_key : target.queue,
                    dress(message, task, sidecar_.proof.token(task)), flight.lane};
  if (target.queue.empty() || !keeps_routing_key(task, sidecar_.settings.prefix)) return outgoing;
  outgoing.queue = target.queue;
  outgoing.exchange.clear();
  outgoing.routing_key = task.routing_key;
  return outgoing;
}

void Dispatch::send(Flight& flight, const Message& message) {
  const Task& task = *flight.claim->task;
  if (!is_covered(sidecar_.shards, task)) return flights_.release(flight);
  // The config may have named it after the task was made.
  if (const std::string why = error_queue_target(target_of(task), sidecar_.rules->targets()); !why.empty())
    return reject(flight, why);
  flights_.send(flight, sidecar_.loop.clock().boot());
  Outgoing outgoing = outgoing_for(flight, message);
  if (sidecar_.settings.tracer != nullptr)
    sidecar_.settings.tracer->sent(task, outgoing, sidecar_.clock.now());
  sidecar_.outbox.send(std::move(outgoing), [this, &flight](const PublishResult& result) {
    flights_.answered(flight, result.how, sidecar_.loop.clock().boot());
    conclude(flight, result);
  });
}

// An earlier attempt may succeed while the next copy is held. The task cannot end otherwise then.
void Dispatch::changed(const Task& task) {
  if (held_.empty() || !is_finished(task.state)) return;
  const Flight* flight = flights_.find(task.id);
  if (flight == nullptr || flight->stage != Flight::Stage::held) return;
  const auto held = std::ranges::find(held_, flight, [](const auto& entry) { return entry.second; });
  RUNG_REQUIRE(held != held_.end());
  held_.erase(held);
  flights_.release(*flight);
}

// Not by the broker: no answer of its queue.
void Dispatch::reject(Flight& flight, const std::string& why) {
  flights_.unsendable(flight);
  conclude(flight, {0, How::rejected, why});
}

void Dispatch::conclude(Flight& flight, const PublishResult& result) {
  const Claim& claim = *flight.claim;
  const Task& task = *claim.task;
  const EpochMs now = sidecar_.clock.now();
  const Ms late = now - task.next_at.value_or(now);
  sidecar_.counts.published(task, result.how, late, claim.behind_gates);
  if (sidecar_.settings.tracer != nullptr) sidecar_.settings.tracer->answered(task, result, now);
  switch (result.how) {
    case How::confirmed:
      sidecar_.gates.published(task);
      if (!result.reason.empty() && queues_told_.is_news(task.queue))
        log::warn("retries to a queue lose their routing key: binding refused",
                  {{"queue", task.queue}, {"reason", result.reason}});
      return record({task.id, event::Confirmed{task.attempt, now, task.epoch}, {}, claim.task});
    case How::returned:
      if (const Target target = target_of(task);
          !target.exchange.empty() && exchanges_told_.is_news(target.exchange))
        log::warn("exchange refuses messages: their attempts fail",
                  {{"exchange", target.exchange}, {"reason", result.reason}});
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
      return again(flight, result.how);
  }
}

// Lost or fenced: the message may be in the queue, or was not sent. Repeats the same attempt if the task is
// still ours. If the fence is closed, only the next renewal opens it.
void Dispatch::again(const Flight& flight, How how) {
  const std::shared_ptr<const Task> task = flight.claim->task;
  if (how == How::fenced) shut();
  flights_.end(task->id);
  if (sidecar_.shards.held(task->shard))
    due_again({sidecar_.names.item(*task, task->next_at.value_or(sidecar_.clock.now()))});
}

// The shard stays in use until the row records it: if it were given back earlier, its new owner would find
// the row in `publishing` and publish the task again.
void Dispatch::record(Event event) {
  const TaskId id = event.id;
  if (auto* failed = std::get_if<event::Failed>(&event.what)) failed->by_publisher = true;
  const auto recorded = [this, id](const Result<Decision>&) { flights_.end(id); };
  sidecar_.transitions.add(std::move(event), recorded, {}, Transitions::OnError::keep);
}

void PublishFence::leases_lost() {
  closed_ = true;
  timer_.start(kUnansweredMost, kUnansweredMost);
  sidecar_.health.set("fenced",
                      "its leases expired: publishing is stopped until they are renewed or acquired again",
                      Health::Effect::not_ready);
  allow_until({0});
}

bool PublishFence::extend(BootMs deadline) {
  if (deadline.ms == 0 || (closed_ && sidecar_.outbox.under_way() > 0)) {
    allow_until({0});
    return false;
  }
  closed_ = false;
  timer_.stop();
  sidecar_.health.clear("fenced");
  allow_until(deadline);
  return true;
}

void PublishFence::allow_until(BootMs deadline) {
  constexpr BootMs kNever{std::numeric_limits<std::int64_t>::max()};
  sidecar_.broker.allow_publish_until(planted(Bug::no_fence_on_publish) ? kNever : deadline);
}

// One silent queue would keep the fence closed for all: nothing else ends the publishes under way.
void PublishFence::give_up_unanswered() {
  if (sidecar_.outbox.under_way() == 0 || planted(Bug::b1)) return;
  log::warn("leases expired with unconfirmed publishes: dropping their connections",
            {{"under_way", sidecar_.outbox.under_way()}});
  for (const PublishLane lane : {PublishLane::main, PublishLane::probe})
    sidecar_.broker.drop_publishing(lane, "the leases expired with unanswered publishes");
}

}  // namespace rung::bridge
