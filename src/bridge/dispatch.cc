#include "src/bridge/dispatch.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "src/core/failpoint.h"
#include "src/core/headers.h"
#include "src/core/origin.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr std::size_t kMostInClaim = 500;
constexpr std::size_t kMostJobs = 2;
constexpr std::size_t kBytesInJob = 16UL * 1024 * 1024;     // bodies fetched at once, about
constexpr std::size_t kBytesUnderWay = 64UL * 1024 * 1024;  // bodies held for the broker
constexpr std::size_t kBesideBody = 512;                    // what a message takes beside its body, about
constexpr Ms kGather{25};                                   // well below kAhead
constexpr Ms kTurn{20};            // how often a rate is looked at while something waits for it
constexpr Ms kHeldUpMost{10'000};  // with a connection that answers nothing while others wait
constexpr Ms kHeldUpLongest{60'000};
constexpr Ms kProbePatience{2000};

using How = PublishResult::How;

std::size_t bytes_of(const Task& task) { return static_cast<std::size_t>(task.body_bytes) + kBesideBody; }

// One target has no more than three quarters, so that there is room for another.
std::size_t share_of(int most) { return static_cast<std::size_t>(most - most / 4); }

}  // namespace

Dispatch::Dispatch(Parts parts, int most_under_way, BrokerLimits limits)
    : parts_(std::move(parts)),
      most_under_way_(static_cast<std::size_t>(most_under_way)),
      targets_(share_of(most_under_way), limits.first_window,
               [this](std::uint32_t queue) { return catch_up(queue); }),
      route_log_(parts_.clock.here()),
      patience_(kHeldUpMost),
      gather_(parts_.loop, kGather, [this] { pump(); }),
      again_(parts_.loop, [this] { pump(); }),
      release_(parts_.loop, [this] { release(); }) {}

// The rate limits the queue across all instances, in proportion to the shards that each holds.
double Dispatch::catch_up(std::uint32_t queue) const {
  const double all = parts_.rules()->queue(parts_.names.name(queue)).catch_up;
  return all * parts_.shards.count() / kShards;
}

void Dispatch::due(const std::vector<io::DueItem>& items) {
  const EpochMs now = parts_.clock.now();
  for (const io::DueItem& item : items) {
    // What became due while all was well and is late by its own number only, is no backlog of an outage.
    const bool overdue = item.at < able_since_ && now - item.at > Targets::kOverdue;
    if (in_hand(item)) continue;
    in_hand_[item.id].queue = item.queue;  // it may wait in another room: what is there comes to nothing
    targets_.add(item, overdue);
  }
  if (std::ranges::any_of(items, [&](const auto& item) { return item.at - now < kAhead / 2; }))
    pressing_ = true;
  // Not at once: after a pause many slots fire in one turn, the oldest not always first, and all of them
  // belong into one claim.
  if (std::exchange(pump_posted_, true)) return;
  parts_.loop.post([this] {
    pump_posted_ = false;
    pump();
  });
}

bool Dispatch::in_hand(const io::DueItem& item) const {
  const auto hand = in_hand_.find(item.id);
  return hand != in_hand_.end() && (hand->second.claimed || hand->second.queue == item.queue);
}

void Dispatch::open(bool publishing) {
  if (publishing && !open_) {
    able_since_ = parts_.clock.now();
    targets_.sort_out(able_since_);
    // What an alarm or an outage took is nobody's silence.
    parts_.outbox.begin_silence();
    targets_.begin_silence(parts_.clock.here().boot());
  }
  open_ = publishing;
  pump();
}

void Dispatch::shards_gained() {
  able_since_ = parts_.clock.now();
  pump();
}

void Dispatch::drain() {
  draining_ = true;
  again_.stop();
  targets_.clear([this](TaskId id) { put_down(id); });
  let_go_unfetched();
}

void Dispatch::let_go_unfetched() {
  for (; !unfetched_.empty(); unfetched_.pop_front()) let_go(unfetched_.front());
}

std::size_t Dispatch::room() const {
  const std::size_t used = flights_ + claiming_rows_;
  return used >= most_under_way_ ? 0 : most_under_way_ - used;
}

void Dispatch::pump() {
  again_.stop();
  if (!open_ || draining_ || !parts_.shards.any()) return;
  while (jobs_ < kMostJobs && flight_bytes_ < kBytesUnderWay && !unfetched_.empty()) fetch();
  while (jobs_ < kMostJobs && flight_bytes_ < kBytesUnderWay && unfetched_.empty() && !targets_.empty()) {
    const std::size_t before = jobs_;
    probe();
    claim_next();
    if (jobs_ == before) break;
  }
  // Room, but nobody may go: a rate, or a pause. Asked again soon.
  if (!targets_.empty() && jobs_ == 0 && room() > 0) again_.start(kTurn);
}

void Dispatch::tick() {
  const BootMs now = parts_.clock.here().boot();
  const Ms silent = now - parts_.outbox.heard_at();
  targets_.tidy(now);
  // A connection on which nothing is answered while several queues want something: the broker may keep all of
  // it waiting for one queue that doesn't answer. Which one it is, the probes find out.
  const bool held_up =
      open_ && parts_.outbox.under_way() > 0 && silent > patience_ && !targets_.probing_since();
  // A copy for <prefix>.parked is none of the targets', and waits as they do.
  const std::size_t silent_targets = held_up ? targets_.silent(now, patience_) : 0;
  const bool copies_wait = parts_.outbox.under_way() > targets_.unanswered();
  if (silent_targets > 1 || (silent_targets == 1 && copies_wait)) {
    log::warn(
        "the broker answers no publish, of several queues: another connection, and each of them is asked "
        "alone",
        {{"silent_ms", silent.count()}, {"under_way", parts_.outbox.under_way()}});
    targets_.quarantine(now, patience_);
    patience_ = std::min(patience_ * 2, kHeldUpLongest);
    parts_.drop_publisher(PublishLane::main, "no answer to any publish for too long");
  }
  if (const auto since = targets_.probing_since(); since && now - *since > kProbePatience) {
    parts_.drop_publisher(PublishLane::probe, "the queue that was asked does not answer");
  }
  pump();
}

std::vector<io::DueItem> Dispatch::only_held(std::vector<io::DueItem> batch) {
  std::erase_if(batch, [this](const io::DueItem& item) {
    const auto hand = in_hand_.find(item.id);
    if (hand == in_hand_.end() || hand->second.claimed || hand->second.queue != item.queue) {
      targets_.end(item.queue);  // sent elsewhere while it waited here
      return true;
    }
    hand->second.claimed = true;
    if (parts_.shards.held(item.shard)) return false;
    targets_.end(item.queue);
    put_down(item.id);  // another instance's by now: its heap or its sweep has it
    return true;
  });
  return batch;
}

// One that another instance has by now asks nothing: the next has the turn.
void Dispatch::probe() {
  const std::size_t before = jobs_;
  while (jobs_ == before) {
    const auto item = targets_.take_probe(parts_.clock.here().boot());
    if (!item) return;
    claim({*item}, PublishLane::probe);
  }
}

void Dispatch::claim_next() {
  const auto by_bytes =
      static_cast<std::size_t>(std::clamp(static_cast<double>(kBytesInJob) / mean_body_, 1.0, 500.0));
  const std::size_t most = std::min({room(), kMostInClaim, by_bytes});
  // A claim for a handful while most of the window is taken would make many small transactions. Where the
  // whole window is small, so is a claim.
  const std::size_t worth_it = std::min(kMostInClaim, most_under_way_) / 4;
  if (most == 0 || (most < worth_it && most < targets_.waiting() && most < by_bytes)) return;
  if (!pressing_ && targets_.waiting() < kMostInClaim / 2 && gather_.hold()) return;
  claim(targets_.take(most, parts_.clock.here().boot()), PublishLane::main);
  gather_.end();
  pressing_ = !targets_.empty();  // what is left has waited
}

void Dispatch::claim(std::vector<io::DueItem> items, PublishLane lane) {
  const std::vector<io::DueItem> batch = only_held(std::move(items));
  if (batch.empty()) return;
  ++jobs_;
  claiming_rows_ += batch.size();
  for (const io::DueItem& item : batch) ++under_way_in_[static_cast<std::size_t>(item.shard)];
  const auto work = [batch, fence = parts_.shards.fence(),
                     decide = decider(parts_.rules())](TaskStore& store) -> Result<Claimed> {
    std::vector<Event> events;
    events.reserve(batch.size());
    for (const io::DueItem& item : batch) events.push_back({item.id, event::Claim{kAhead}});
    auto decisions = store.apply(events, fence, decide);
    if (!decisions) return tl::unexpected(decisions.error());
    std::vector<TaskId> ours;
    std::size_t bytes = 0;  // those beyond are fetched when there is room
    for (const Decision& decision : *decisions) {
      if (decision.verdict != Decision::Verdict::applied) continue;
      bytes += bytes_of(decision.task);
      if (!ours.empty() && bytes > kBytesInJob) break;
      ours.push_back(decision.task.id);
    }
    auto messages = store.messages(ours);
    if (!messages) return tl::unexpected(messages.error());
    return Claimed{std::move(*decisions), std::move(*messages)};
  };
  parts_.jobs.submit<Claimed>(Lane::flow, work, [this, lane, batch](Result<Claimed> result) {
    --jobs_;
    claiming_rows_ -= batch.size();
    for (const io::DueItem& item : batch) --under_way_in_[static_cast<std::size_t>(item.shard)];
    claimed(batch, lane, std::move(result));
    parts_.outbox.flush();
    pump();
  });
}

void Dispatch::claimed(const std::vector<io::DueItem>& batch, PublishLane lane, Result<Claimed> result) {
  if (!result) {
    log::error("a claim failed", {{"tasks", batch.size()}, {"reason", result.error().message}});
    for (const io::DueItem& item : batch) {  // the sweep brings them again
      targets_.end(item.queue);
      put_down(item.id);
    }
    return;
  }
  std::vector<Flight> flights;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    Decision& decision = result->decisions[i];
    if (decision.verdict == Decision::Verdict::applied) {
      const std::size_t bytes = bytes_of(decision.task);
      auto task = std::make_shared<const Task>(std::move(decision.task));
      flights.push_back({std::move(task), batch[i].queue, bytes, lane, decision.claimed_again});
      begin(flights.back());
      continue;
    }
    targets_.end(batch[i].queue);
    put_down(batch[i].id);
    // Not due after all by the database's clock: it knows the time better than our reading of it.
    const Task& task = decision.task;
    if (task.state == State::scheduled && task.next_at)
      parts_.reschedule(parts_.names.item(task, *task.next_at));
  }
  // In their order: the first so many have their messages here.
  const auto here = static_cast<std::ptrdiff_t>(std::min(result->messages.size(), flights.size()));
  publish_all({flights.begin(), flights.begin() + here}, result->messages);
  unfetched_.insert(unfetched_.end(), flights.begin() + here, flights.end());
  if (draining_ && !planted(Bug::b2)) let_go_unfetched();  // no fetch follows during a drain
}

void Dispatch::fetch() {
  auto batch = std::make_shared<std::vector<Flight>>();
  std::vector<TaskId> ids;
  std::size_t bytes = 0;
  while (!unfetched_.empty() && ids.size() < kMostInClaim) {
    Flight& next = unfetched_.front();
    bytes += next.bytes;
    if (!ids.empty() && bytes > kBytesInJob) break;
    if (!parts_.shards.held(next.task->shard) || !covered(next)) {
      let_go(next);
    } else {
      ids.push_back(next.task->id);
      batch->push_back(std::move(next));
    }
    unfetched_.pop_front();
  }
  if (ids.empty()) return;
  ++jobs_;
  parts_.jobs.submit<Messages>(
      Lane::flow, [ids = std::move(ids)](TaskStore& store) { return store.messages(ids); },
      [this, batch](const Result<Messages>& messages) {
        --jobs_;
        fetched(*batch, messages);
        parts_.outbox.flush();
        pump();
      });
}

void Dispatch::fetched(const std::vector<Flight>& batch, const Result<Messages>& messages) {
  if (messages) return publish_all(batch, *messages);
  log::error("bodies could not be read", {{"tasks", batch.size()}, {"reason", messages.error().message}});
  for (const Flight& flight : batch) let_go(flight);
}

void Dispatch::publish_all(const std::vector<Flight>& flights, const Messages& messages) {
  std::unordered_map<TaskId, const StoredMessage*> by_id;
  for (const StoredMessage& stored : messages) by_id.emplace(stored.id, &stored);
  for (const Flight& flight : flights) {
    flight_bytes_ += flight.bytes;
    const auto stored = by_id.find(flight.task->id);
    const MessagePtr message = stored != by_id.end() ? stored->second->message : nullptr;
    if (message == nullptr) {
      const std::string why = stored == by_id.end()
                                  ? "its body is not in the database"
                                  : "its row in rung_bodies cannot be read: " + stored->second->broken;
      log::error("a message cannot be read", {{"id", flight.task->id.value}, {"reason", why}});
      published(flight, {0, How::rejected, why});
      continue;
    }
    mean_body_ = mean_body_ * 0.98 + 0.02 * static_cast<double>(flight.bytes);
    if (flight.task->next_at > due_by_now()) {
      hold_back(flight, message);
    } else {
      publish(flight, *message);
    }
  }
}

EpochMs Dispatch::due_by_now() const { return parts_.clock.now() + Ms{planted(Bug::one_ms_early) ? 1 : 0}; }

void Dispatch::hold_back(Flight flight, MessagePtr message) {
  const EpochMs at = flight.task->next_at.value_or(EpochMs{});
  const auto place = early_.emplace(at, Early{std::move(flight), std::move(message)});
  if (place == early_.begin()) release_.start(at - due_by_now());
}

// Also while it drains: what is under way ends.
void Dispatch::release() {
  const EpochMs now = due_by_now();
  while (!early_.empty() && early_.begin()->first <= now) {
    const auto first = early_.extract(early_.begin());
    publish(first.mapped().flight, *first.mapped().message);
  }
  if (!early_.empty()) release_.start(early_.begin()->first - now);
  parts_.outbox.flush();
}

// A retry goes to its queue alone: others that the original exchange leads to must not get copies (trap 5).
// With its original routing key, where it has one. A delay that has not failed yet goes where it was to go.
Outgoing Dispatch::outgoing_for(const Flight& flight, const Message& message) const {
  const Task& task = *flight.task;
  const Target target = target_of(task);
  Outgoing outgoing{0, target.exchange, target.queue.empty() ? target.routing_key : target.queue,
                    dress(message, task, parts_.proof.token(task)), flight.lane};
  if (target.queue.empty() || !keeps_routing_key(task, parts_.prefix)) return outgoing;
  outgoing.queue = target.queue;
  outgoing.exchange.clear();
  outgoing.routing_key = task.routing_key;
  return outgoing;
}

// Claimed under the lease that we have now? One that was lost since, and perhaps taken again, no longer
// covers the claim: others may have gone on with the task.
bool Dispatch::covered(const Flight& flight) const {
  return parts_.shards.epoch(flight.task->shard) == flight.task->epoch;
}

// `forgotten` finds the row, here or with the shard's new owner.
void Dispatch::let_go(const Flight& flight) {
  end(flight);
  put_down(flight.task->id, flight.task->shard);
}

void Dispatch::publish(Flight flight, const Message& message) {
  if (!covered(flight)) {
    flight_bytes_ -= flight.bytes;
    return let_go(flight);
  }
  targets_.sent(flight.queue, parts_.clock.here().boot());
  Outgoing outgoing = outgoing_for(flight, message);
  parts_.outbox.send(std::move(outgoing), [this, flight = std::move(flight)](const PublishResult& result) {
    published(flight, result);
  });
}

void Dispatch::begin(const Flight& flight) {
  ++flights_;
  ++under_way_in_[static_cast<std::size_t>(flight.task->shard)];
}

void Dispatch::end(const Flight& flight) {
  --flights_;
  targets_.end(flight.queue);
}

void Dispatch::put_down(TaskId id) {
  in_hand_.erase(id);
  parts_.transitions.published(id);
}

void Dispatch::put_down(TaskId id, int shard) {
  --under_way_in_[static_cast<std::size_t>(shard)];
  put_down(id);
}

// A success of an earlier attempt may come while the next copy is held back. No other end is possible then.
void Dispatch::changed(const Task& task) {
  if (early_.empty() || !is_finished(task.state) || !publishing(task.id)) return;
  const auto held =
      std::ranges::find_if(early_, [&](const auto& e) { return e.second.flight.task->id == task.id; });
  if (held == early_.end()) return;
  const Flight flight = early_.extract(held).mapped().flight;
  flight_bytes_ -= flight.bytes;
  end(flight);
  put_down(task.id, flight.task->shard);
}

void Dispatch::published(const Flight& flight, const PublishResult& result) {
  const Task& task = *flight.task;
  targets_.answered(flight.queue, result.how, parts_.clock.here().boot());
  flight_bytes_ -= flight.bytes;
  end(flight);
  if (result.how == How::confirmed) patience_ = kHeldUpMost;
  const EpochMs now = parts_.clock.now();
  switch (result.how) {
    case How::confirmed:
      if (task.next_at) lateness_.add(now - *task.next_at);
      if (!result.reason.empty()) route_log_.routing_key_lost(task.queue, result.reason);
      return settle(task.shard, {task.id, event::Confirmed{task.attempt, now}, {}, flight.task});
    case How::returned:
      if (const Target target = target_of(task); !target.exchange.empty())
        route_log_.exchange_refused(target.exchange, result.reason);
      return settle(task.shard, {task.id, event::Returned{task.attempt, now, result.reason}});
    case How::nacked:
      return settle(task.shard, {task.id, event::Deferred{task.attempt, Targets::kRefusedPause, result.reason,
                                                          flight.copy_may_be_out}});
    case How::rejected: {
      Directives never;
      never.never = true;
      return settle(task.shard, {task.id, event::Failed{task.attempt, "cannot be published: " + result.reason,
                                                        "unsendable", never}});
    }
    case How::lost:
    case How::fenced:
      // Nobody knows whether it is in the queue, or it was held back: the same attempt again, if it is still
      // ours. Behind a closed fence only the next renewal helps: it opens again.
      if (result.how == How::fenced) open_ = false;
      put_down(task.id, task.shard);
      if (!draining_ && parts_.shards.held(task.shard))
        due({parts_.names.item(task, task.next_at.value_or(now))});
      return;
  }
}

// The shard stays in use until the row says it: given back before, its new owner would find the row in
// `publishing` and publish it once more.
void Dispatch::settle(int shard, Event event) {
  const TaskId id = event.id;
  if (auto* failed = std::get_if<event::Failed>(&event.what)) failed->by_publisher = true;
  // A confirm moves nothing that anybody waits for; where the consumer was quicker, its word was dealt with
  // already.
  const bool moves = !std::holds_alternative<event::Confirmed>(event.what);
  const auto recorded = [this, id, shard, moves](const Result<Decision>& decision) {
    put_down(id, shard);
    if (decision && moves) parts_.settled(*decision);
  };
  parts_.transitions.add(std::move(event), recorded, 0, Transitions::OnError::keep);
}

}  // namespace rung::bridge
