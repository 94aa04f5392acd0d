#include "src/bridge/gates/gate_writer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "src/core/base/require.h"
#include "src/core/machine/climb.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr Ms kWriteEvery{250};
constexpr Ms kReportFailures{100};  // a failure waits for others of the same moment
constexpr Ms kNoteTick{1000};
constexpr Ms kConfirmWindow{30'000};  // GateState::seen_at
constexpr std::int64_t kForgetTicks = 600;
constexpr Ms kUnusedKept = std::chrono::hours{24};
constexpr Ms kLimitedFor{5000};    // for so long a note about a rate holds
constexpr Ms kRenewLimited{2000};  // before its end

}  // namespace

GateWriter::GateWriter(io::Loop& loop, Deps deps)
    : deps_(std::move(deps)), tick_(loop, [this] { tick(); }), flush_(loop, [this] { flush(); }) {}

void GateWriter::start() { tick_.start(kNoteTick, kNoteTick); }

void GateWriter::stop() {
  tick_.stop();
  flush_.stop();
}

// Successes wait here until there is a failure beside them: too many queues that had none are forgotten.
bool GateWriter::make_room(const std::string& queue) {
  const std::size_t most = kMostPending + deps_.rules->queues().size();
  if (pending_.size() < most || is_listed(queue)) return true;
  std::erase_if(pending_,
                [this](const auto& entry) { return !entry.second.queued && !is_listed(entry.first); });
  return pending_.size() < most;
}

// nullptr: the queue's gates are not kept, or too much waits.
GateWriter::Note* GateWriter::note(const std::string& queue) {
  if (const auto known = pending_.find(queue); known != pending_.end()) return &known->second;
  if (!deps_.gates.keeps(queue) || !make_room(queue)) return nullptr;
  return &pending_[queue];
}

void GateWriter::ready(const std::string& queue, Ms wait) {
  const auto waiting = pending_.find(queue);
  RUNG_REQUIRE(waiting != pending_.end());
  if (!std::exchange(waiting->second.queued, true)) ready_.push_back(queue);
  if (writing_) return;  // written() sees to it
  const BootMs now = deps_.clock.here().boot();
  const BootMs at = std::max(now + wait, wrote_at_ + kWriteEvery);
  if (flush_.active() && fires_at_ <= at) return;
  fires_at_ = at;
  flush_.start(at - now);
}

void GateWriter::outcome(const std::string& queue, DeliveryOutcome outcome) {
  const auto& breaker = deps_.rules->queue(queue).gate.breaker;
  Note* waiting = breaker ? note(queue) : nullptr;
  if (waiting == nullptr) return;
  // An answer to a probe decides whether the next one goes.
  const bool is_urgent = outcome.probe != 0 && outcome.kind != DeliveryOutcome::Kind::published;
  waiting->outcomes.add(std::move(outcome), breaker->of_last);
  // Successes only matter beside failures: they wait.
  if (waiting->outcomes.matters()) ready(queue, is_urgent ? Ms{0} : kReportFailures);
}

void GateWriter::ask_for_probe(const std::string& queue) {
  Note* waiting = note(queue);
  if (waiting == nullptr) return deps_.granted(queue, 0);
  waiting->probe = true;
  ready(queue, Ms{0});
}

void GateWriter::look_after(const std::string& queue) {
  Note* waiting = note(queue);
  if (waiting != nullptr) ready(queue, kWriteEvery);
}

void GateWriter::hold_queue(const std::string& queue, Ms wait, TaskId task) {
  Note* waiting = note(queue);
  if (waiting == nullptr) return;  // the task itself waits
  if (!waiting->hold || waiting->hold->wait < wait) waiting->hold = {wait, describe_hold(task, wait)};
  ready(queue, Ms{0});
}

void GateWriter::tick() {
  note_windows();
  for (const std::string& queue : deps_.limited()) note_limit(queue);
  if (ticks_++ % kForgetTicks == 0 && deps_.rules->has_gates()) forget_unused();
}

void GateWriter::note_windows() {
  const EpochMs now = deps_.clock.now();
  deps_.gates.each_closed([&](const std::string& queue, const Gates::Closed& closed) {
    if (closed.by != GateKind::window || !closed.until) return;
    const GateState* state = deps_.gates.state(queue);
    const bool known = state != nullptr && state->outside && state->outside->until == closed.until;
    if (known && now - state->seen_at < kConfirmWindow) return;
    const auto& window = deps_.rules->queue(queue).gate.window;
    Note* waiting = window != nullptr ? note(queue) : nullptr;
    if (waiting == nullptr) return;
    waiting->outside = {now, *closed.until, "window " + window->describe()};
    ready(queue, kWriteEvery);
  });
}

void GateWriter::note_limit(const std::string& queue) {
  const GateState* state = deps_.gates.state(queue);
  const bool noted = state != nullptr && state->limited &&
                     state->limited->until - deps_.clock.now() > kLimitedFor - kRenewLimited;
  Note* waiting = noted ? nullptr : note(queue);
  if (waiting == nullptr) return;
  waiting->limited = {kLimitedFor, describe_limits(deps_.rules->queue(queue).gate)};
  ready(queue, kWriteEvery);
}

// Any instance may delete them.
void GateWriter::forget_unused() {
  deps_.jobs.submit<void>(
      Lane::upkeep,
      [before = deps_.clock.now() - kUnusedKept](GateStore& store) { return store.forget_gates(before); },
      [](const Result<void>& done) {
        if (!done) log::warn("unused gates not deleted", {{"reason", done.error().message}});
      });
}

void GateWriter::flush() {
  if (writing_ || ready_.empty()) return;
  writing_ = true;
  wrote_at_ = deps_.clock.here().boot();
  const auto notes = std::make_shared<Notes>();
  const auto probes = std::make_shared<Probes>();
  GateBatch batch{{}, {}, deps_.identity.name};
  batch.id = std::to_string(deps_.identity.incarnation) + '-' + std::to_string(++batches_);
  for (; !ready_.empty() && batch.queues.size() < GateBatch::kMost; ready_.pop_front()) {
    batch.queues.push_back(ready_.front());
    auto taken = pending_.extract(ready_.front());
    RUNG_REQUIRE(!taken.empty());
    notes->insert(std::move(taken));
  }
  std::ranges::sort(batch.queues);
  // A repeat of an applied batch does not call this: `probes` then has what that one granted.
  batch.change = [notes, probes, rules = deps_.rules](GateState& state, EpochMs now) {
    std::vector<SystemEvent> events;
    const auto turned = [&](const Breaker& breaker) {
      const char* kind = is_closed_gate(breaker) ? "breaker_opened" : "breaker_closed";
      events.push_back({0, {}, "", kind, state.queue, describe_change(breaker)});
    };
    const QueueRules& of = rules->queue(state.queue);
    (*probes)[state.queue] = apply_note(state, notes->at(state.queue), of, now, turned);
    return events;
  };
  deps_.jobs.submit<std::vector<GateState>>(
      Lane::gate_writes,
      [batch = std::move(batch), probes,
       singly = std::make_shared<std::optional<std::map<std::string, GateState>>>()](
          GateStore& store) -> Result<std::vector<GateState>> {
        if (!*singly) {
          auto states = store.change_gates(batch);
          if (states || states.error().kind != Error::Kind::permanent || batch.queues.size() == 1)
            return states;
          singly->emplace();  // for good: the batch as a whole would count again what is written by then
        }
        // Something about one of them: the others are written.
        std::vector<GateState> written;
        for (std::size_t i = 0; i < batch.queues.size(); ++i) {
          const std::string& queue = batch.queues[i];
          if (const auto before = (*singly)->find(queue);
              before != (*singly)->end()) {  // by the attempt before
            written.push_back(before->second);
            continue;
          }
          auto one =
              store.change_gates({{queue}, batch.change, batch.maker, batch.id + '/' + std::to_string(i)});
          if (one) {
            written.push_back(one->front());
            (*singly)->emplace(queue, std::move(one->front()));
          } else if (one.error().is_transient()) {
            return one;
          } else {
            probes->erase(queue);
            log::error("gates not written",
                       {{"queues", 1}, {"queue", queue}, {"reason", one.error().message}});
          }
        }
        return written;
      },
      [this, notes, probes](const Result<std::vector<GateState>>& states) {
        written(*notes, *probes, states);
      });
}

void GateWriter::written(const Notes& notes, const Probes& probes,
                         const Result<std::vector<GateState>>& states) {
  writing_ = false;
  if (states) {
    deps_.gates.arrived(*states);
  } else {
    log::error("gates not written", {{"queues", notes.size()}, {"reason", states.error().message}});
  }
  for (const auto& [queue, note] : notes) {
    if (!note.probe) continue;
    const auto probe = probes.find(queue);
    deps_.granted(queue, states && probe != probes.end() ? probe->second : 0);
  }
  if (!ready_.empty()) ready(ready_.front(), Ms{0});
}

}  // namespace rung::bridge
