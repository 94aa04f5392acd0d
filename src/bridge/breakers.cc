#include "src/bridge/breakers.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "src/core/machine.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr Ms kBreakerTick{250};
// A failure is reported with others of the same moment. Successes only matter beside failures: they wait.
constexpr Ms kReportFailures{100};
constexpr Ms kAskAgainLater{1000};
constexpr Ms kConfirmBreaker{10'000};  // GateState::seen_at

// What one instance knows, put into the shared state.
std::vector<SystemEvent> put(GateState& state, EpochMs now, const BreakerRules& rules, Unanswered silence,
                             const std::vector<DeliveryOutcome>& outcomes) {
  const Breaker before = state.breaker;
  std::vector<SystemEvent> events;
  const auto changed = [&](const Breaker& was) {
    const bool reopened = state.breaker.opened > was.opened;
    if (reopened || (was.state != Breaker::State::closed && state.breaker.state == Breaker::State::closed))
      events.push_back({0,
                        {},
                        "",
                        reopened ? "breaker_opened" : "breaker_closed",
                        state.queue,
                        describe_change(state.breaker)});
  };
  expire_probes(state.breaker, rules, silence, now);
  changed(before);
  for (const DeliveryOutcome& outcome : outcomes) {
    const Breaker was = state.breaker;
    record(state.breaker, rules, outcome, silence, now);
    changed(was);
  }
  if (now - state.seen_at > kConfirmBreaker) state.seen_at = now;
  return events;
}

}  // namespace

Breakers::Breakers(io::Loop& loop, Deps deps)
    : deps_(std::move(deps)),
      loop_(loop),
      tick_(loop, [this] { tick(); }),
      flush_(loop, [this] { flush(); }) {}

void Breakers::start() { tick_.start(kBreakerTick, kBreakerTick); }

void Breakers::stop() {
  tick_.stop();
  flush_.stop();
}

const BreakerRules* Breakers::rules(const std::string& queue) const {
  if (!deps_.rules->has_gates() || queue.empty()) return nullptr;
  const auto& breaker = deps_.rules->queue(queue).gate.breaker;
  return breaker && deps_.gates.keeps(queue) ? &*breaker : nullptr;
}

Unanswered Breakers::silence(const std::string& queue) const {
  return deps_.rules->queue(queue).silence.means == Silence::Means::success ? Unanswered::succeeded
                                                                            : Unanswered::failed;
}

void Breakers::published(const Task& task) {
  if (rules(task.queue) != nullptr) add(task.queue, {DeliveryOutcome::Kind::published, task.probe, {}});
}

void Breakers::unsent(const std::string& queue, int probe) {
  add(queue, {DeliveryOutcome::Kind::dropped, probe, {}});
}

void Breakers::decided(const Decision& decision) {
  if (decision.verdict != Decision::Verdict::applied || !decision.attempt) return;
  const Task& task = decision.task;
  // A rule may have moved it: the delivery was in the queue before.
  const bool moved = !decision.failed_in.empty();
  const std::string& queue = moved ? decision.failed_in : task.queue;
  const BreakerRules* breaker = rules(queue);
  if (breaker == nullptr) return;
  if (decision.drop_attempt) {
    if (task.probe != 0) add(queue, {DeliveryOutcome::Kind::dropped, task.probe, {}});
    return;
  }
  if (decision.attempt->outcome == Outcome::pending) return;  // published() has it
  if (auto outcome = outcome_of(task, *decision.attempt, *breaker)) add(queue, *std::move(outcome));
}

bool tells_something(const std::vector<DeliveryOutcome>& outcomes) {
  return std::ranges::any_of(outcomes, [](const DeliveryOutcome& outcome) {
    return outcome.probe != 0 || outcome.kind == DeliveryOutcome::Kind::failed;
  });
}

// Successes wait here until there is a failure beside them: too many queues that had none are forgotten.
bool Breakers::make_room(const std::string& queue) {
  const std::size_t most = kMostPending + deps_.rules->queues().size();
  if (pending_.size() < most || pending_.contains(queue) || is_listed(queue)) return true;
  std::erase_if(pending_, [this](const auto& entry) {
    return !is_listed(entry.first) && !tells_something(entry.second);
  });
  return pending_.size() < most;
}

Breakers::Totals& Breakers::totals_of(const std::string& queue) {
  const bool own = totals_.size() < kMostTotals || totals_.contains(queue) || is_listed(queue);
  return totals_[own ? queue : "(other)"];
}

// Of queues whose states the database no longer has.
void Breakers::forget_gone() {
  const auto gone = [this](const auto& entry) { return !deps_.gates.states().contains(entry.first); };
  std::erase_if(seen_, gone);
  std::erase_if(ask_again_, gone);
}

void Breakers::add(const std::string& queue, DeliveryOutcome outcome) {
  if (!make_room(queue)) return;
  Outcomes& pending = pending_[queue];
  const bool is_probe = outcome.probe != 0;
  const bool failed = outcome.kind == DeliveryOutcome::Kind::failed;
  pending.push_back(std::move(outcome));
  if (const BreakerRules* breaker = rules(queue);
      breaker != nullptr && pending.size() > 2 * static_cast<std::size_t>(breaker->of_last)) {
    // Only the last of_last count, and the probes.
    const auto middle = pending.begin() + breaker->of_last;
    const auto kept =
        std::remove_if(pending.begin(), middle, [](const DeliveryOutcome& old) { return old.probe == 0; });
    pending.erase(kept, middle);
  }
  if (is_probe && !std::exchange(urgent_, true)) {
    loop_.post([this] { flush(); });
  } else if (failed && !flush_.active()) {
    flush_.start(kReportFailures);
  }
}

void Breakers::tick() {
  for (const auto& [queue, state] : deps_.gates.states()) look_after(queue, state);
}

void Breakers::flush() {
  urgent_ = false;
  std::vector<std::string> queues;
  for (const auto& [queue, outcomes] : pending_) {
    if (tells_something(outcomes) && !busy_.contains(queue)) queues.push_back(queue);
  }
  for (const std::string& queue : queues) change(queue, std::move(pending_.extract(queue).mapped()));
}

void Breakers::change(const std::string& queue, Outcomes outcomes) {
  const BreakerRules* breaker = rules(queue);
  if (breaker == nullptr) return;
  busy_.insert(queue);
  deps_.jobs.submit<GateState>(
      Lane::control,
      [queue, rules = *breaker, silence = silence(queue), outcomes = std::move(outcomes)](GateStore& store) {
        return store.change_gate(
            queue, [&](GateState& state, EpochMs now) { return put(state, now, rules, silence, outcomes); });
      },
      [this, queue](const Result<GateState>& state) {
        busy_.erase(queue);
        if (!state)
          return log::error("changing a breaker failed",
                            {{"queue", queue}, {"reason", state.error().message}});
        deps_.gates.arrived(*state);
        flush();
      });
}

// The states may have been changed by any instance.
void Breakers::gates_changed() {
  forget_gone();
  for (const auto& [queue, state] : deps_.gates.states()) {
    note(state);
    look_after(queue, state);
  }
}

void Breakers::look_after(const std::string& queue, const GateState& state) {
  const BreakerRules* breaker = rules(queue);
  if (breaker == nullptr || !is_closed_gate(state.breaker) || busy_.contains(queue)) return;
  const EpochMs now = deps_.clock.now();
  Breaker probing = state.breaker;
  if (expire_probes(probing, *breaker, silence(queue), now) || now - state.seen_at > kConfirmBreaker)
    return change(queue, {});
  const Gates::Closed* closed = deps_.gates.why_closed(queue);
  const bool alone = closed != nullptr && closed->by == Gates::By::breaker;
  if (alone && !asking_.contains(queue) && take_probe(probing, *breaker, now) != 0 && may_ask(queue))
    ask_for_probe(queue, *breaker);
}

bool Breakers::may_ask(const std::string& queue) const {
  const auto not_before = ask_again_.find(queue);
  if (not_before != ask_again_.end() && not_before->second > deps_.clock.here().boot()) return false;
  return deps_.can_probe(queue);
}

void Breakers::ask_for_probe(const std::string& queue, const BreakerRules& rules) {
  asking_.insert(queue);
  struct Answer {
    GateState state;
    int probe = 0;
  };
  deps_.jobs.submit<Answer>(
      Lane::control,
      [queue, rules](GateStore& store) -> Result<Answer> {
        int probe = 0;
        auto state = store.change_gate(queue, [&](GateState& gate, EpochMs now) {
          probe = take_probe(gate.breaker, rules, now);
          return std::vector<SystemEvent>{};
        });
        if (!state) return tl::unexpected(state.error());
        return Answer{*std::move(state), probe};
      },
      [this, queue](const Result<Answer>& answer) {
        asking_.erase(queue);
        if (!answer)
          return log::error("asking for a probe failed",
                            {{"queue", queue}, {"reason", answer.error().message}});
        if (answer->probe != 0) {
          log::info("breaker probes", {{"queue", queue}, {"probe", answer->probe}});
          if (deps_.send_probe(queue, answer->probe)) {
            ++totals_of(queue).probes;
          } else {
            ask_again_[queue] = deps_.clock.here().boot() + kAskAgainLater;
            add(queue, {DeliveryOutcome::Kind::dropped, answer->probe, {}});
          }
        }
        deps_.gates.arrived(answer->state);
      });
}

void Breakers::note(const GateState& state) {
  if (rules(state.queue) == nullptr) return;
  const Breaker& breaker = state.breaker;
  const auto [seen, first] = seen_.emplace(state.queue, Breaker::State::closed);
  if (seen->second == breaker.state) return;
  const auto before = std::exchange(seen->second, breaker.state);
  if (breaker.state == Breaker::State::open) {
    ++totals_of(state.queue).opened;
    log::warn("breaker opened", {{"queue", state.queue},
                                 {"until", breaker.until ? format_utc(*breaker.until) : ""},
                                 {"reason", breaker.reason}});
  } else if (breaker.state == Breaker::State::closed && before != Breaker::State::closed) {
    ++totals_of(state.queue).closed;
    log::info("breaker closed", {{"queue", state.queue}, {"since", format_utc(breaker.since)}});
  }
}

}  // namespace rung::bridge
