// What this instance tells of the gates of queues, and its part in their breakers.
#include <algorithm>
#include <memory>

#include "src/bridge/flight/dispatch.h"
#include "src/bridge/flight/gates.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr Ms kWriteEvery{250};
constexpr Ms kReportFailures{100};    // a failure waits for others of the same moment
constexpr Ms kConfirmWindow{30'000};  // GateState::seen_at
constexpr Ms kLimitedFor{5000};       // for so long a note about a rate holds
constexpr Ms kRenewLimited{2000};     // before its end
constexpr Ms kAskAgainLater{1000};

}  // namespace

// Of up to GateBatch::kMost queues, on its way: write() runs on a store thread, the rest on the loop.
struct Gates::Batch {
  GateBatch batch;
  std::map<std::string, Note> notes;
  std::map<std::string, int> probes;  // granted
  // Something about one of them is wrong: the others are written one by one. For good: the batch as a whole
  // would count again what is written by then.
  bool singly = false;
  std::map<std::string, GateState> done;  // by the attempts before

  std::vector<SystemEvent> change(GateState& state, const QueueRules& rules, EpochMs now) {
    std::vector<SystemEvent> events;
    const auto turned = [&](const Breaker& breaker) {
      const char* kind = is_closed_gate(breaker) ? "breaker_opened" : "breaker_closed";
      events.push_back({kind, state.queue, describe_change(breaker)});
    };
    probes[state.queue] = apply_note(state, notes.at(state.queue), rules, now, turned);
    return events;
  }

  std::vector<GateState> write(Store& store) {
    if (!singly) {
      auto states = result_of([&] { return store.change_gates(batch); });
      if (states || states.error().kind != Error::Kind::permanent || batch.queues.size() == 1)
        return or_throw(std::move(states));
      singly = true;
    }
    for (std::size_t i = 0; i < batch.queues.size(); ++i) {
      const std::string& queue = batch.queues[i];
      if (done.contains(queue)) continue;
      try {
        const std::string id = batch.id + '/' + std::to_string(i);
        done.emplace(queue, store.change_gates({{queue}, batch.change, batch.maker, id}).at(0));
      } catch (const StoreError& e) {
        if (e.error.is_transient()) throw;
        probes.erase(queue);
        log::error("gates not written", {{"queues", 1}, {"queue", queue}, {"reason", e.error.message}});
      }
    }
    std::vector<GateState> states;
    for (const auto& [queue, state] : done) states.push_back(state);
    return states;
  }
};

// --- breakers: which outcomes count, and when to ask for a probe

const BreakerRules* Gates::breaker_rules(const std::string& queue) const {
  if (!rules().has_gates() || queue.empty()) return nullptr;
  const auto& breaker = rules().queue(queue).gate.breaker;
  return breaker && keeps(queue) ? &*breaker : nullptr;
}

void Gates::published(const Task& task) {
  const BreakerRules* breaker = breaker_rules(task.queue);
  if (breaker == nullptr) return;
  add_outcome(task.queue, *breaker, {DeliveryOutcome::Kind::published, task.probe, {}});
  if (task.probe != 0) ++totals_of(task.queue).probes;
}

void Gates::unsent(const std::string& queue, int probe) {
  if (const auto probing = probing_.find(queue); probing != probing_.end())
    probing->second.not_before = sidecar_.clock.here().boot() + kAskAgainLater;
  if (const BreakerRules* breaker = breaker_rules(queue))
    add_outcome(queue, *breaker, {DeliveryOutcome::Kind::dropped, probe, {}});
}

void Gates::decided(const Decision& decision) {
  if (decision.verdict != Decision::Verdict::applied || !decision.attempt) return;
  const Task& task = decision.task;
  // A rule may have moved it: the delivery was in the queue before.
  const std::string& queue = decision.failed_in.empty() ? task.queue : decision.failed_in;
  if (decision.holds_queue) hold_queue(queue, *decision.holds_queue, task.id);
  const BreakerRules* breaker = breaker_rules(queue);
  if (breaker == nullptr) return;
  if (decision.drop_attempt) {
    if (task.probe != 0) unsent(queue, task.probe);
    return;
  }
  if (decision.attempt->outcome == Outcome::pending) return;  // published() has it
  auto outcome = outcome_of(task, *decision.attempt, *breaker);
  if (!outcome) return;
  const bool next = outcome->probe != 0 && outcome->kind == DeliveryOutcome::Kind::succeeded;
  add_outcome(queue, *breaker, *std::move(outcome));
  const auto probing = probing_.find(queue);
  if (next && probing != probing_.end() && !probing->second.asking && sidecar_.dispatch.can_probe(queue))
    ask_for_probe(queue, probing->second);  // in the same transaction
}

Totals::Breaker& Gates::totals_of(const std::string& queue) {
  auto& all = sidecar_.counts.totals.breakers;
  const bool own = all.size() < kMostTotals || all.contains(queue) || is_listed(queue);
  return all[own ? queue : FlowCounts::kOther];
}

bool Gates::is_closed_by_breaker(const std::string& queue) const {
  const Closed* closed = why_closed(queue);
  return closed != nullptr && closed->by == GateKind::breaker;
}

// Has a probe written off that got no answer for too long, and the breaker confirmed if no instance has done
// that for a while; asks for a probe if one may go.
void Gates::look_after(const std::string& queue) {
  const auto place = probing_.find(queue);
  const GateState* known = state(queue);
  const BreakerRules* breaker = breaker_rules(queue);
  if (place == probing_.end() || known == nullptr || breaker == nullptr) return;
  Probing& probing = place->second;
  const EpochMs now = sidecar_.clock.now();
  Breaker next = known->breaker;
  if (expire_probes(next, *breaker, rules().queue(queue).silence, now) ||
      now - known->seen_at > kConfirmBreaker) {
    if (Note* waiting = note(queue)) write_soon(queue, *waiting, kWriteEvery);
    return;
  }
  if (probing.asking || !is_closed_by_breaker(queue) || take_probe(next, *breaker, now) == 0) return;
  if (probing.not_before > sidecar_.clock.here().boot() || !sidecar_.dispatch.can_probe(queue)) return;
  ask_for_probe(queue, probing);
}

void Gates::ask_for_probe(const std::string& queue, Probing& probing) {
  Note* waiting = note(queue);
  if (waiting == nullptr) return;
  probing.asking = true;
  waiting->probe = true;
  write_soon(queue, *waiting, Ms{0});
}

// The answer; 0 = none may go now.
void Gates::granted(const std::string& queue, int probe) {
  if (const auto probing = probing_.find(queue); probing != probing_.end()) probing->second.asking = false;
  if (probe == 0) return;
  log::info("breaker probes", {{"queue", queue}, {"probe", probe}});
  // Meanwhile it may have been paused.
  if (!is_closed_by_breaker(queue) || !sidecar_.dispatch.send_probe(queue, probe)) unsent(queue, probe);
}

void Gates::log_breaker(const std::string& queue, const Breaker& breaker) {
  const auto probing = probing_.find(queue);
  const auto before = probing == probing_.end() ? Breaker::State::closed : probing->second.logged;
  if (before == breaker.state) return;
  if (breaker.state == Breaker::State::closed) {
    probing_.erase(probing);
    if (breaker.since.ms == 0) return;  // it is gone: from the config, or the database
    ++totals_of(queue).closed;
    log::info("breaker closed", {{"queue", queue}, {"since", format_utc(breaker.since)}});
    return;
  }
  probing_[queue].logged = breaker.state;
  if (breaker.state != Breaker::State::open) return;
  ++totals_of(queue).opened;
  log::warn("breaker opened", {{"queue", queue},
                               {"until", breaker.until ? format_utc(*breaker.until) : ""},
                               {"reason", breaker.reason}});
}

// --- notes

// Successes wait here until there is a failure beside them: too many queues that had none are forgotten.
bool Gates::make_room(const std::string& queue) {
  const std::size_t most = kMostPending + rules().queues().size();
  if (pending_ < most || is_listed(queue)) return true;
  for (auto next = book_.begin(); next != book_.end();) {
    const auto place = next++;
    const std::optional<Note>& waiting = place->second.note;
    if (waiting && !waiting->queued && !is_listed(place->first)) take_note(place);
  }
  return pending_ < most;
}

// nullptr: the queue's gates are not kept, or too much waits.
Gates::Note* Gates::note(const std::string& queue) {
  if (const auto known = book_.find(queue); known != book_.end() && known->second.note)
    return &*known->second.note;
  if (!keeps(queue) || !make_room(queue)) return nullptr;
  ++pending_;
  auto& note = book_[queue].note;
  note = Note{};  // not emplace(): for clang, Note has no default constructor within its class
  return &*note;
}

Gates::Note Gates::take_note(Book::iterator place) {
  RUNG_REQUIRE(place != book_.end() && place->second.note);
  Note taken = *std::exchange(place->second.note, std::nullopt);
  --pending_;
  if (place->second.empty()) book_.erase(place);
  return taken;
}

void Gates::write_soon(const std::string& queue, Note& note, Ms wait) {
  if (!std::exchange(note.queued, true)) ready_.push_back(queue);
  flush_within(wait);
}

void Gates::flush_within(Ms wait) {
  if (writing_) return;  // written() sees to it
  const BootMs now = sidecar_.clock.here().boot();
  const BootMs at = std::max(now + wait, wrote_at_ + kWriteEvery);
  if (flush_.active() && flushes_at_ <= at) return;
  flushes_at_ = at;
  flush_.start(at - now);
}

void Gates::add_outcome(const std::string& queue, const BreakerRules& breaker, DeliveryOutcome outcome) {
  Note* waiting = note(queue);
  if (waiting == nullptr) return;
  // An answer to a probe decides whether the next one goes.
  const bool is_urgent = outcome.probe != 0 && outcome.kind != DeliveryOutcome::Kind::published;
  waiting->outcomes.add(std::move(outcome), breaker.of_last);
  // Successes only matter beside failures: they wait.
  if (waiting->outcomes.matters()) write_soon(queue, *waiting, is_urgent ? Ms{0} : kReportFailures);
}

void Gates::hold_queue(const std::string& queue, Ms wait, TaskId task) {
  Note* waiting = note(queue);
  if (waiting == nullptr) return;  // the task itself waits
  if (!waiting->hold || waiting->hold->wait < wait) waiting->hold = {wait, describe_hold(task, wait)};
  write_soon(queue, *waiting, Ms{0});
}

void Gates::note_what_lasts() {
  if (!started_) return;
  for (const std::string& queue : sidecar_.dispatch.limited()) note_limit(queue);
  const EpochMs now = sidecar_.clock.now();
  for (auto& [queue, known] : book_) {
    if (!known.closed || known.closed->by != GateKind::window || !known.closed->until) continue;
    const EpochMs until = *known.closed->until;
    const bool told = known.state && known.state->outside && known.state->outside->until == until;
    if (told && now - known.state->seen_at < kConfirmWindow) continue;
    const auto& window = rules().queue(queue).gate.window;
    Note* waiting = window != nullptr ? note(queue) : nullptr;
    if (waiting == nullptr) continue;
    waiting->outside = {now, until, "window " + window->describe()};
    write_soon(queue, *waiting, kWriteEvery);
  }
}

void Gates::note_limit(const std::string& queue) {
  const GateState* known = state(queue);
  const bool told = known != nullptr && known->limited &&
                    known->limited->until - sidecar_.clock.now() > kLimitedFor - kRenewLimited;
  Note* waiting = told ? nullptr : note(queue);
  if (waiting == nullptr) return;
  waiting->limited = {kLimitedFor, describe_limits(rules().queue(queue).gate)};
  write_soon(queue, *waiting, kWriteEvery);
}

void Gates::flush() {
  if (writing_ || ready_.empty()) return;
  writing_ = true;
  wrote_at_ = sidecar_.clock.here().boot();
  const auto batch = std::make_shared<Batch>();
  batch->batch.maker = sidecar_.settings.identity.name;
  batch->batch.id = std::to_string(sidecar_.settings.identity.incarnation) + '-' + std::to_string(++batches_);
  for (; !ready_.empty() && batch->notes.size() < GateBatch::kMost; ready_.pop_front()) {
    batch->batch.queues.push_back(ready_.front());
    batch->notes.emplace(ready_.front(), take_note(book_.find(ready_.front())));
  }
  std::ranges::sort(batch->batch.queues);
  // A repeat of an applied batch does not call this: `probes` then has what that one granted.
  batch->batch.change = [on_way = batch.get(), rules = sidecar_.rules](GateState& state, EpochMs now) {
    return on_way->change(state, rules->queue(state.queue), now);
  };
  sidecar_.jobs.submit<std::vector<GateState>>(
      Lane::gate_writes, [batch](Store& store) { return batch->write(store); },
      [this, batch](const Result<std::vector<GateState>>& states) { written(*batch, states); });
}

void Gates::written(const Batch& batch, const Result<std::vector<GateState>>& states) {
  writing_ = false;
  if (states) {
    arrived(*states);
  } else {
    log::error("gates not written", {{"queues", batch.notes.size()}, {"reason", states.error().message}});
  }
  for (const auto& [queue, note] : batch.notes) {
    if (!note.probe) continue;
    const auto probe = batch.probes.find(queue);
    granted(queue, states && probe != batch.probes.end() ? probe->second : 0);
  }
  if (!ready_.empty()) flush_within(Ms{0});
}

}  // namespace rung::bridge
