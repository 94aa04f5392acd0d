#include "src/api/rules/replay.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <queue>

#include "src/api/rules/replay_queue.h"
#include "src/core/machine/climb.h"
#include "src/core/machine/machine.h"
#include "src/core/rules/rate_value.h"

namespace rung::api {
namespace {

constexpr int kReplayNode = 1;
constexpr std::uint64_t kReplayEpoch = 1;

// splitmix64: the same jitter for the same message and attempt, whatever else differs between two replays.
double jitter_of(std::uint64_t seed, std::uint32_t message, int attempt) {
  std::uint64_t x =
      seed + 0x9e3779b97f4a7c15U * ((std::uint64_t{message} << 20U) + static_cast<unsigned>(attempt) + 1);
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  x ^= x >> 31U;
  return static_cast<double>(x >> 11U) * 0x1.0p-53;
}

// A message on its way through the replay.
struct Climber {
  Task task;
  std::size_t gate = 0;                   // of the queue to which it was delivered last
  const RecordedFailure* says = nullptr;  // what the delivery under way fails with; nullptr = it succeeds
  bool answer_due = false;                // an answer to the delivery under way is still to come
  EpochMs delivered_at;
  bool was_held = false;
};

enum class What : std::uint8_t { begins, due, answered, silent, gate };

struct Step {
  EpochMs at;
  std::uint64_t order = 0;  // among steps of the same time
  What what = What::begins;
  std::uint32_t which = 0;  // the message, or the gate
  int attempt = 0;          // due: deliveries before it; answered, silent: of which delivery
  bool operator>(const Step& other) const { return at != other.at ? at > other.at : order > other.order; }
};

class Replay {
 public:
  Replay(const FailureLog& log, const RuleBook& rules, const ReplayOptions& options)
      : log_(log), rules_(rules), options_(options), climbers_(log.messages().size()) {
    EpochMs last{0};
    for (std::uint32_t i = 0; i < log.messages().size(); ++i) {
      const FailedMessage& message = log.messages()[i];
      push(message.began(), What::begins, i, 0);
      last = std::max(last, message.failures.back().at);
    }
    until_ = options.until.value_or(last + kReplayed);
  }

  ReplayTotals run() {
    totals_.messages = static_cast<std::int64_t>(climbers_.size());
    while (!steps_.empty() && steps_.top().at <= until_) {
      if (static_cast<std::int64_t>(totals_.deliveries.size()) >= options_.most_deliveries) {
        totals_.cut = true;
        break;
      }
      const Step step = steps_.top();
      steps_.pop();
      now_ = step.at;
      take(step);
    }
    now_ = until_;
    for (auto& climber : climbers_) {
      if (climber != nullptr) settle(*climber);
    }
    totals_.breaker_opened = totals_.probes = 0;
    for (const Gate& gate : gates_) {
      *totals_.breaker_opened += gate.gate.opened();
      *totals_.probes += gate.gate.probes();
    }
    totals_.waiting +=
        totals_.messages - totals_.succeeded - totals_.parked - totals_.discarded - totals_.waiting;
    std::ranges::sort(totals_.to_success);
    return std::move(totals_);
  }

 private:
  struct Gate {
    const QueueRules& rules;
    ReplayQueue gate;
    std::optional<EpochMs> asks_at = {};  // the earliest step that asks it
    EpochMs asked_at = {};
    explicit Gate(const QueueRules& r) : rules(r), gate(r) {}
  };

  void push(EpochMs at, What what, std::uint32_t which, int attempt) {
    steps_.push({at, ++order_, what, which, attempt});
  }

  void take(const Step& step) {
    if (step.what == What::begins) return begin_message(step.which);
    if (step.what == What::gate) {
      auto& asks_at = gates_[step.which].asks_at;
      if (asks_at && *asks_at <= now_) asks_at.reset();
      return ask(step.which);
    }
    Climber* climber = climbers_[step.which].get();
    if (climber == nullptr) return;
    if (step.what == What::due) return due(step.which, *climber, step.attempt);
    if (step.attempt != climber->task.attempt) return;
    if (step.what == What::answered) return answered(step.which, *climber);
    apply(step.which, *climber, event::SilenceOver{});
  }

  Circumstances circumstances(std::uint32_t which, int attempt) const {
    Circumstances at;
    at.now = now_;
    at.random = jitter_of(options_.seed, which, attempt);
    at.node = kReplayNode;
    at.epoch = kReplayEpoch;
    return at;
  }

  void begin_message(std::uint32_t which) {
    const FailedMessage& message = log_.messages()[which];
    climbers_[which] = std::make_unique<Climber>();
    Task& task = climbers_[which]->task;
    task.id = TaskId{static_cast<std::int64_t>(which) + 1};
    task.queue = options_.queue;
    task.tag = message.tag;
    task.rule_headers = message.headers;
    task.created_at = task.first_failed_at = now_;
    task.last_error = message.failures.front().text->error;
    task.error_type = message.failures.front().text->type;
    Directives directives;
    directives.ladder = message.ladder;
    directives.max_attempts = message.max_attempts;
    directives.retry_after = message.failures.front().retry_after;
    begin(task, directives, rules_, now_, circumstances(which, 0).random);
    follow(which);
  }

  std::size_t gate_of(const std::string& queue) {
    const auto [place, fresh] = gate_places_.try_emplace(queue, gates_.size());
    if (fresh) gates_.emplace_back(rules_.queue(queue));
    return place->second;
  }

  void due(std::uint32_t which, Climber& climber, int attempt) {
    if (climber.task.state != State::scheduled || climber.task.attempt != attempt) return;
    const std::size_t at = gate_of(climber.task.queue);
    climber.gate = at;
    const auto& rate_by = gates_[at].rules.gate.rate_by;
    gates_[at].gate.add(which, rate_by ? rate_value(climber.task.rule_headers, rate_by->header) : "", now_);
    ask_soon(at);
  }

  // As ask(), but where send times are needed at most every ReplayQueue::kAskEvery, as in the sidecar.
  void ask_soon(std::size_t at) {
    const EpochMs next = may_ask(gates_[at]);
    if (next <= now_) return ask(at);
    wake(at, next);
  }

  EpochMs may_ask(const Gate& gate) const {
    return gate.rules.gate.limits() ? std::max(now_, gate.asked_at + ReplayQueue::kAskEvery) : now_;
  }

  // Publishes what the gate lets through.
  void ask(std::size_t at) {
    Gate& gate = gates_[at];
    gate.asked_at = now_;
    for (const ReplayQueue::Pass& pass : gate.gate.let_through(now_)) publish(pass);
    wake(at, gate.gate.ask_again(now_));
  }

  void wake(std::size_t at, std::optional<EpochMs> when) {
    Gate& gate = gates_[at];
    if (!when || (gate.asks_at && *gate.asks_at <= *when)) return;
    gate.asks_at = when;
    push(*when, What::gate, static_cast<std::uint32_t>(at), 0);
  }

  void publish(const ReplayQueue::Pass& pass) {
    Climber& climber = *climbers_[pass.message];
    if (const Ms late = now_ - pass.due; late >= kHeldBack) {
      if (!climber.was_held) ++totals_.held;
      climber.was_held = true;
      totals_.held_total += late;
      totals_.held_longest = std::max(totals_.held_longest, late);
    }
    apply(pass.message, climber, event::Claim{Ms{0}, pass.gated, pass.probe});
    if (climber.task.state != State::publishing) return;
    totals_.deliveries.push_back(now_);
    climber.delivered_at = now_;
    const FailedMessage& message = log_.messages()[pass.message];
    climber.says = message.works_at && now_ >= *message.works_at ? nullptr : &current(message);
    climber.answer_due = false;
    const int attempt = climber.task.attempt;
    if (climber.says != nullptr && climber.says->text->how == FailureText::How::returned)
      return apply(pass.message, climber, event::Returned{attempt, now_, climber.says->text->error});
    const bool presumed =
        silence_of(climber.task, rules_).means == Silence::Means::success && !message.reported;
    const bool quiet =
        climber.says != nullptr ? climber.says->text->how == FailureText::How::silent : presumed;
    apply(pass.message, climber, event::Confirmed{attempt, now_});
    const Ms answer = climber.says != nullptr ? climber.says->answer : message.answer;
    const EpochMs silent_at = climber.task.next_at.value_or(now_);
    climber.answer_due = !quiet;
    if (!quiet) push(now_ + answer, What::answered, pass.message, attempt);
    if (quiet || now_ + answer > silent_at) push(silent_at, What::silent, pass.message, attempt);
  }

  // The last failure at or before now, else the first.
  const RecordedFailure& current(const FailedMessage& message) const {
    const auto after = std::ranges::upper_bound(message.failures, now_, {}, &RecordedFailure::at);
    return after == message.failures.begin() ? message.failures.front() : *std::prev(after);
  }

  void answered(std::uint32_t which, Climber& climber) {
    climber.answer_due = false;
    const int attempt = climber.task.attempt;
    if (climber.says == nullptr) return apply(which, climber, event::Succeeded{attempt});
    const FailureText& text = *climber.says->text;
    Directives directives;
    directives.retry_after = climber.says->retry_after;
    event::Failed failed{attempt, text.error, text.type, directives};
    failed.proven = true;
    apply(which, climber, std::move(failed));
  }

  // Lets the state machine decide, and tells the gate of what came of it.
  void apply(std::uint32_t which, Climber& climber, const Happening& what) {
    const bool was_open = climber.task.state == State::publishing || climber.task.state == State::awaiting;
    Decision decision = decide(climber.task, what, rules_, circumstances(which, climber.task.attempt));
    if (decision.verdict != Decision::Verdict::applied) return;
    climber.task = std::move(decision.task);
    const std::size_t at = climber.gate;
    GateNote note;
    if (const auto& breaker = gates_[at].rules.gate.breaker; breaker && decision.attempt) {
      if (auto outcome = outcome_of(climber.task, *decision.attempt, *breaker))
        note.outcomes.add(*std::move(outcome), breaker->of_last);
    }
    if (decision.holds_queue) note.hold = {*decision.holds_queue, {}};
    if (note.hold || !note.outcomes.empty()) gates_[at].gate.change(note, now_);
    if (note.hold) wake(at, gates_[at].gate.ask_again(now_));
    const bool open = climber.task.state == State::publishing || climber.task.state == State::awaiting;
    if (was_open && !open) gates_[at].gate.ended();
    if (!open) follow(which);
    if (gates_[at].gate.waits_for_answers() && !std::holds_alternative<event::Claim>(what))
      wake(at, may_ask(gates_[at]));
  }

  // What comes after a step that ended an attempt.
  void follow(std::uint32_t which) {
    Climber& climber = *climbers_[which];
    if (climber.task.state == State::scheduled)
      return push(*climber.task.next_at, What::due, which, climber.task.attempt);
    if (climber.answer_due) return;  // a presumed success, which may yet fail
    settle(climber);
    climbers_[which].reset();
  }

  void settle(const Climber& climber) {
    switch (climber.task.state) {
      case State::succeeded:
        ++totals_.succeeded;
        totals_.to_success.push_back(climber.delivered_at - climber.task.first_failed_at);
        break;
      case State::parked:
        ++totals_.parked;
        if (climber.task.rule == "give_up") ++totals_.given_up;
        break;
      case State::discarded:
        ++totals_.discarded;
        break;
      default:
        ++totals_.waiting;
    }
  }

  const FailureLog& log_;
  const RuleBook& rules_;
  const ReplayOptions& options_;
  std::vector<std::unique_ptr<Climber>> climbers_;  // nullptr: has not begun, or has finished
  std::priority_queue<Step, std::vector<Step>, std::greater<>> steps_;
  std::uint64_t order_ = 0;
  std::map<std::string, std::size_t> gate_places_;
  std::deque<Gate> gates_;  // by queue
  EpochMs now_, until_;
  ReplayTotals totals_;
};

}  // namespace

ReplayTotals replay(const FailureLog& log, const RuleBook& rules, const ReplayOptions& options) {
  return Replay(log, rules, options).run();
}

std::vector<std::int64_t> load_of(const std::vector<EpochMs>& deliveries, EpochMs from, Ms width,
                                  std::size_t buckets) {
  std::vector<std::int64_t> out(buckets);
  for (const EpochMs at : deliveries) {
    if (at < from) continue;
    const auto bucket = static_cast<std::size_t>((at - from) / width);
    if (bucket < buckets) ++out[bucket];
  }
  return out;
}

std::int64_t peak_of(const std::vector<EpochMs>& deliveries, Ms width) {
  std::int64_t most = 0, count = 0, current = -1;
  for (const EpochMs at : deliveries) {
    const std::int64_t bucket = at.ms / width.count();
    if (bucket != current) count = 0;
    current = bucket;
    most = std::max(most, ++count);
  }
  return most;
}

}  // namespace rung::api
