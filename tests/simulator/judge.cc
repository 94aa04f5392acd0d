#include "tests/simulator/judge.h"

#include <algorithm>
#include <iterator>
#include <ranges>
#include <utility>

#include "tests/simulator/messages.h"

namespace rung::sim {
namespace {

// A pause is in force by then: a second, and a claim that was on its way.
constexpr Us kUntilPaused = 1200 * kMs;

}  // namespace

Judge::Judge(World& world) : world_(world), store_(open_memory_store(world.db)) {}

void Judge::broken(const std::string& promise, int message) { world_.broken(promise, message); }

// --- what people and programs report

void Judge::accepted(int message) { entries_[message].accepted = true; }

std::int64_t Judge::reading() const {
  Us behind = 0;
  for (const auto& [at, by] : steps_) {
    if (by > 0 && world_.events.now() - at < kUntilMeasured) behind += by;
  }
  return (world_.wall->us() - behind) / kMs * kMs;
}

void Judge::read(const Message& delivery) {
  if (!is_parked_copy(delivery)) read_.emplace(*id_of(delivery), int_header(delivery, header::kAttempt));
}

std::int64_t Judge::next_due(const Facts::Arrival& arrival, std::int64_t from_us, bool probe) const {
  const levels::Ladder* ladder = world_.rules->ladder(arrival.ladder);
  if (ladder == nullptr) return kNever;
  const int level = probe ? std::clamp(arrival.level, 1, ladder->levels()) : arrival.level + 1;
  if (level > ladder->levels()) return kNever;
  return from_us / kMs * kMs + ladder->delay(level).count() * kMs;
}

void Judge::failed(const Message& delivery, const std::string& named, std::optional<Ms> delay, bool never) {
  const TaskId id = *id_of(delivery);
  const auto row = store_->find(id);
  const std::string queue = named.empty() && row ? row->task.queue : named;
  const int attempt = int_header(delivery, header::kAttempt);
  Facts& facts = facts_[id];
  // Somebody else delivered a parked copy: it begins again on the first level.
  const bool begins = is_parked_copy(delivery);
  if (!begins) facts.failed_word[attempt] = true;
  world_.note(facts.message, [&] {
    return "its consumer fails attempt " + std::to_string(attempt) + (begins ? ", a parked copy" : "");
  });
  if (!begins && facts.arrivals[attempt].empty()) return;
  const Facts::Arrival arrival =
      begins ? Facts::Arrival{0, 0, world_.rules->queue(queue).ladder} : facts.arrivals[attempt].front();
  std::int64_t due = next_due(arrival, reading(), !begins && is_probe(id, attempt));
  if (never) due = kNever;
  if (delay && !never && due != kNever) {
    const levels::Ladder* ladder = world_.rules->ladder(arrival.ladder);
    const auto& cap = world_.rules->queue(queue).gate.retry_after.cap;
    due = reading() / kMs * kMs + std::min(*delay, cap.value_or(ladder->highest())).count() * kMs;
  }
  if (!begins) return facts.cause(attempt + 1, due);
  std::optional<std::int64_t>& known = facts.copies[text_header(delivery, header::kToken)];
  known = std::min(known.value_or(kNever), due);
  ++entries_[facts.message].may_have;
}

void Judge::dropped(const Message& delivery) {
  Facts& facts = facts_[*id_of(delivery)];
  facts.dropped_word[int_header(delivery, header::kAttempt)] = true;
  world_.note(facts.message, [] { return std::string("and the broker drops it: not attached"); });
}

void Judge::succeeded(const Message& delivery) {
  Facts& facts = facts_[*id_of(delivery)];
  const int attempt = int_header(delivery, header::kAttempt);
  facts.succeeded_word[attempt] = true;
  world_.note(facts.message,
              [&] { return "its consumer reports success of attempt " + std::to_string(attempt); });
}

bool Judge::is_parked_copy(const Message& delivery) const {
  const auto facts = facts_.find(*id_of(delivery));
  return facts != facts_.end() && facts->second.copies.contains(text_header(delivery, header::kToken));
}

void Judge::asked(TaskId id, const Happening& what) {
  Facts& facts = facts_[id];
  const std::int64_t now = world_.wall->us() / kMs * kMs;
  if (std::holds_alternative<event::Fire>(what) || std::holds_alternative<event::Redrive>(what)) {
    facts.by_hand_us.push_back(now);
  } else if (const auto* moved = std::get_if<event::Reschedule>(&what)) {
    facts.by_hand_us.push_back(moved->at ? moved->at->ms * kMs : now + moved->delay.count() * kMs);
  } else if (const auto* finish = std::get_if<event::Finish>(&what)) {
    (finish->succeeded ? facts.succeeded_by_hand : facts.failed_by_hand) = true;
  } else {
    facts.given_up = true;
  }
  const auto* edit = std::get_if<event::Edit>(&what);
  if (edit == nullptr) return;
  edits_.emplace(edit->edited->id, edit->edited->message->body.str());
  ++entries_[facts.message].may_have;
}

void Judge::answered(TaskId id, const Happening& what, const Decision& decision) {
  const bool edited = std::holds_alternative<event::Edit>(what);
  const bool gives_up =
      edited || std::holds_alternative<event::Cancel>(what) || std::holds_alternative<event::Discard>(what);
  if (!gives_up || decision.verdict != Decision::Verdict::applied) return;
  facts_[id].replaced = facts_[id].replaced || edited;
  if (!facts_[id].cancelled_at) facts_[id].cancelled_at = world_.events.now();
}

void Judge::stepped(Us by) {
  steps_.emplace_back(world_.events.now(), by);
  world_.note(0, [&] { return "the database's clock steps by " + std::to_string(by / kMs) + " ms"; });
  if (by > 0) return;
  const auto move = [&](std::int64_t& due) {
    if (due != kNever) due += by;
  };
  for (auto& [number, entry] : entries_) move(entry.due_us);
  for (auto& [id, facts] : facts_) {
    for (auto& [attempt, due] : facts.may_be) move(due);
    for (std::int64_t& due : facts.by_hand_us) move(due);
    for (auto& [token, due] : facts.copies) {
      if (due) move(*due);
    }
  }
}

void Judge::paused(const std::string& queue) {
  paused_[queue] = world_.events.now();
  world_.note(0, [&] { return queue + " is paused"; });
}

// Long enough for every node to know, and nothing kept them from it.
bool Judge::is_paused(const std::string& queue) const {
  const auto since = paused_.find(queue);
  const Us now = world_.events.now();
  if (since == paused_.end() || now - since->second < kUntilPaused) return false;
  if (world_.troubles.any_in(std::max<Us>(now - kCalm, 0), now)) return false;
  const auto pauses = store_->pauses();
  return std::ranges::any_of(pauses, [&](const Pause& one) { return one.queue == queue && !one.over; });
}

bool Judge::is_probe(TaskId id, int attempt) const {
  const auto row = store_->find(id);
  return row && row->task.attempt == attempt && row->task.probe != 0;
}

// A failure that no delivery of ours precedes proves nothing, unless it is a child of one.
void Judge::judge_holds(const Facts& facts) {
  constexpr std::string_view kTask = "task ";
  for (const GateState& state : store_->gate_states()) {
    if (!state.retry_after || !state.retry_after->reason.starts_with(kTask)) continue;
    const std::string& reason = state.retry_after->reason;
    const auto id = TaskId::parse(reason.substr(kTask.size(), reason.find(' ', kTask.size()) - kTask.size()));
    const auto row = id ? store_->find(*id) : std::nullopt;
    if (row && row->task.attempt == 0 && row->task.parent.value == 0)
      return broken("a message holds back its queue only with proof: " + state.queue, facts.message);
  }
}

// A new attempt was claimed: no gate of its queue forbids that. After faults, an instance may know less than
// the others for a while.
void Judge::judge_gates(const Facts& facts, const Task& task) {
  judge_holds(facts);
  const GateRules& gate = world_.rules->queue(task.queue).gate;
  const Us now = world_.events.now();
  std::vector<Us>& claims = claims_[task.queue];
  claims.push_back(now);
  if (now < kCalm || world_.troubles.any_in(now - kCalm, now)) return;
  const EpochMs by_db = world_.db->now();
  if (gate.window && !gate.window->is_open(by_db) &&
      gate.window->closed_between(by_db - Ms{kUntilPaused / kMs}, by_db) >= Ms{kUntilPaused / kMs} &&
      !gate.window->is_open(by_db + Ms{kAhead / kMs}))
    return broken("nothing is claimed outside its window: " + task.queue, facts.message);
  if (gate.rate > 0) {
    const auto recent = [&](int seconds) {
      return std::ranges::count_if(claims, [&](Us at) { return at > now - seconds * kSecond; });
    };
    if (static_cast<double>(recent(10)) > gate.rate * 10 * 1.05 + 2 + world_.settings.nodes)
      return broken("a rate is kept: " + std::to_string(recent(10)) + " in 10 s", facts.message);
  }
  if (!gate.breaker || task.probe != 0) return;
  const auto states = store_->gate_states();
  const auto state = std::ranges::find(states, task.queue, &GateState::queue);
  if (state == states.end() || !is_closed_gate(state->breaker)) return;
  if (by_db - state->breaker.opened_at > Ms{kUntilPaused / kMs})
    broken("no attempt behind a gate: the breaker is open, and it is no probe", facts.message);
}

// --- commits

bool Judge::holds_lease(int node, std::optional<int> shard) {
  // A step forward ends every lease by the database's clock; no node notices before its next beat.
  for (const auto& [at, by] : steps_) {
    if (by > 0 && world_.events.now() - at < world_.settings.lease.count() * kMs) return true;
  }
  const EpochMs now = world_.db->now();
  const auto rows = store_->shards();
  return std::ranges::any_of(rows, [&](const ShardRow& row) {
    return row.owner == node && row.expires_at && *row.expires_at > now && (!shard || row.shard == *shard);
  });
}

void Judge::inserted(std::span<const NewTask> tasks, const std::vector<Inserted>& answers,
                     const Fence& fence) {
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    world_.events.mix(static_cast<std::uint64_t>(answers[i].id.value));
    if (answers[i].how != Inserted::How::inserted) continue;
    const int number = number_of(*tasks[i].message);
    Entry& entry = entries_[number];
    const TaskId id = answers[i].id;
    world_.note(number, [&] {
      return "row " + id.str() + " committed: " + std::string(to_word(tasks[i].task.state)) + ", shard " +
             std::to_string(tasks[i].task.shard) + ", due in " +
             std::to_string(tasks[i].task.next_at ? tasks[i].task.next_at->ms - world_.db->now().ms : 0) +
             " ms";
    });
    if (facts_.contains(id)) continue;  // repeated after a lost answer
    if (!fence.by_hand && !holds_lease(fence.node, tasks[i].task.shard))
      return broken("nobody inserts without the lease: node " + std::to_string(fence.node), number);
    const TaskId parent = tasks[i].task.parent;
    const bool continues = std::ranges::find(entry.tasks, parent) != entry.tasks.end();
    if (entry.has_id && !entry.tasks.empty() && !continues)
      return broken("the same intake twice makes one row: it is nobody's child", number);
    entry.tasks.push_back(id);
    first_tasks_.try_emplace(tasks[i].task.queue, world_.events.now());
    Facts& facts = facts_[id];
    facts.message = number;
    facts.body = continues ? facts_[parent].body : body_of(number);
    facts.state = tasks[i].task.state;
    facts.cause(1, continues ? due_by_copies(facts_[parent]).value_or(entry.due_us) : entry.due_us);
    if (entry.has_id && std::ssize(entry.tasks) > entry.may_have)
      return broken("the same intake twice makes one row", number);
  }
}

void Judge::applied(std::span<const Event> events, const std::vector<Decision>& decisions,
                    const Fence& fence) {
  const bool by_hand = !events.empty() && events[0].by_hand.has_value();
  const auto redrive = by_hand ? redrives_.find(events[0].by_hand->bulk) : redrives_.end();
  if (redrive != redrives_.end()) judge_step(redrive->second, decisions);
  for (std::size_t i = 0; i < events.size(); ++i) {
    const Decision& decision = decisions[i];
    world_.events.mix(name_of(events[i].what));
    world_.events.mix(static_cast<std::uint64_t>(decision.verdict));
    const auto found = facts_.find(events[i].id);
    if (found == facts_.end()) continue;
    Facts& facts = found->second;
    const Task& task = decision.task;
    world_.note(facts.message, [&] {
      return std::string(name_of(events[i].what)) + " by node " + std::to_string(fence.node) + ": " +
             (decision.verdict == Decision::Verdict::applied ? "applied" : decision.reason) + ", " +
             std::string(to_word(task.state)) + ", attempt " + std::to_string(task.attempt);
    });
    if (decision.verdict != Decision::Verdict::applied) continue;
    const State before = std::exchange(facts.state, task.state);
    // A person sends a presumed success again.
    const bool again = before == State::succeeded || before == State::awaiting;
    if (again && std::holds_alternative<event::Redrive>(events[i].what))
      facts.cause(task.attempt + 1, world_.wall->us() / kMs * kMs);
    if (before == State::parked && std::holds_alternative<event::Failed>(events[i].what))
      judge_reopened(facts, task);
    if (decision.child != nullptr) {
      const TaskId child = decision.child->task.id;
      entries_[facts.message].tasks.push_back(child);
      facts_[child].message = facts.message;
      facts_[child].body = edits_[child];
      facts_[child].cause(1, world_.wall->us() / kMs * kMs);
    }
    if (std::holds_alternative<event::SilenceOver>(events[i].what)) judge_silence(facts, task);
    if (const auto* confirm = std::get_if<event::Confirmed>(&events[i].what);
        confirm != nullptr && before == State::publishing) {
      if (task.state == State::awaiting && !facts.claims.empty() &&
          confirm->epoch < facts.claims.back().epoch)
        return broken("a confirm ends only the publish of its own claim", facts.message);
      judge_confirm(facts, task, fence.node);
    }
    if (task.state == State::cancelled || task.state == State::discarded) {
      if (!facts.cancelled_at) facts.cancelled_at = world_.events.now();
    }
    // Refused by the broker: this claim has left no copy, but an earlier one of the attempt may have.
    const bool refused = std::holds_alternative<event::Deferred>(events[i].what);
    if (refused && !decision.drop_attempt && !facts.claims.empty()) facts.claims.pop_back();
    if (decision.drop_attempt) {  // answered: no copy of it is left
      facts.writes.erase(task.attempt + 1);
      facts.claims.clear();
    }
    if (!std::holds_alternative<event::Claim>(events[i].what)) continue;
    facts.claims.push_back({world_.events.now(), task.attempt, fence.node, task.epoch});
    if (before == State::scheduled && is_paused(task.queue))
      return broken("nothing of a paused queue is claimed: " + task.queue, facts.message);
    if (before == State::scheduled && world_.settings.has(Actor::gates)) judge_gates(facts, task);
    if (!holds_lease(fence.node, task.shard))
      return broken("nobody claims without the lease: node " + std::to_string(fence.node), facts.message);
  }
}

std::optional<std::int64_t> Judge::due_by_copies(const Facts& facts) {
  std::optional<std::int64_t> due;
  for (const auto& [token, failed] : facts.copies) {
    if (failed) due = std::min(due.value_or(kNever), *failed);
  }
  return due;
}

// Somebody has moved a copy of it, and that has failed: a failure of its own, from the first level.
void Judge::judge_reopened(Facts& facts, const Task& task) {
  const auto due = due_by_copies(facts);
  if (!due) return broken("only a failure of its copy reopens a parked task", facts.message);
  if (task.state == State::scheduled && task.level != 1)
    return broken("a parked copy that failed begins on the first level", facts.message);
  ++entries_[facts.message].reopened;
  facts.failed_word[task.attempt] = true;
  facts.cause(task.attempt + 1, *due);
}

// No instance takes silence for a success while it can know that no failure would have come.
void Judge::judge_silence(const Facts& facts, const Task& task) {
  const BrokerServer::Queue* queue = server_ == nullptr ? nullptr : server_->queue(task.queue);
  const Us now = world_.events.now();
  if (task.state != State::succeeded || queue == nullptr) return;
  // After such a step back of the clock, a look made before it appears later than deliveries made after it.
  const bool stepped_back = std::ranges::any_of(steps_, [&](const auto& step) {
    return step.second < -15 * kSecond && now - step.first < kUntilMeasured;
  });
  if (stepped_back) return;
  // A queue that answers nothing does not tell what is in it.
  const bool looks =
      queue->silent == 0 && (world_.settings.has(Fault::detach) || world_.settings.has(Fault::idle));
  if (looks && !read_.contains({task.id, task.attempt}) &&
      std::ranges::any_of(queue->ready, [&](const Copy& copy) { return id_of(copy.message) == task.id; }))
    return broken("silence is no success while nobody has read the message: " + task.queue, facts.message);
  if (queue->detached == 0) return;
  // A look that was right, and an answer of the database that came late.
  constexpr Us kLooked = 10 * kSecond;
  // Nobody has ever seen it attached: its consumer may publish its failures itself.
  const bool unknown_before =
      !world_.rules->queues().contains(task.queue) && first_tasks_[task.queue] > queue->detached_at - kLooked;
  if (unknown_before) return;
  if (now - queue->detached_at < kLooked || world_.troubles.any_in(now - kLooked, now)) return;
  broken("silence is no success while its queue is not attached: " + task.queue, facts.message);
}

// A row leaves `publishing` by the confirm of that attempt, and not while another who claimed it may publish.
void Judge::judge_confirm(const Facts& facts, const Task& task, int node) {
  if (task.state != State::awaiting) return;
  const auto arrivals = facts.arrivals.find(task.attempt);
  if (arrivals == facts.arrivals.end() || arrivals->second.empty())
    return broken("a row leaves publishing by the confirm of its own attempt", facts.message);
  if (facts.claims.empty() || facts.claims.back().node == node) return;
  const auto shards = store_->shards();
  const ShardRow& shard = shards[static_cast<std::size_t>(task.shard)];
  const Facts::Claim& claim = facts.claims.back();
  if (shard.owner == claim.node && shard.epoch == claim.epoch && holds_lease(claim.node, task.shard))
    broken("a confirm does not end what another instance may still publish", facts.message);
}

}  // namespace rung::sim
