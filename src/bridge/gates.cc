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

}  // namespace

Gates::Gates(io::Loop& loop, StoreJobs& jobs, DbClock& clock, std::function<void()> changed)
    : jobs_(jobs),
      clock_(clock),
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

void Gates::tick() {
  check_ends();
  read();
}

void Gates::check_ends() {
  if (update_closed()) changed_();
}

void Gates::read() {
  if (std::exchange(reading_, true)) return;
  jobs_.submit<std::vector<Pause>>(
      Lane::control, [](GateStore& store) { return store.pauses(); },
      [this, generation = generation_](const Result<std::vector<Pause>>& pauses) {
        reading_ = false;
        if (!pauses) return log::error("reading the pauses failed", {{"reason", pauses.error().message}});
        arrived(*pauses, generation == generation_);
      });
}

void Gates::arrived(const std::vector<Pause>& pauses, bool fresh) {
  const auto before = std::exchange(pauses_, {});
  for (const Pause& pause : pauses) pauses_[pause.queue] = pause;
  for (const auto& [queue, pause] : pauses_) {
    const auto old = before.find(queue);
    const bool altered = old != before.end() && old->second != pause;
    if (altered && is_closed(pause) && closed_.contains(queue)) log_paused(pause);
  }
  const bool first = fresh && !std::exchange(known_, true);
  if (update_closed() || first) changed_();
  if (!fresh) read();
}

bool Gates::is_closed(const Pause& pause) const {
  return !pause.over && (!pause.until || *pause.until > clock_.now());
}

// Into closed and open. True if that has changed.
bool Gates::update_closed() {
  Names closed;
  std::optional<EpochMs> next_end;
  for (const auto& [queue, pause] : pauses_) {
    if (!is_closed(pause)) continue;
    closed.insert(queue);
    if (pause.until) next_end = std::min(next_end.value_or(*pause.until), *pause.until);
    if (!closed_.contains(queue)) log_paused(pause);
  }
  for (const std::string& queue : closed_) {
    if (closed.contains(queue)) continue;
    const auto pause = pauses_.find(queue);
    log_resumed(queue, pause == pauses_.end() ? nullptr : &pause->second);
  }
  // The tick sees to those that end later.
  if (next_end && *next_end - clock_.now() < kReadEvery)
    end_.start(std::max(*next_end - clock_.now(), Ms{1}));
  const bool changed = closed != closed_;
  closed_ = std::move(closed);
  return changed;
}

std::optional<Gates::Span> Gates::last_closed(std::string_view queue) const {
  const auto it = pauses_.find(queue);
  if (it == pauses_.end()) return std::nullopt;
  const Pause& pause = it->second;
  return Span{pause.since, is_closed(pause) ? clock_.now() : *pause.until};
}

Ms Gates::waited(std::string_view queue, EpochMs due) const {
  const auto closed = last_closed(queue);
  if (!closed) return Ms{0};
  return std::max(std::min(closed->to, clock_.now()) - std::max(closed->from, due), Ms{0});
}

}  // namespace rung::bridge
