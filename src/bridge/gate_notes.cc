#include "src/bridge/gate_notes.h"

#include <algorithm>
#include <utility>

#include "src/core/climb.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr Ms kNoteTick{1000};
constexpr std::size_t kMostNotes = 10;
constexpr Ms kConfirmWindow{30'000};  // GateState::seen_at
constexpr std::int64_t kForgetTicks = 600;
constexpr Ms kRatesKept = std::chrono::hours{24};
constexpr Ms kLimitedFor{5000};    // for so long a note about a rate holds
constexpr Ms kRenewLimited{2000};  // before its end

}  // namespace

GateNotes::GateNotes(io::Loop& loop, StoreJobs& jobs, DbClock& clock, Gates& gates, const RuleBookPtr& rules,
                     std::function<std::vector<std::string>()> limited)
    : jobs_(jobs),
      clock_(clock),
      gates_(gates),
      rules_(rules),
      limited_(std::move(limited)),
      tick_(loop, [this] { tick(); }) {}

void GateNotes::start() { tick_.start(kNoteTick, kNoteTick); }
void GateNotes::stop() { tick_.stop(); }

void GateNotes::hold_queue(const std::string& queue, Ms wait, TaskId task) {
  if (!gates_.keeps(queue)) return;  // the task itself waits
  const std::string reason = describe_hold(task, wait);
  jobs_.submit<GateState>(
      Lane::control,
      [queue, wait, reason](GateStore& store) {
        return store.change_gate(queue, [&](GateState& state, EpochMs now) {
          auto& hold = state.retry_after;
          const bool in_force = hold && hold->until > now;
          if (!in_force || hold->until < now + wait)
            hold = {in_force ? hold->since : now, now + wait, reason};
          return std::vector<SystemEvent>{};
        });
      },
      [this](const Result<GateState>& state) {
        if (state) gates_.arrived(*state);
      });
}

void GateNotes::tick() {
  const EpochMs now = clock_.now();
  // On the lane of the leases: few at a time, also if a window closes for thousands of queues.
  for (const auto& [queue, closed] : gates_.all_closed()) {
    if (busy_.size() >= kMostNotes) break;
    if (closed.by == Gates::By::window) note_window(queue, closed, now);
  }
  for (const std::string& queue : limited_()) note_limit(queue, now);
  if (ticks_++ % kForgetTicks == 0 && rules_->has_gates()) forget_rates(now);
}

// Any instance may delete them.
void GateNotes::forget_rates(EpochMs now) {
  jobs_.submit<bool>(
      Lane::upkeep,
      [before = now - kRatesKept](GateStore& store) -> Result<bool> {
        if (auto done = store.forget_gates(before); !done) return tl::unexpected(done.error());
        return true;
      },
      [](const Result<bool>& done) {
        if (!done) log::warn("unused rates not deleted", {{"reason", done.error().message}});
      });
}

void GateNotes::note_window(const std::string& queue, const Gates::Closed& closed, EpochMs now) {
  const GateState* state = gates_.state(queue);
  const bool known = state != nullptr && state->outside && state->outside->until == closed.until;
  if ((known && now - state->seen_at < kConfirmWindow) || !closed.until) return;
  const auto& window = rules_->queue(queue).gate.window;
  if (window == nullptr) return;
  change(queue, [until = *closed.until, reason = window->describe()](GateState& gate, EpochMs at) {
    const bool same = gate.outside && gate.outside->until == until;
    gate.outside = {same ? gate.outside->since : at, until, "window " + reason};
    gate.seen_at = at;
    return std::vector<SystemEvent>{};
  });
}

void GateNotes::note_limit(const std::string& queue, EpochMs now) {
  const GateState* state = gates_.state(queue);
  if (state != nullptr && state->limited && state->limited->until - now > kLimitedFor - kRenewLimited) return;
  change(queue, [reason = describe_limits(rules_->queue(queue).gate)](GateState& gate, EpochMs at) {
    const bool still = gate.limited && gate.limited->until > at;
    gate.limited = {still ? gate.limited->since : at, at + kLimitedFor, reason};
    return std::vector<SystemEvent>{};
  });
}

void GateNotes::change(const std::string& queue, GateChange change) {
  if (!gates_.keeps(queue)) return;
  if (!busy_.insert(queue).second) return;
  jobs_.submit<GateState>(
      Lane::control,
      [queue, change = std::move(change)](GateStore& store) { return store.change_gate(queue, change); },
      [this, queue](const Result<GateState>& state) {
        busy_.erase(queue);
        if (!state) return log::warn("gate not noted", {{"queue", queue}, {"reason", state.error().message}});
        gates_.arrived(*state);
      });
}

}  // namespace rung::bridge
