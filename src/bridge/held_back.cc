#include "src/bridge/held_back.h"

#include <algorithm>
#include <utility>

#include "src/core/failpoint.h"
#include "src/core/require.h"

namespace rung::bridge {

HeldBack::HeldBack(io::Loop& loop, DbClock& clock, Outbox& outbox, Publish publish)
    : clock_(clock), outbox_(outbox), publish_(std::move(publish)), timer_(loop, [this] { release(); }) {}

EpochMs HeldBack::due_by() const { return clock_.now() + Ms{planted(Bug::one_ms_early) ? 1 : 0}; }

void HeldBack::add(ClaimedTask claimed, MessagePtr message) {
  RUNG_REQUIRE(claimed.task != nullptr && message != nullptr);
  const EpochMs at = claimed.task->next_at.value_or(EpochMs{});
  const auto place = early_.emplace(at, Early{std::move(claimed), std::move(message)});
  if (place == early_.begin()) timer_.start(at - due_by());
}

std::optional<ClaimedTask> HeldBack::take(TaskId id) {
  const auto held =
      std::ranges::find_if(early_, [&](const auto& entry) { return entry.second.claimed.task->id == id; });
  if (held == early_.end()) return std::nullopt;
  return std::move(early_.extract(held).mapped().claimed);
}

// Also during a drain: claimed tasks are completed.
void HeldBack::release() {
  const EpochMs now = due_by();
  while (!early_.empty() && early_.begin()->first <= now) {
    auto first = early_.extract(early_.begin());
    publish_(std::move(first.mapped().claimed), *first.mapped().message);
  }
  if (!early_.empty()) timer_.start(early_.begin()->first - now);
  outbox_.flush();
}

}  // namespace rung::bridge
