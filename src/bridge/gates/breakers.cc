#include "src/bridge/gates/breakers.h"

#include <utility>

#include "src/core/machine/machine.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr Ms kBreakerTick{250};
constexpr Ms kAskAgainLater{1000};

}  // namespace

Breakers::Breakers(io::Loop& loop, Deps deps) : deps_(std::move(deps)), tick_(loop, [this] { tick(); }) {}

void Breakers::start() { tick_.start(kBreakerTick, kBreakerTick); }
void Breakers::stop() { tick_.stop(); }

const BreakerRules* Breakers::rules(const std::string& queue) const {
  if (!deps_.rules->has_gates() || queue.empty()) return nullptr;
  const auto& breaker = deps_.rules->queue(queue).gate.breaker;
  return breaker && deps_.gates.keeps(queue) ? &*breaker : nullptr;
}

void Breakers::published(const Task& task) {
  if (rules(task.queue) == nullptr) return;
  deps_.writer.outcome(task.queue, {DeliveryOutcome::Kind::published, task.probe, {}});
  if (task.probe != 0) ++totals_of(task.queue).probes;
}

void Breakers::unsent(const std::string& queue, int probe) {
  ask_again_[queue] = deps_.clock.here().boot() + kAskAgainLater;
  deps_.writer.outcome(queue, {DeliveryOutcome::Kind::dropped, probe, {}});
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
    if (task.probe != 0) unsent(queue, task.probe);
    return;
  }
  if (decision.attempt->outcome == Outcome::pending) return;  // published() has it
  auto outcome = outcome_of(task, *decision.attempt, *breaker);
  if (!outcome) return;
  const bool next = outcome->probe != 0 && outcome->kind == DeliveryOutcome::Kind::succeeded;
  deps_.writer.outcome(queue, *std::move(outcome));
  if (next && !asking_.contains(queue) && deps_.can_probe(queue)) ask(queue);  // in the same transaction
}

void Breakers::ask(const std::string& queue) {
  asking_.insert(queue);
  deps_.writer.ask_for_probe(queue);
}

Breakers::Totals& Breakers::totals_of(const std::string& queue) {
  const bool own = totals_.size() < kMostTotals || totals_.contains(queue) || is_listed(queue);
  return totals_[own ? queue : "(other)"];
}

void Breakers::tick() {
  for (const auto& [queue, state] : not_closed_) look_after(queue);
}

void Breakers::gates_changed(const std::vector<std::string>& queues) {
  for (const std::string& queue : queues) {
    const GateState* state = deps_.gates.state(queue);
    note(queue, state != nullptr && rules(queue) != nullptr ? state->breaker : Breaker{});
    look_after(queue);
  }
}

bool Breakers::is_closed_by_breaker(const std::string& queue) const {
  const Gates::Closed* closed = deps_.gates.why_closed(queue);
  return closed != nullptr && closed->by == GateKind::breaker;
}

void Breakers::look_after(const std::string& queue) {
  const GateState* state = deps_.gates.state(queue);
  const BreakerRules* breaker = rules(queue);
  if (state == nullptr || breaker == nullptr || !is_closed_gate(state->breaker)) return;
  const EpochMs now = deps_.clock.now();
  const Unanswered silence = unanswered(deps_.rules->queue(queue));
  Breaker probing = state->breaker;
  if (expire_probes(probing, *breaker, silence, now) || now - state->seen_at > kConfirmBreaker)
    return deps_.writer.look_after(queue);
  if (asking_.contains(queue) || !is_closed_by_breaker(queue) || take_probe(probing, *breaker, now) == 0)
    return;
  const auto not_before = ask_again_.find(queue);
  const bool too_early = not_before != ask_again_.end() && not_before->second > deps_.clock.here().boot();
  if (too_early || !deps_.can_probe(queue)) return;
  ask(queue);
}

void Breakers::granted(const std::string& queue, int probe) {
  asking_.erase(queue);
  if (probe == 0) return;
  log::info("breaker probes", {{"queue", queue}, {"probe", probe}});
  // Meanwhile it may have been paused.
  if (!is_closed_by_breaker(queue) || !deps_.send_probe(queue, probe)) unsent(queue, probe);
}

void Breakers::note(const std::string& queue, const Breaker& breaker) {
  const auto seen = not_closed_.find(queue);
  const auto before = seen == not_closed_.end() ? Breaker::State::closed : seen->second;
  if (before == breaker.state) return;
  if (breaker.state == Breaker::State::closed) {
    not_closed_.erase(queue);
    ask_again_.erase(queue);
    if (breaker.since.ms == 0) return;  // it is gone: from the config, or the database
    ++totals_of(queue).closed;
    log::info("breaker closed", {{"queue", queue}, {"since", format_utc(breaker.since)}});
    return;
  }
  not_closed_[queue] = breaker.state;
  if (breaker.state != Breaker::State::open) return;
  ++totals_of(queue).opened;
  log::warn("breaker opened", {{"queue", queue},
                               {"until", breaker.until ? format_utc(*breaker.until) : ""},
                               {"reason", breaker.reason}});
}

}  // namespace rung::bridge
