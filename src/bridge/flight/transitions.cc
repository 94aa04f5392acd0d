#include "src/bridge/flight/transitions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <variant>

#include "src/bridge/base/flow_counts.h"
#include "src/bridge/base/outbox.h"
#include "src/bridge/base/queue_names.h"
#include "src/bridge/flight/dispatch.h"
#include "src/bridge/flight/due.h"
#include "src/bridge/flight/gates.h"
#include "src/bridge/leases/shards.h"
#include "src/bridge/watch/attachments.h"
#include "src/bridge/watch/store_watch.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr Ms kConfirmWaits{60};

// Retries for a task that another instance publishes: the first pause, which then grows.
constexpr Ms kAskAgain{25}, kAskAgainLongest{1000};
// The row may have been read where the last commits are missing: read again after each of these, 5 s in all.
constexpr std::array<Ms, 6> kLookPauses{Ms{100}, Ms{200}, Ms{400}, Ms{800}, Ms{1500}, Ms{2000}};
// After this, a person gets the answer that the task is being published.
constexpr Ms kPersonWaits{2000};

// A consumer's report on a delivery of ours.
bool is_proven(const Happening& what) {
  const auto* failed = std::get_if<event::Failed>(&what);
  const auto* succeeded = std::get_if<event::Succeeded>(&what);
  return (failed != nullptr && failed->proven) || (succeeded != nullptr && succeeded->proven);
}

bool is_pressing(const Event& event) { return !std::holds_alternative<event::Confirmed>(event.what); }

// Nothing in memory follows from the others: if a consumer was faster than the confirm, its report was
// handled already.
bool is_news(const Event& event) {
  return is_pressing(event) && !std::holds_alternative<event::ParkedCopySent>(event.what);
}

void tell_parked(const Task& task, bool on_arrival) {
  if (task.state != State::parked) return;
  log::warn(on_arrival ? "parked on arrival" : "parked", {{"id", task.id.value},
                                                          {"queue", task.queue},
                                                          {"message_id", task.message_id},
                                                          {"attempt", task.attempt},
                                                          {"rule", task.rule},
                                                          {"error", task.last_error}});
}

// `call` (span) -> vector; `failed` (item, Error) -> the result of a single item that failed for good.
template <typename Out, typename In, typename Call, typename Failed>
std::vector<Out> split_on_error(std::span<const In> items, const Call& call, const Failed& failed) {
  auto done = result_of([&] { return call(items); });
  if (done || done.error().kind != Error::Kind::permanent || items.empty()) return or_throw(std::move(done));
  if (items.size() == 1) return {failed(items.front(), std::move(done.error()))};
  const std::size_t half = items.size() / 2;
  auto first = split_on_error<Out>(items.first(half), call, failed);
  auto second = split_on_error<Out>(items.subspan(half), call, failed);
  std::ranges::move(second, std::back_inserter(first));
  return first;
}

Claimed claim_and_read(Store& store, std::span<const Event> claims, const Fence& fence, const Decider& decide,
                       std::size_t most_bytes) {
  auto claimed = result_of([&] { return store.claim(claims, fence, decide, most_bytes); });
  if (claimed || claimed.error().kind != Error::Kind::permanent) return or_throw(std::move(claimed));
  auto decisions = split_on_error<Decision>(
      claims, [&](std::span<const Event> some) { return store.apply(some, fence, decide); },
      [](const Event& claim, Error why) {
        log::error("claim failed",
                   {{"tasks", 1}, {"reason", "task " + std::to_string(claim.id.value) + ": " + why.message}});
        return Decision{Decision::Verdict::refused, std::move(why.message), {}, {}};
      });
  auto messages = read_messages(store, first_claimed(decisions, most_bytes));
  return {std::move(decisions), std::move(messages)};
}

}  // namespace

LeftUnacked::LeftUnacked(io::Loop& loop, Health& health)
    : health_(health), timer_(loop, [this] { turn(); }) {}

void LeftUnacked::add(const IntakeSession& session, const std::string& reason, std::function<void()> again) {
  if (draining_) return;
  waiting_.push_back({session, std::move(again)});
  health_.set("unrecorded", std::to_string(waiting_.size()) +
                                " deliveries or results could not be recorded; retrying every " +
                                std::to_string(kEvery.count() / 1000) + " s: " + reason);
  if (!timer_.active()) timer_.start(kEvery, kEvery);
}

void LeftUnacked::forget_before(const IntakeSession& session) {
  std::erase_if(waiting_, [&](const Item& item) { return item.session.before(session); });
}

void LeftUnacked::drain() {
  draining_ = true;
  timer_.stop();
  waiting_.clear();
}

void LeftUnacked::turn() {
  // No retry failed since the last turn: the problem is over.
  if (waiting_.empty()) {
    timer_.stop();
    return health_.clear("unrecorded");
  }
  for (std::size_t left = std::min(waiting_.size(), kMostAtOnce); left > 0; --left) {
    const Item item = std::move(waiting_.front());
    waiting_.pop_front();
    item.again();
  }
}

Transitions::Transitions(const Sidecar& sidecar)
    : sidecar_(sidecar),
      again_(sidecar.loop, [this] { ask_those_due(); }),
      linger_(sidecar.loop, kConfirmWaits, [this] { flush(); }) {}

void Transitions::add(Event event, Done done, const IntakeSession& session, OnError on_error) {
  put({std::move(event), std::move(done), session, on_error});
}

void Transitions::push(Item item) {
  pressing_ += is_pressing(item.event) ? 1 : 0;
  waiting_.push_back(std::move(item));
  linger_.hold();  // sends the batch after a short delay if no caller flushes it
}

void Transitions::put(Item item) {
  // The consumer was faster than the confirm. Manual events ask the database at once.
  const auto* failed = std::get_if<event::Failed>(&item.event.what);
  if (failed != nullptr && !failed->by_publisher && sidecar_.dispatch.flights().publishing(item.event.id)) {
    held_[item.event.id].push_back(std::move(item));
    return;
  }
  push(std::move(item));
}

void Transitions::published(TaskId id) {
  const auto held = held_.extract(id);
  if (held.empty()) return;
  for (Item& item : held.mapped()) put(std::move(item));
  sidecar_.loop.post([this] { flush(); });  // with the other events of this turn
}

// False if it has waited long enough, or has nothing to wait for.
bool Transitions::ask_again(Item& item, const Decision& decision) {
  if (decision.verdict != Decision::Verdict::refused || decision.reason != kBeingPublished) return false;
  const bool by_hand = item.event.by_hand.has_value();
  const BootMs now = sidecar_.loop.clock().boot();
  if (item.since.ms == 0) item.since = now;
  if (by_hand && now - item.since >= kPersonWaits) return false;
  const Ms waited = now - item.since;
  put_off(std::move(item), std::clamp(waited / 2, kAskAgain, kAskAgainLongest));
  return true;
}

// False if the row is not missing, or still is after all the pauses.
bool Transitions::look_again(Item& item, const Decision& decision) {
  const bool missing = decision.verdict == Decision::Verdict::refused && decision.reason == kNoSuchTask;
  if (!missing || !is_proven(item.event.what) || item.looked == kLookPauses.size()) return false;
  const Ms pause = kLookPauses[item.looked++];
  put_off(std::move(item), pause);
  return true;
}

void Transitions::put_off(Item item, Ms pause) {
  const auto place = later_.emplace(sidecar_.loop.clock().boot() + pause, std::move(item));
  if (place == later_.begin()) again_.start(pause);
}

void Transitions::ask_those_due() {
  const BootMs now = sidecar_.loop.clock().boot();
  while (!later_.empty() && later_.begin()->first <= now)
    put(std::move(later_.extract(later_.begin()).mapped()));
  if (!later_.empty()) again_.start(later_.begin()->first - now);
  flush();
}

bool Transitions::idle() const {
  const auto counts = [](const Item& item) { return item.session == IntakeSession{}; };
  return waiting_.empty() && in_flight_ == 0 &&
         std::ranges::none_of(later_, [&](const auto& later) { return counts(later.second); }) &&
         std::ranges::none_of(held_,
                              [&](const auto& held) { return std::ranges::any_of(held.second, counts); });
}

void Transitions::forget_before(const IntakeSession& session) {
  const auto gone = [&](const Item& item) { return item.session.before(session); };
  std::erase_if(waiting_, [&](const Item& item) {
    pressing_ -= gone(item) && is_pressing(item.event) ? 1 : 0;
    return gone(item);
  });
  std::erase_if(later_, [&](const auto& later) { return gone(later.second); });
  for (auto& [id, items] : held_) std::erase_if(items, gone);
  std::erase_if(held_, [](const auto& held) { return held.second.empty(); });
}

// Sends a second batch beside the one under way only if it is worth a transaction.
bool Transitions::should_flush() {
  if (waiting_.size() >= kMostInBatch / 2 || waiting_.front().alone) return true;
  return in_flight_ == 0 && (pressing_ > 0 || !linger_.hold());
}

void Transitions::flush() {
  while (!waiting_.empty() && in_flight_ < kMostInFlight && should_flush()) {
    std::vector<Item> batch;
    while (!waiting_.empty() && batch.size() < kMostInBatch) {
      if (waiting_.front().alone && !batch.empty()) break;
      pressing_ -= is_pressing(waiting_.front().event) ? 1 : 0;
      batch.push_back(std::move(waiting_.front()));
      waiting_.pop_front();
      if (batch.back().alone) break;
    }
    linger_.end();
    leave(std::move(batch));
  }
}

void Transitions::leave(std::vector<Item> batch) {
  ++in_flight_;
  auto shared = std::make_shared<std::vector<Item>>(std::move(batch));
  sidecar_.jobs.submit<std::vector<Decision>>(
      Lane::flow,
      [shared, fence = sidecar_.shards.fence(), decide = decider(sidecar_.rules)](Store& store) {
        std::vector<Event> events;
        events.reserve(shared->size());
        for (const Item& item : *shared) events.push_back(item.event);
        return store.apply(events, fence, decide);
      },
      [this, shared](Result<std::vector<Decision>> result) {
        --in_flight_;
        arrived(*shared, std::move(result));
        sidecar_.acks.flush();
        flush();
      });
}

void Transitions::arrived(std::vector<Item>& batch, Result<std::vector<Decision>> result) {
  if (result) {
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const Decision& decision = (*result)[i];
      if (ask_again(batch[i], decision) || look_again(batch[i], decision)) continue;
      if (decision.reason == kUnknownState && batch[i].on_error == OnError::keep) {
        keep(std::move(batch[i]), decision.reason);
        continue;
      }
      batch[i].done(decision);
      if (is_news(batch[i].event)) decided(decision);
    }
    return;
  }
  if (!result.error().is_transient() && batch.size() > 1) {
    for (Item& item : batch) {
      item.alone = true;
      push(std::move(item));
    }
    return;
  }
  const Result<Decision> failed = tl::unexpected<Error>(result.error());
  for (Item& item : batch) {
    const bool keeps = item.on_error == OnError::keep && !failed.error().is_transient();
    if (keeps) {
      keep(std::move(item), failed.error().message);
    } else {
      item.done(failed);
    }
  }
}

void Transitions::keep(Item item, const std::string& reason) {
  if (!std::exchange(item.told, true))
    log::error("recording a task's change failed: retrying",
               {{"id", item.event.id.value}, {"reason", reason}});
  const IntakeSession session = item.session;
  sidecar_.left.add(session, reason, [this, item = std::move(item)] { push(item); });
}

void Transitions::inserted(const NewTask& fresh) {
  const Task& task = fresh.task;
  if (task.kind == Kind::retry) sidecar_.attachments.failed(task);
  sidecar_.counts.inserted(task);
  schedule(task);
  if (fresh.holds_queue)  // a rule may have moved it
    sidecar_.gates.hold_queue(task.moved_from.empty() ? task.queue : task.moved_from, *fresh.holds_queue,
                              task.id);
  if (task.rule.empty() || !body_stored(task)) tell_parked(task, true);  // else it is intended
  if (sidecar_.settings.tracer != nullptr) sidecar_.settings.tracer->received(fresh, sidecar_.clock.now());
}

void Transitions::decided(const Decision& decision) {
  if (decision.verdict != Decision::Verdict::applied) return;
  if (sidecar_.settings.tracer != nullptr) sidecar_.settings.tracer->decided(decision);
  const Task& task = decision.task;
  if (!decision.reason.empty()) sidecar_.store_watch.behind(task.id, decision.reason);
  sidecar_.counts.decided(decision);
  sidecar_.dispatch.changed(task);
  schedule(task);
  if (decision.child != nullptr) schedule(decision.child->task);
  sidecar_.gates.decided(decision);
  tell_parked(task, false);
}

void Transitions::schedule(const Task& task) {
  if (waits_for_claim(task)) sidecar_.horizon.schedule(sidecar_.names.item(task, *task.next_at));
}

// --- many rows, of which one may fail for good

std::vector<StoredMessage> read_messages(Store& store, std::span<const TaskId> ids) {
  return split_on_error<StoredMessage>(
      ids, [&](std::span<const TaskId> some) { return store.messages(some); },
      [](TaskId id, Error why) {
        return StoredMessage{id, nullptr, std::move(why.message)};
      });
}

void prove(StoredMessage& stored, const Task& task) {
  if (stored.message == nullptr || task.digest.empty()) return;
  // Headers may have been changed by hand, within their column.
  if (has_body_of(*stored.message, task.digest)) return;
  stored.broken = fmt::format("its body of {} bytes is not that of the message, which had {}",
                              stored.message->body.size(), task.body_bytes);
  stored.message = nullptr;
}

Claimed claim_tasks(Store& store, std::span<const Event> claims, const Fence& fence, const Decider& decide,
                    std::size_t most_bytes) {
  Claimed claimed = claim_and_read(store, claims, fence, decide, most_bytes);
  std::unordered_map<TaskId, const Task*> tasks;
  for (const Decision& decision : claimed.decisions) tasks.emplace(decision.task.id, &decision.task);
  for (StoredMessage& stored : claimed.messages) prove(stored, *tasks.at(stored.id));
  return claimed;
}

std::vector<Decision> apply_step(Store& store, std::span<const Event> events, const Fence& fence,
                                 const Decider& decide, BulkStep step) {
  const auto apply = [&](std::span<const Event> some, const Decider& decider) {
    auto done = store.apply(some, fence, decider, &step);
    step.from = some.back().id;
    return done;
  };
  return split_on_error<Decision>(
      events, [&](std::span<const Event> some) { return apply(some, decide); },
      [&](const Event& event, const Error& why) {
        log::warn("bulk step failed", {{"reason", "task " + event.id.str() + ": " + why.message}});
        // It counts as refused, and the next one follows.
        const auto refuse = [&](const Task& task, const Happening&, const Circumstances&) {
          return Decision{Decision::Verdict::refused, why.message, task, {}};
        };
        return apply({&event, 1}, refuse).front();
      });
}

}  // namespace rung::bridge
