#include "src/bridge/gates/known_queues.h"

#include <algorithm>
#include <utility>

#include "src/core/base/require.h"
#include "src/io/log.h"

namespace rung::bridge {

bool KnownQueues::see(const std::string& queue) { return !std::exchange(queues_[queue].seen, true); }

bool KnownQueues::unsee(const std::string& queue) {
  const auto known = queues_.find(queue);
  return known != queues_.end() && std::exchange(known->second.seen, false);
}

bool KnownQueues::take(const Pause& pause) {
  Queue& known = queues_[pause.queue];
  if (known.pause == pause) return false;
  // The row of the same pause says exactly when it ended.
  if (known.pause && known.pause->since != pause.since)
    known.note_times(rules_->queue(pause.queue).gate, std::min(clock_.now(), pause.since));
  known.pause = pause;
  return true;
}

bool KnownQueues::take(const GateState& state) {
  Queue& known = queues_[state.queue];
  if (known.state == state) return false;
  if (state.damaged && damaged_.insert(state.queue).second)
    log::warn("the row of a queue's gates is damaged: what can be read of it applies",
              {{"queue", state.queue}});
  if (!known.state && !is_listed(state.queue) && ++unlisted_ >= kMostUnlisted &&
      !std::exchange(told_of_many_, true))
    log::warn("too many queues that the config does not name: gates of further ones are not kept",
              {{"queues", unlisted_}});
  if (unlisted_ < kMostUnlisted) told_of_many_ = false;
  known.KnownGates::take(state, rules_->queue(state.queue).gate, clock_.now());
  return true;
}

std::vector<std::string> KnownQueues::forget_all_but(const GateReading& reading,
                                                     const GateReader::Names& written) {
  RUNG_REQUIRE(reading.all);
  std::erase_if(damaged_, [&](const auto& queue) { return state(queue) == nullptr; });
  std::set<std::string_view> paused, stated;
  for (const Pause& pause : reading.pauses) paused.insert(pause.queue);
  for (const GateState& state : reading.states) stated.insert(state.queue);
  std::vector<std::string> gone;
  for (auto& [queue, known] : queues_) {
    if (!paused.contains(queue)) known.pause.reset();
    if (!known.state || stated.contains(queue) || written.contains(queue)) continue;
    known.state.reset();
    if (!is_listed(queue)) --unlisted_;
    gone.push_back(queue);
  }
  return gone;
}

void KnownQueues::forget_if_unused(const std::string& queue) {
  const auto known = queues_.find(queue);
  if (known == queues_.end()) return;
  const Queue& it = known->second;
  if (!it.pause && !it.state && !it.seen) queues_.erase(known);
}

void KnownQueues::reloaded() {
  unlisted_ = static_cast<std::size_t>(std::ranges::count_if(
      queues_, [this](const auto& entry) { return entry.second.state && !is_listed(entry.first); }));
}

const KnownQueues::Queue& KnownQueues::of(std::string_view queue) const {
  static const Queue kNothing;
  const auto known = queues_.find(queue);
  return known == queues_.end() ? kNothing : known->second;
}

const GateState* KnownQueues::state(std::string_view queue) const {
  const Queue& known = of(queue);
  return known.state ? &*known.state : nullptr;
}

bool KnownQueues::keeps(std::string_view queue) const {
  return unlisted_ < kMostUnlisted || is_listed(queue) || state(queue) != nullptr;
}

Ms KnownQueues::closed_since(std::string_view queue, EpochMs due) const {
  if (queues_.empty() && !rules_->has_gates()) return Ms{0};
  const EpochMs now = clock_.now();
  if (due >= now) return Ms{0};
  return of(queue).closed_between(due, now, rules_->queue(queue).gate);
}

}  // namespace rung::bridge
