#include "src/bridge/gates/gates.h"

#include <algorithm>
#include <set>
#include <utility>

#include "src/io/log.h"

namespace rung::bridge {
namespace {

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

Gates::Gates(io::Loop& loop, StoreJobs& jobs, DbClock& clock, const RuleBookPtr& rules, Health& health,
             Changed changed)
    : clock_(clock),
      rules_(rules),
      changed_(std::move(changed)),
      reader_(jobs, clock, rules, health,
              [this](const GateReading& reading, const Names& written, bool first) {
                take(reading, written, first);
              }),
      queues_(clock, rules),
      ends_(loop, clock, [this] { check_ends(); }),
      tick_(loop, [this] { tick(); }) {}

void Gates::start() {
  tick_.start(GateEnds::kTick, GateEnds::kTick);
  clock_measured();
  reader_.start();
}

void Gates::stop() {
  tick_.stop();
  ends_.stop();
}

void Gates::invalidate() { reader_.invalidate(); }

void Gates::clock_measured() {
  if (clocked_ || !clock_.known()) return;
  clocked_ = true;
  update_all();
  tell();
}

void Gates::see(const std::string& queue) {
  if (queue.empty() || is_listed(queue) || rules_->queue(queue).gate.window == nullptr) return;
  if (!queues_.see(queue)) return;
  update(queue);
  tell();
}

void Gates::unsee(const std::string& queue) {
  if (!queues_.unsee(queue)) return;
  update(queue);
  tell();
}

void Gates::tick() {
  check_ends();
  reader_.tick();
}

void Gates::take(const GateReading& reading, const Names& written, bool first) {
  if (reading.all) {
    for (std::string& queue : queues_.forget_all_but(reading, written)) touched_.push_back(std::move(queue));
  }
  for (const Pause& pause : reading.pauses) {
    const EpochMs now = clock_.now();
    const auto& before = queues_.of(pause.queue).pause;
    const bool was_paused = before && before->is_in_force(now);
    if (!queues_.take(pause)) continue;
    if (was_paused && pause.is_in_force(now)) log_paused(pause);
    update(pause.queue);
  }
  // Of what was written since this read began, the next one has the rest.
  for (const GateState& state : reading.states) {
    if (!written.contains(state.queue)) take(state);
  }
  if (reading.all) update_all();
  if (first) changed_(std::exchange(touched_, {}));
  tell();
}

void Gates::arrived(const std::vector<GateState>& states) {
  for (const GateState& state : states) {
    reader_.written(state.queue);
    take(state);
  }
  tell();
}

void Gates::take(const GateState& state) {
  if (!queues_.take(state)) return;
  touched_.push_back(state.queue);
  update(state.queue);
}

// Of what may open or close by itself, what does now.
void Gates::check_ends() {
  if (updated_for_ != rules_) update_all();
  ends_.take_due([this](const std::string& queue) { update(queue); });
  tell();
}

void Gates::tell() {
  if (!touched_.empty()) changed_(std::exchange(touched_, {}));
}

// After a reload, and now and then: in case the clock has stepped.
void Gates::update_all() {
  if (std::exchange(updated_for_, rules_) != rules_) {
    windows_.clear();
    queues_.reloaded();
  }
  std::set<std::string> all;
  for (const auto& [queue, rules] : rules_->queues()) {
    if (rules.gate.window != nullptr) all.insert(queue);
  }
  for (const auto& [queue, known] : queues_.all()) all.insert(queue);
  for (const auto& [queue, at] : ends_.all()) all.insert(queue);
  for (const std::string& queue : all) update(queue);
}

// Whether the queue is closed, and when that may change by itself.
void Gates::update(const std::string& queue) {
  if (!clocked_) return;
  const KnownQueues::Queue& known = queues_.of(queue);
  const GateRules& gate = rules_->queue(queue).gate;
  const EpochMs now = clock_.now();
  WindowNow* window = nullptr;
  if (gate.window != nullptr && (known.seen || is_listed(queue))) {
    window = &windows_[gate.window.get()];
    window->look(*gate.window, now);
  }
  std::optional<Closed> why;
  if (const auto by = known.in_force(gate, window, now)) why = {by->by, by->until, by->word};
  std::optional<EpochMs> next = why ? why->until : std::nullopt;
  if (next && *next <= now) next.reset();  // a breaker that only waits for its probes
  if (window != nullptr) next = std::min(next.value_or(window->until), window->until);
  const auto before = closed_.find(queue);
  const Closed* was = before == closed_.end() ? nullptr : &before->second;
  log_change(queue, known, was, why ? &*why : nullptr);
  const bool same = why.has_value() == (was != nullptr) && (!why || *why == *was);
  if (!same) touched_.push_back(queue);
  if (!why && was != nullptr) {
    closed_.erase(before);
  } else if (why) {
    closed_.insert_or_assign(queue, *why);
  }
  ends_.set(queue, next);
  if (!next) queues_.forget_if_unused(queue);
}

void Gates::log_change(const std::string& queue, const KnownGates& known, const Closed* before,
                       const Closed* after) const {
  if (before != nullptr && after != nullptr && before->by == after->by) return;
  if (after != nullptr && after->by == GateKind::pause) log_paused(*known.pause);
  if (after != nullptr && after->by == GateKind::retry_after)
    log::info(
        "queue held back by a retry-after",
        {{"queue", queue}, {"until", shown(after->until)}, {"reason", known.state->retry_after->reason}});
  if (after != nullptr && after->by == GateKind::window)
    log::info("queue outside its window", {{"queue", queue}, {"until", shown(after->until)}});
  if (before == nullptr) return;  // and Breakers logs breakers
  if (before->by == GateKind::pause) log_resumed(queue, known.pause ? &*known.pause : nullptr);
  if (before->by == GateKind::window) log::info("queue inside its window", {{"queue", queue}});
  if (before->by == GateKind::retry_after) log::info("queue no longer held back", {{"queue", queue}});
}

const Gates::Closed* Gates::why_closed(std::string_view queue) const {
  const auto it = closed_.find(queue);
  return it == closed_.end() ? nullptr : &it->second;
}

Ms Gates::waited(std::string_view queue, EpochMs due) const {
  if (rules_->limits() && rules_->queue(queue).gate.limits()) return std::max(clock_.now() - due, Ms{0});
  return closed_since(queue, due);
}

}  // namespace rung::bridge
