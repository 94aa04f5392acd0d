#include "src/bridge/flight/gates.h"

#include <algorithm>

#include "src/bridge/flight/dispatch.h"
#include "src/core/base/failpoint.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr Ms kGatesTick{250};
constexpr Ms kReadEvery{500};  // a pause is in force everywhere within a second
constexpr Ms kNoteEvery{1000};
// A commit is visible later than the time of its statement.
constexpr Ms kOverlap{5000};
constexpr Ms kReadAllEvery{30'000};
constexpr Ms kReadWithin{5000};  // after the start, or lost leases; then it is a problem
constexpr const char* kProblem = "gates";

void log_paused(const Pause& pause) {
  log::info("queue paused", {{"queue", pause.queue},
                             {"until", pause.until ? format_utc(*pause.until) : "resumed by hand"},
                             {"by", pause.who},
                             {"reason", pause.reason}});
}

// `pause`: none if its row is gone, as after a restored backup.
void log_resumed(const std::string& queue, const std::optional<Pause>& pause) {
  log::info("queue resumed", {{"queue", queue},
                              {"until", pause && pause->until ? format_utc(*pause->until) : ""},
                              {"by", pause ? pause->resumed_by : ""},
                              {"reason", pause ? pause->reason : ""}});
}

std::string shown(const std::optional<EpochMs>& until) { return until ? format_utc(*until) : ""; }

}  // namespace

Gates::Gates(const Sidecar& sidecar, std::function<void(const std::vector<std::string>&)> changed)
    : sidecar_(sidecar),
      changed_(std::move(changed)),
      read_(sidecar.table.add({"gates", kReadEvery, Lane::gates, Jobs::Who::all,
                               [this] { return started_ ? read() : Jobs::Work{}; }})),
      ends_(sidecar.loop, [this] { check_ends(); }),
      flush_(sidecar.loop, [this] { flush(); }) {
  sidecar.table.each("ends of gates", kGatesTick, Jobs::Who::all, [this] { tick(); });
  sidecar.table.each("notes of gates", kNoteEvery, Jobs::Who::all, [this] { note_what_lasts(); });
}

void Gates::start() {
  started_ = true;
  clock_measured();
  unknown_since_ = sidecar_.clock.here().boot();
  sidecar_.table.run(read_);
}

void Gates::stop() {
  started_ = false;
  ends_.stop();
  flush_.stop();
}

void Gates::invalidate() {
  if (!unknown_since_) unknown_since_ = sidecar_.clock.here().boot();
  ++generation_;
  sidecar_.table.run(read_);
}

void Gates::clock_measured() {
  if (clocked_ || !sidecar_.clock.known()) return;
  clocked_ = true;
  update_all();
  tell();
}

void Gates::see(const std::string& queue) {
  if (queue.empty() || is_listed(queue) || rules().queue(queue).gate.window == nullptr) return;
  if (std::exchange(book_[queue].seen, true)) return;
  update(queue);
  tell();
}

void Gates::unsee(const std::string& queue) {
  const auto known = book_.find(queue);
  if (known == book_.end() || !std::exchange(known->second.seen, false)) return;
  update(queue);
  tell();
}

void Gates::tick() {
  if (!started_) return;
  for (const auto& [queue, probing] : probing_) look_after(queue);
  check_ends();
  // Nothing is published before they are known.
  if (unknown_since_ && sidecar_.clock.here().boot() - *unknown_since_ >= kReadWithin)
    sidecar_.health.set(kProblem, "the gates of queues cannot be read: nothing is published",
                        Health::Effect::not_ready);
}

Jobs::Work Gates::read() {
  const bool gates = rules().has_gates();
  const bool all = unknown_since_ || (gates && !read_states_) ||
                   sidecar_.clock.here().boot() - read_all_at_ >= kReadAllEvery;
  written_.clear();
  return [this, generation = generation_, gates, all, now = sidecar_.clock.now(),
          since = all ? EpochMs{} : read_at_ - kOverlap](Store& store) {
    Reading reading{now, all, gates, store.pauses(since), {}};
    if (gates) reading.states = store.gate_states(since);
    const bool damaged = std::ranges::any_of(reading.states, &GateState::damaged);
    if (damaged && planted(Bug::damaged_gates))
      throw StoreError({Error::Kind::permanent, "a row is damaged"});
    return
        [this, generation, reading = std::move(reading)] { read_done(reading, generation == generation_); };
  };
}

void Gates::read_done(const Reading& reading, bool fresh) {
  read_at_ = reading.at;
  const bool first = fresh && unknown_since_;
  if (first) {
    unknown_since_.reset();
    sidecar_.health.clear(kProblem);
  }
  if (reading.all) {
    read_all_at_ = sidecar_.clock.here().boot();
    read_states_ = reading.states_read;
    forget_all_but(reading);
  }
  for (const Pause& pause : reading.pauses) take(pause);
  // Of what was written since this read began, the next one has the rest.
  for (const GateState& state : reading.states) {
    if (!written_.contains(state.queue)) take(state);
  }
  if (reading.all) update_all();
  tell(first);
}

void Gates::arrived(const std::vector<GateState>& states) {
  for (const GateState& state : states) {
    written_.insert(state.queue);
    take(state);
  }
  tell();
}

void Gates::take(const Pause& pause) {
  const EpochMs now = sidecar_.clock.now();
  Entry& known = book_[pause.queue];
  if (known.pause == pause) return;
  const bool was_paused = known.pause && known.pause->is_in_force(now);
  // The row of the same pause says exactly when it ended.
  if (known.pause && known.pause->since != pause.since)
    known.note_times(rules().queue(pause.queue).gate, std::min(now, pause.since));
  known.pause = pause;
  if (was_paused && pause.is_in_force(now)) log_paused(pause);
  update(pause.queue);
}

void Gates::take(const GateState& state) {
  Entry& known = book_[state.queue];
  if (known.state == state) return;
  if (state.damaged && (!known.state || !known.state->damaged))
    log::warn("the row of a queue's gates is damaged: what can be read of it applies",
              {{"queue", state.queue}});
  if (!known.state && !is_listed(state.queue) && ++unlisted_ == kMostUnlisted)
    log::warn("too many queues that the config does not name: gates of further ones are not kept",
              {{"queues", unlisted_}});
  known.take(state, rules().queue(state.queue).gate, sidecar_.clock.now());
  touched_.push_back(state.queue);
  update(state.queue);
}

// Forgets the pauses that are not in this reading of all, and the states, except those that we have written.
void Gates::forget_all_but(const Reading& reading) {
  std::set<std::string_view> paused, stated;
  for (const Pause& pause : reading.pauses) paused.insert(pause.queue);
  for (const GateState& state : reading.states) stated.insert(state.queue);
  for (auto& [queue, known] : book_) {
    if (!paused.contains(queue)) known.pause.reset();
    if (!known.state || stated.contains(queue) || written_.contains(queue)) continue;
    known.state.reset();
    if (!is_listed(queue)) --unlisted_;
    touched_.push_back(queue);
  }
}

// Of what may open or close by itself, what does now.
void Gates::check_ends() {
  if (updated_for_ != sidecar_.rules) update_all();
  const EpochMs now = sidecar_.clock.now();
  while (!by_time_.empty() && by_time_.begin()->first <= now) {
    const std::string queue = by_time_.begin()->second;
    by_time_.erase(by_time_.begin());
    book_.at(queue).next.reset();
    update(queue);
  }
  start_timer();
  tell();
}

// The loop's clock may drift from the database's: the timer is only started for a time before the next tick.
void Gates::start_timer() {
  if (by_time_.empty()) return;
  const Ms wait = by_time_.begin()->first - sidecar_.clock.now();
  if (wait < kGatesTick) ends_.start(std::max(wait, Ms{1}));
}

// The flow first: then it knows whether a task could be sent as a probe.
void Gates::tell(bool in_any_case) {
  if (touched_.empty() && !in_any_case) return;
  const std::vector<std::string> queues = std::exchange(touched_, {});
  changed_(queues);
  for (const std::string& queue : queues) {
    const GateState* known = state(queue);
    log_breaker(queue, known != nullptr && breaker_rules(queue) != nullptr ? known->breaker : Breaker{});
    look_after(queue);
  }
}

// After a reload, and now and then: in case the clock has stepped.
void Gates::update_all() {
  if (std::exchange(updated_for_, sidecar_.rules) != sidecar_.rules) {
    windows_.clear();
    unlisted_ = static_cast<std::size_t>(std::ranges::count_if(
        book_, [this](const auto& entry) { return entry.second.state && !is_listed(entry.first); }));
  }
  std::set<std::string> all;
  for (const auto& [queue, rules] : rules().queues()) {
    if (rules.gate.window != nullptr) all.insert(queue);
  }
  for (const auto& [queue, known] : book_) all.insert(queue);
  for (const std::string& queue : all) update(queue);
}

// Whether the queue is closed, and when that may change by itself.
void Gates::update(const std::string& queue) {
  if (!clocked_) return;
  const auto place = book_.try_emplace(queue).first;
  Entry& known = place->second;
  const GateRules& gate = rules().queue(queue).gate;
  const EpochMs now = sidecar_.clock.now();
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
  log_change(queue, known, why);
  if (why != known.closed) touched_.push_back(queue);
  known.closed = why;
  if (next != known.next) {
    if (known.next) by_time_.erase({*known.next, queue});
    known.next = next;
    if (next) by_time_.emplace(*next, queue);
    if (next && by_time_.begin()->second == queue) start_timer();
  }
  if (known.empty()) book_.erase(place);
}

void Gates::log_change(const std::string& queue, const Entry& known, const std::optional<Closed>& after) {
  const std::optional<Closed>& before = known.closed;
  if (before && after && before->by == after->by) return;
  if (after && after->by == GateKind::pause) log_paused(*known.pause);
  if (after && after->by == GateKind::retry_after)
    log::info(
        "queue held back by a retry-after",
        {{"queue", queue}, {"until", shown(after->until)}, {"reason", known.state->retry_after->reason}});
  if (after && after->by == GateKind::window)
    log::info("queue outside its window", {{"queue", queue}, {"until", shown(after->until)}});
  if (!before) return;  // and log_breaker() has breakers
  if (before->by == GateKind::pause) log_resumed(queue, known.pause);
  if (before->by == GateKind::window) log::info("queue inside its window", {{"queue", queue}});
  if (before->by == GateKind::retry_after) log::info("queue no longer held back", {{"queue", queue}});
}

const Gates::Entry* Gates::find(std::string_view queue) const {
  const auto known = book_.find(queue);
  return known == book_.end() ? nullptr : &known->second;
}

void Gates::each_closed(const std::function<void(const std::string&, const Closed&)>& tell) const {
  for (const auto& [queue, known] : book_) {
    if (known.closed) tell(queue, *known.closed);
  }
}

const Gates::Closed* Gates::why_closed(std::string_view queue) const {
  const Entry* known = find(queue);
  return known != nullptr && known->closed ? &*known->closed : nullptr;
}

const GateState* Gates::state(std::string_view queue) const {
  const Entry* known = find(queue);
  return known != nullptr && known->state ? &*known->state : nullptr;
}

bool Gates::keeps(std::string_view queue) const {
  return unlisted_ < kMostUnlisted || is_listed(queue) || state(queue) != nullptr;
}

Ms Gates::closed_since(std::string_view queue, EpochMs due) const {
  if (book_.empty() && !rules().has_gates()) return Ms{0};
  const EpochMs now = sidecar_.clock.now();
  if (due >= now) return Ms{0};
  const Entry* known = find(queue);
  static const Entry kNothing;
  return (known != nullptr ? *known : kNothing).closed_between(due, now, rules().queue(queue).gate);
}

}  // namespace rung::bridge
