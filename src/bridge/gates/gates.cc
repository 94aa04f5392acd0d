#include "src/bridge/gates/gates.h"

#include <algorithm>
#include <utility>

#include "src/core/base/failpoint.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr Ms kReadEvery{500};  // a pause is in force everywhere within a second
// A commit is visible later than the time of its statement, and a row that is gone is in no list of changes.
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
    : jobs_(jobs),
      clock_(clock),
      rules_(rules),
      health_(health),
      changed_(std::move(changed)),
      tick_(loop, [this] { tick(); }),
      end_(loop, [this] { check_ends(); }) {}

void Gates::start() {
  unknown_since_ = clock_.here().boot();
  tick_.start(kReadEvery, kReadEvery);
  clock_measured();
  read();
}

void Gates::stop() {
  tick_.stop();
  end_.stop();
}

void Gates::invalidate() {
  if (std::exchange(known_, false)) unknown_since_ = clock_.here().boot();
  ++generation_;
  read();
}

void Gates::clock_measured() {
  if (clocked_ || !clock_.known()) return;
  clocked_ = true;
  update_all();
  tell();
}

void Gates::see(const std::string& queue) {
  if (queue.empty() || is_listed(queue) || rules_->queue(queue).gate.window == nullptr) return;
  if (std::exchange(queues_[queue].seen, true)) return;
  update(queue);
  tell();
}

void Gates::unsee(const std::string& queue) {
  const auto known = queues_.find(queue);
  if (known == queues_.end() || !std::exchange(known->second.seen, false)) return;
  update(queue);
  tell();
}

bool Gates::keeps(std::string_view queue) const {
  return unlisted_ < kMostUnlisted || is_listed(queue) || state(queue) != nullptr;
}

void Gates::tick() {
  check_ends();
  check_health();
  read();
}

// Nothing is published before they are known.
void Gates::check_health() {
  if (known_ || clock_.here().boot() - unknown_since_ < kReadWithin) return;
  health_.set(kProblem, "the gates of queues cannot be read: nothing is published",
              Health::Effect::not_ready);
}

void Gates::read() {
  if (std::exchange(reading_, true)) return;
  const bool gates = rules_->has_gates();
  const bool all =
      !known_ || (gates && !read_states_) || clock_.here().boot() - read_all_at_ >= kReadAllEvery;
  written_.clear();
  jobs_.submit<Look>(
      Lane::gates,
      [gates, all, now = clock_.now(),
       since = all ? EpochMs{} : read_at_ - kOverlap](Store& store) -> Result<Look> {
        auto pauses = store.pauses(since);
        if (!pauses) return tl::unexpected(pauses.error());
        if (!gates) return Look{now, all, false, *std::move(pauses), {}};
        auto states = store.gate_states(since);
        if (!states) return tl::unexpected(states.error());
        const bool damaged = std::ranges::any_of(*states, &GateState::damaged);
        if (damaged && planted(Bug::damaged_gates)) return permanent("a row is damaged");
        return Look{now, all, true, *std::move(pauses), *std::move(states)};
      },
      [this, generation = generation_](const Result<Look>& look) {
        reading_ = false;
        if (!look) return log::error("reading the gates failed", {{"reason", look.error().message}});
        read_done(*look, generation == generation_);
      });
}

void Gates::read_done(const Look& look, bool fresh) {
  read_at_ = look.at;
  if (look.all) {
    read_all_at_ = clock_.here().boot();
    read_states_ = look.states_read;
    std::set<std::string_view> there;
    for (const Pause& pause : look.pauses) there.insert(pause.queue);
    std::erase_if(damaged_, [&](const auto& queue) { return state(queue) == nullptr; });
    for (auto& [queue, known] : queues_) {
      if (known.pause && !there.contains(queue)) known.pause.reset();
    }
    there.clear();
    for (const GateState& state : look.states) there.insert(state.queue);
    for (auto& [queue, known] : queues_) {
      if (!known.state || there.contains(queue) || written_.contains(queue)) continue;
      known.state.reset();
      if (!is_listed(queue)) --unlisted_;
      touched_.push_back(queue);
    }
  }
  for (const Pause& pause : look.pauses) {
    Queue& known = queues_[pause.queue];
    if (known.pause == pause) continue;
    // The row of the same pause says exactly when it ended.
    if (known.pause && known.pause->since != pause.since)
      known.note_times(rules_->queue(pause.queue).gate, std::min(clock_.now(), pause.since));
    const EpochMs now = clock_.now();
    const bool altered = known.pause && known.pause->is_in_force(now) && pause.is_in_force(now);
    known.pause = pause;
    if (altered) log_paused(pause);
    update(pause.queue);
  }
  // Of what was written since this read began, the next one has the rest.
  for (const GateState& state : look.states) {
    if (!written_.contains(state.queue)) take(state);
  }
  if (look.all) update_all();
  const bool first = fresh && !std::exchange(known_, true);
  if (first) {
    health_.clear(kProblem);
    changed_(std::exchange(touched_, {}));
  }
  tell();
  if (!fresh) read();
}

void Gates::arrived(const std::vector<GateState>& states) {
  for (const GateState& state : states) {
    if (reading_) written_.insert(state.queue);
    take(state);
  }
  tell();
}

void Gates::take(GateState state) {
  Queue& known = queues_[state.queue];
  if (known.state == state) return;
  if (state.damaged && damaged_.insert(state.queue).second)
    log::warn("the row of a queue's gates is damaged: what can be read of it applies",
              {{"queue", state.queue}});
  if (!known.state && !is_listed(state.queue) && ++unlisted_ >= kMostUnlisted &&
      !std::exchange(told_of_many_, true))
    log::warn("too many queues that the config does not name: gates of further ones are not kept",
              {{"queues", unlisted_}});
  if (unlisted_ < kMostUnlisted) told_of_many_ = false;
  const std::string queue = state.queue;
  known.take(std::move(state), rules_->queue(queue).gate, clock_.now());
  touched_.push_back(queue);
  update(queue);
}

// Of what may open or close by itself, what does now.
void Gates::check_ends() {
  if (updated_for_ != rules_) update_all();
  const EpochMs now = clock_.now();
  while (!changes_.empty() && changes_.begin()->first <= now) update(std::string(changes_.begin()->second));
  // The tick sees to those that end later.
  if (!changes_.empty() && changes_.begin()->first - now < kReadEvery)
    end_.start(std::max(changes_.begin()->first - now, Ms{1}));
  tell();
}

void Gates::tell() {
  if (!touched_.empty()) changed_(std::exchange(touched_, {}));
}

// After a reload, and now and then: in case the clock has stepped.
void Gates::update_all() {
  if (std::exchange(updated_for_, rules_) != rules_) {
    windows_.clear();
    unlisted_ = static_cast<std::size_t>(std::ranges::count_if(
        queues_, [this](const auto& entry) { return entry.second.state && !is_listed(entry.first); }));
  }
  std::vector<std::string> all;
  for (const auto& [queue, rules] : rules_->queues()) {
    if (rules.gate.window != nullptr) all.push_back(queue);
  }
  for (const auto& [queue, known] : queues_) all.push_back(queue);
  for (const std::string& queue : all) update(queue);
}

// closed_ and changes_, of one queue.
void Gates::update(const std::string& queue) {
  if (!clocked_) return;
  static const Queue kNothing;
  const auto place = queues_.find(queue);
  const Queue& known = place == queues_.end() ? kNothing : place->second;
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
  if (place == queues_.end() && !next) return;
  Queue& mine = queues_[queue];
  if (mine.next != next) {
    if (mine.next) changes_.erase({*mine.next, queue});
    mine.next = next;
    if (next) changes_.emplace(*next, queue);
    if (next && *next - now < kReadEvery && changes_.begin()->second == queue)
      end_.start(std::max(*next - now, Ms{1}));
  }
  if (!mine.pause && !mine.state && !mine.seen && !next) queues_.erase(queue);
}

void Gates::log_change(const std::string& queue, const Queue& known, const Closed* before,
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

Gates::Names Gates::closed() const {
  Names names;
  for (const auto& [queue, why] : closed_) names.insert(queue);
  return names;
}

const Gates::Closed* Gates::why_closed(std::string_view queue) const {
  const auto it = closed_.find(queue);
  return it == closed_.end() ? nullptr : &it->second;
}

const GateState* Gates::state(std::string_view queue) const {
  const auto it = queues_.find(queue);
  return it == queues_.end() || !it->second.state ? nullptr : &*it->second.state;
}

Ms Gates::closed_since(std::string_view queue, EpochMs due) const {
  if (queues_.empty() && !rules_->has_gates()) return Ms{0};
  const EpochMs now = clock_.now();
  if (due >= now) return Ms{0};
  static const KnownGates kNothing;
  const auto known = queues_.find(queue);
  const KnownGates& gates = known == queues_.end() ? kNothing : known->second;
  return gates.closed_between(due, now, rules_->queue(queue).gate);
}

Ms Gates::waited(std::string_view queue, EpochMs due) const {
  if (rules_->limits() && rules_->queue(queue).gate.limits()) return std::max(clock_.now() - due, Ms{0});
  return closed_since(queue, due);
}

bool Gates::was_closed(std::string_view queue, EpochMs due) const { return closed_since(queue, due) > Ms{0}; }

}  // namespace rung::bridge
