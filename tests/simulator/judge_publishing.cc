// What the judge checks of messages on their way: written, arrived, returned, acked.
#include <algorithm>
#include <iterator>
#include <ranges>
#include <utility>

#include "tests/simulator/judge.h"
#include "tests/simulator/messages.h"

namespace rung::sim {

void Judge::written(const std::string& node, std::uint64_t connection, const Outgoing& outgoing) {
  const auto id = id_of(outgoing.message);
  const int number = number_of(outgoing.message);
  const int attempt = int_header(outgoing.message, header::kAttempt);
  world_.events.mix(outgoing.token);
  world_.note(number, [&] {
    return node + " writes attempt " + std::to_string(attempt) + " to connection " +
           std::to_string(connection);
  });
  const auto nodes = store_->nodes();
  const auto row = std::ranges::find(nodes, node, &NodeRow::name);
  if (row == nodes.end() || !holds_lease(row->id, std::nullopt))
    return broken("nobody publishes without a lease: " + node, number);
  if (!id || !facts_.contains(*id) || outgoing.exchange == "rung.parked") return;
  Facts& facts = facts_[*id];
  judge_takeover(facts, attempt, node);
  facts.writes[attempt].push_back({node, connection, world_.events.now()});
}

// A node that takes over from a dead one waits until that one's connection must be dead; otherwise the old
// copy may arrive later.
void Judge::judge_takeover(const Facts& facts, int attempt, const std::string& node) {
  const auto writes = facts.writes.find(attempt);
  if (writes == facts.writes.end() || facts.claims.size() < 2) return;
  const Facts::Claim& now = facts.claims[facts.claims.size() - 1];
  const Facts::Claim& before = facts.claims[facts.claims.size() - 2];
  if (now.attempt != attempt || before.attempt != attempt || now.node == before.node) return;
  if (now.epoch != before.epoch + 1) return;  // through a third: not promised
  const auto arrivals = facts.arrivals.find(attempt);
  for (const Facts::Write& write : writes->second) {
    const Link* link = server_->link(write.connection);
    const bool alive = link != nullptr && link->at_client && link->holds == 0 && link->limbo.empty();
    const bool came = arrivals != facts.arrivals.end() &&
                      std::ranges::any_of(arrivals->second, [&](const auto& a) { return a.at >= write.at; });
    if (write.node != node && alive && !came)
      return broken("a takeover waits until the former owner's connection is dead", facts.message);
  }
}

// After steps back: those since the claim, and what the claim allows until the clock is measured again.
Us Judge::tolerance(Us claimed_at) const {
  Us allowed = 0;
  for (const auto& [at, by] : steps_) {
    if (by >= 0 || world_.events.now() - at > kUntilMeasured) continue;
    allowed = std::max(allowed, kAhead + kMs);
    if (claimed_at <= at) allowed -= by;
  }
  return allowed;
}

void Judge::arrived(const std::string& queue, const Message& message, std::uint64_t by) {
  const auto id = id_of(message);
  const int attempt = int_header(message, header::kAttempt);
  world_.events.mix(static_cast<std::uint64_t>(attempt));
  world_.note(number_of(message), [&] {
    return "attempt " + std::to_string(attempt) + " is in " + queue + " (connection " + std::to_string(by) +
           ")";
  });
  if (!id || by == 0) return;
  const auto found = facts_.find(*id);
  if (found == facts_.end()) return broken("what is published has a row: " + id->str(), number_of(message));
  Facts& facts = found->second;
  if (message.body.str() != facts.body)
    return broken("what comes back is the message: " + message.body.str(), facts.message);
  if (queue == "rung.parked") {
    facts.copies.try_emplace(text_header(message, header::kToken));
    return;
  }
  judge_arrival(*id, facts, message, by);
  Facts::Arrival arrival{world_.events.now(), int_header(message, header::kLevel),
                         text_header(message, header::kLadder)};
  const Silence& silence = world_.rules->queue(queue).silence;
  if (silence.means == Silence::Means::failure)
    facts.cause(attempt + 1,
                next_due(arrival, reading() + silence.after.count() * kMs, is_probe(*id, attempt)));
  facts.arrivals[attempt].push_back(std::move(arrival));
}

// A process that starts again under its name does not wait for its former connection: not promised.
bool Judge::by_former_life(const Facts& facts, int attempt, std::uint64_t by) const {
  const auto writes = facts.writes.find(attempt);
  if (writes == facts.writes.end()) return false;
  const auto old = std::ranges::find(writes->second, by, &Facts::Write::connection);
  return old != writes->second.end() &&
         std::any_of(old, writes->second.end(), [&](const Facts::Write& later) {
           return later.connection != by && later.node == old->node;
         });
}

// A lease ran out while its publish had no answer, and a person said how that attempt ended: what the broker
// holds of it may come later. Not promised.
bool Judge::ended_by_hand(const Facts& facts, int attempt, std::uint64_t by) {
  const auto writes = facts.writes.find(attempt);
  return facts.failed_by_hand && writes != facts.writes.end() &&
         std::ranges::any_of(writes->second, [&](const Facts::Write& write) {
           return write.connection == by && write.at < *facts.cancelled_at;
         });
}

void Judge::judge_arrival(TaskId id, Facts& facts, const Message& message, std::uint64_t by) {
  const int number = number_of(message);
  const int attempt = int_header(message, header::kAttempt);
  if (facts.cancelled_at && !by_former_life(facts, attempt, by) && !ended_by_hand(facts, attempt, by))
    return broken(
        facts.replaced ? "what an edit has replaced is sent by nobody" : "a cancel that answered is kept",
        number);
  const auto cause = facts.may_be.find(attempt);
  if (cause == facts.may_be.end() && !facts.failed_by_hand)
    return broken("attempts are not multiplied: nothing ended attempt " + std::to_string(attempt - 1),
                  number);
  std::int64_t due = cause == facts.may_be.end() ? 0 : cause->second;
  for (const std::int64_t by_hand : facts.by_hand_us) due = std::min(due, by_hand);
  if (facts.failed_by_hand) due = 0;
  for (const AttemptRow& row : store_->history(id)) {
    if (row.attempt.attempt == attempt) due = std::max(due, row.attempt.due_at.ms * kMs);
  }
  const auto claim = std::ranges::find(facts.claims, attempt, &Facts::Claim::attempt);
  const Us allowed = tolerance(claim == facts.claims.end() ? world_.events.now() : claim->at);
  if (due == kNever) return broken("what is parked is published by nobody", number);
  if (world_.wall->us() + allowed < due)
    return broken("never early: by " + std::to_string(due - world_.wall->us()) + " us", number);
  const auto& arrivals = facts.arrivals[attempt];
  if (arrivals.empty()) return;
  const Us first = facts.writes[attempt].empty() ? arrivals.front().at : facts.writes[attempt].front().at;
  if (!world_.troubles.any_in(first - kSecond, world_.events.now()))
    return broken("no repeat without a fault: attempt " + std::to_string(attempt), number);
}

// Its publisher may not come to record that: no copy of it is left all the same.
void Judge::nacked(const Message& message, std::uint64_t by) {
  const auto id = id_of(message);
  if (!id || !facts_.contains(*id)) return;
  auto& writes = facts_[*id].writes[int_header(message, header::kAttempt)];
  std::erase_if(writes, [&](const Facts::Write& write) { return write.connection == by; });
}

void Judge::returned(const Message& message) {
  const auto id = id_of(message);
  if (!id || !facts_.contains(*id)) return;
  const int attempt = int_header(message, header::kAttempt);
  Facts& facts = facts_[*id];
  facts.returned[attempt] = true;
  const Facts::Arrival where{world_.events.now(), int_header(message, header::kLevel),
                             text_header(message, header::kLadder)};
  facts.cause(attempt + 1, next_due(where, reading(), is_probe(*id, attempt)));
  world_.note(facts.message, [&] { return "attempt " + std::to_string(attempt) + " is returned"; });
}

void Judge::acked(const std::string& inlet, const Message& message) {
  const int number = number_of(message);
  world_.events.mix(static_cast<std::uint64_t>(number));
  if (inlet == "rung.results") return;
  world_.note(number, [&] { return "acked in " + inlet; });
  Entry& entry = entries_[number];
  if (entry.tasks.empty()) return broken("nothing is acked before its row is committed", number);
  const auto id = id_of(message);
  const auto facts = id ? facts_.find(*id) : facts_.end();
  if (facts == facts_.end() || facts->second.message != number || !is_parked_copy(message)) return;
  // Its first row, and those that edits have made, are of something else.
  entry.failed_copies.insert(text_header(message, header::kToken));
  const auto edited = std::ranges::count_if(entry.tasks, [&](TaskId task) { return edits_.contains(task); });
  if (std::ssize(entry.failed_copies) > std::ssize(entry.tasks) - 1 - edited + entry.reopened)
    broken("a parked copy that failed has a row, or reopens its task", number);
}

bool Judge::is_for(int message, const std::string& queue) const {
  return std::ranges::any_of(tasks_of(message), [&](TaskId id) {
    const auto row = store_->find(id);
    return row && row->task.queue == queue;
  });
}

std::vector<TaskId> Judge::tasks_of(int message) const {
  const auto entry = entries_.find(message);
  return entry == entries_.end() ? std::vector<TaskId>{} : entry->second.tasks;
}

}  // namespace rung::sim
