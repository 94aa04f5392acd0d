#include "src/bridge/gates.h"

#include <algorithm>
#include <utility>

#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr Ms kReadEvery{500};  // a pause is in force everywhere within a second

void log_paused(const Pause& pause) {
  log::info("queue paused", {{"queue", pause.queue},
                             {"until", pause.until ? format_utc(*pause.until) : "resumed by hand"},
                             {"by", pause.who},
                             {"reason", pause.reason}});
}

// `pause`: nullptr if its row is gone, as after a restored backup.
void log_resumed(const std::string& queue, const Pause* pause) {
  log::info("queue resumed", {{"queue", queue},
                              {"until", pause != nullptr && pause->until ? format_utc(*pause->until) : ""},
                              {"by", pause == nullptr ? "" : pause->resumed_by},
                              {"reason", pause == nullptr ? "" : pause->reason}});
}

std::string shown(const std::optional<EpochMs>& until) { return until ? format_utc(*until) : ""; }

}  // namespace

Gates::Gates(io::Loop& loop, StoreJobs& jobs, DbClock& clock, const RuleBookPtr& rules,
             std::function<void()> changed)
    : jobs_(jobs),
      clock_(clock),
      rules_(rules),
      changed_(std::move(changed)),
      tick_(loop, [this] { tick(); }),
      end_(loop, [this] { check_ends(); }) {}

void Gates::start() {
  tick_.start(kReadEvery, kReadEvery);
  read();
}

void Gates::stop() {
  tick_.stop();
  end_.stop();
}

void Gates::invalidate() {
  known_ = false;
  ++generation_;
  read();
}

void Gates::see(const std::string& queue) {
  if (queue.empty() || rules_->queues().contains(queue) || rules_->queue(queue).gate.window == nullptr)
    return;
  if (seen_.insert(queue).second) check_ends();
}

bool Gates::keeps(std::string_view queue) const {
  return unlisted_ < kMostUnlisted || is_listed(queue) || states_.contains(queue);
}

void Gates::count_unlisted() {
  unlisted_ = static_cast<std::size_t>(
      std::ranges::count_if(states_, [this](const auto& entry) { return !is_listed(entry.first); }));
  const bool many = unlisted_ >= kMostUnlisted;
  if (many && !told_of_many_)
    log::warn("too many queues that the config does not name: gates of further ones are not kept",
              {{"queues", unlisted_}});
  told_of_many_ = many;
}

// Of queues that are neither paused nor have a state.
void Gates::forget_times() {
  std::erase_if(times_, [this](const auto& entry) {
    return !pauses_.contains(entry.first) && !states_.contains(entry.first);
  });
}

void Gates::tick() {
  check_ends();
  read();
}

void Gates::check_ends() {
  if (update_closed()) changed_();
}

void Gates::read() {
  if (std::exchange(reading_, true)) return;
  jobs_.submit<Look>(
      Lane::control,
      [gates = rules_->has_gates()](GateStore& store) -> Result<Look> {
        auto pauses = store.pauses();
        if (!pauses) return tl::unexpected(pauses.error());
        if (!gates) return Look{*std::move(pauses), {}};
        auto states = store.gate_states();
        if (!states) return tl::unexpected(states.error());
        return Look{*std::move(pauses), *std::move(states)};
      },
      [this, generation = generation_](const Result<Look>& look) {
        reading_ = false;
        if (!look) return log::error("reading the gates failed", {{"reason", look.error().message}});
        read_done(*look, generation == generation_);
      });
}

void Gates::read_done(const Look& look, bool fresh) {
  const auto before = std::exchange(pauses_, {});
  for (const Pause& pause : look.pauses) pauses_[pause.queue] = pause;
  for (const auto& [queue, pause] : pauses_) {
    const auto old = before.find(queue);
    const bool altered = old != before.end() && old->second != pause;
    if (altered && is_in_force(pause) && closed_.contains(queue)) log_paused(pause);
  }
  const auto states = std::exchange(states_, {});
  for (const GateState& state : look.states) states_[state.queue] = state;
  count_unlisted();
  forget_times();
  const bool first = fresh && !std::exchange(known_, true);
  if (update_closed() || first || states != states_) changed_();
  if (!fresh) read();
}

void Gates::arrived(const GateState& state) {
  const auto [known, first] = states_.try_emplace(state.queue);
  if (first && !is_listed(state.queue)) ++unlisted_;
  if (known->second == state) return;
  known->second = state;
  update_closed();
  changed_();
}

bool Gates::is_in_force(const Pause& pause) const {
  return !pause.over && (!pause.until || *pause.until > clock_.now());
}

void Gates::close_by_state(const std::string& queue, const GateState& state, EpochMs now,
                           ClosedQueues& closed) {
  const GateRules& gate = rules_->queue(queue).gate;
  if (state.retry_after && gate.retry_after.pauses_queue) {
    times_[queue].add(state.retry_after->since, std::min(state.retry_after->until, now));
    if (state.retry_after->until > now) closed.insert({queue, {By::retry_after, state.retry_after->until}});
  }
  const Breaker& breaker = state.breaker;
  if (!gate.breaker || breaker.opened_at.ms == 0) return;
  const bool is_closed = is_closed_gate(breaker);
  times_[queue].add(breaker.opened_at, is_closed ? now : breaker.since);
  if (is_closed) closed.insert({queue, {By::breaker, breaker.until}});
}

void Gates::close_by_window(const std::string& queue, EpochMs now, ClosedQueues& closed,
                            std::optional<EpochMs>& next) {
  const auto& window = rules_->queue(queue).gate.window;
  if (window == nullptr) return;
  const EpochMs change = window->next_change(now);
  next = std::min(next.value_or(change), change);
  if (!window->is_open(now)) closed.insert({queue, {By::window, change}});
}

// Into closed and open. True if that has changed.
bool Gates::update_closed() {
  const EpochMs now = clock_.now();
  ClosedQueues closed;
  std::optional<EpochMs> next;
  for (const auto& [queue, pause] : pauses_) {
    times_[queue].add(pause.since, is_in_force(pause) ? now : *pause.until);
    if (is_in_force(pause)) closed.insert({queue, {By::pause, pause.until}});
  }
  for (const auto& [queue, rules] : rules_->queues()) close_by_window(queue, now, closed, next);
  for (const std::string& queue : seen_) close_by_window(queue, now, closed, next);
  for (const auto& [queue, state] : states_) close_by_state(queue, state, now, closed);
  for (const auto& [queue, why] : closed) {
    if (why.until && *why.until > now) next = std::min(next.value_or(*why.until), *why.until);
  }
  // The tick sees to those that end later.
  if (next && *next - now < kReadEvery) end_.start(std::max(*next - now, Ms{1}));
  log_changes(closed);
  const bool changed = closed != closed_;
  closed_ = std::move(closed);
  return changed;
}

void Gates::log_changes(const ClosedQueues& closed) const {
  for (const auto& [queue, why] : closed) {
    const auto before = closed_.find(queue);
    if (before != closed_.end() && before->second.by == why.by) continue;
    switch (why.by) {
      case By::pause:
        log_paused(pauses_.find(queue)->second);
        break;
      case By::retry_after:
        log::info("queue held back by a retry-after",
                  {{"queue", queue},
                   {"until", shown(why.until)},
                   {"reason", states_.find(queue)->second.retry_after->reason}});
        break;
      case By::window:
        log::info("queue outside its window", {{"queue", queue}, {"until", shown(why.until)}});
        break;
      case By::breaker:
        break;  // Breakers logs it
    }
  }
  for (const auto& [queue, why] : closed_) {
    const auto now = closed.find(queue);
    if (now != closed.end() && now->second.by == why.by) continue;
    if (why.by == By::pause) {
      const auto pause = pauses_.find(queue);
      log_resumed(queue, pause == pauses_.end() ? nullptr : &pause->second);
    } else if (why.by != By::breaker) {
      log::info(why.by == By::window ? "queue inside its window" : "queue no longer held back",
                {{"queue", queue}});
    }
  }
}

Gates::Names Gates::closed() const {
  Names names;
  for (const auto& [queue, why] : closed_) names.insert(queue);
  return names;
}

std::string_view Gates::word_of(std::string_view queue, const Closed& closed) const {
  if (closed.by == By::window) return "outside_window";
  if (closed.by != By::breaker) return "paused";
  const bool waits = closed.until && *closed.until > clock_.now();
  const GateState* gate = state(queue);
  const bool half_open = gate != nullptr && gate->breaker.state == Breaker::State::half_open;
  return half_open || !waits ? "breaker_half_open" : "breaker_open";
}

const Gates::Closed* Gates::why_closed(std::string_view queue) const {
  const auto it = closed_.find(queue);
  return it == closed_.end() ? nullptr : &it->second;
}

const GateState* Gates::state(std::string_view queue) const {
  const auto it = states_.find(queue);
  return it == states_.end() ? nullptr : &it->second;
}

Ms Gates::closed_since(std::string_view queue, EpochMs due) const {
  if (times_.empty() && !rules_->has_gates()) return Ms{0};
  const EpochMs now = clock_.now();
  if (due >= now) return Ms{0};
  Ms closed{0};
  if (const auto times = times_.find(queue); times != times_.end()) closed = times->second.between(due, now);
  if (const auto& window = rules_->queue(queue).gate.window; window != nullptr)
    closed += window->closed_between(due, now);
  return std::min(closed, now - due);
}

Ms Gates::waited(std::string_view queue, EpochMs due) const {
  if (rules_->limits() && rules_->queue(queue).gate.limits()) return std::max(clock_.now() - due, Ms{0});
  return closed_since(queue, due);
}

bool Gates::was_closed(std::string_view queue, EpochMs due) const { return closed_since(queue, due) > Ms{0}; }

}  // namespace rung::bridge
