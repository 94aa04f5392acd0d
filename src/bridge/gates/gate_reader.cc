#include "src/bridge/gates/gate_reader.h"

#include <algorithm>
#include <utility>

#include "src/core/base/failpoint.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

// A commit is visible later than the time of its statement, and a row that is gone is in no list of changes.
constexpr Ms kOverlap{5000};
constexpr Ms kReadAllEvery{30'000};
constexpr Ms kReadWithin{5000};  // after the start, or lost leases; then it is a problem
constexpr const char* kProblem = "gates";

}  // namespace

GateReader::GateReader(StoreJobs& jobs, DbClock& clock, const RuleBookPtr& rules, Health& health, Took took)
    : jobs_(jobs), clock_(clock), rules_(rules), health_(health), took_(std::move(took)) {}

void GateReader::start() {
  unknown_since_ = clock_.here().boot();
  read();
}

void GateReader::tick() {
  check_health();
  read();
}

void GateReader::invalidate() {
  if (known()) unknown_since_ = clock_.here().boot();
  ++generation_;
  read();
}

void GateReader::written(const std::string& queue) {
  if (reading_) written_.insert(queue);
}

// Nothing is published before they are known.
void GateReader::check_health() {
  if (known() || clock_.here().boot() - *unknown_since_ < kReadWithin) return;
  health_.set(kProblem, "the gates of queues cannot be read: nothing is published",
              Health::Effect::not_ready);
}

void GateReader::read() {
  if (std::exchange(reading_, true)) return;
  const bool gates = rules_->has_gates();
  const bool all =
      !known() || (gates && !read_states_) || clock_.here().boot() - read_all_at_ >= kReadAllEvery;
  written_.clear();
  jobs_.submit<GateReading>(
      Lane::gates,
      [gates, all, now = clock_.now(),
       since = all ? EpochMs{} : read_at_ - kOverlap](Store& store) -> Result<GateReading> {
        auto pauses = store.pauses(since);
        if (!pauses) return tl::unexpected(pauses.error());
        if (!gates) return GateReading{now, all, false, *std::move(pauses), {}};
        auto states = store.gate_states(since);
        if (!states) return tl::unexpected(states.error());
        const bool damaged = std::ranges::any_of(*states, &GateState::damaged);
        if (damaged && planted(Bug::damaged_gates)) return permanent("a row is damaged");
        return GateReading{now, all, true, *std::move(pauses), *std::move(states)};
      },
      [this, generation = generation_](const Result<GateReading>& reading) {
        reading_ = false;
        if (!reading) return log::error("reading the gates failed", {{"reason", reading.error().message}});
        read_done(*reading, generation == generation_);
      });
}

void GateReader::read_done(const GateReading& reading, bool fresh) {
  read_at_ = reading.at;
  if (reading.all) {
    read_all_at_ = clock_.here().boot();
    read_states_ = reading.states_read;
  }
  const bool first = fresh && !known();
  if (first) {
    unknown_since_.reset();
    health_.clear(kProblem);
  }
  took_(reading, written_, first);
  if (!fresh) read();
}

}  // namespace rung::bridge
