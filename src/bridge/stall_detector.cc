#include "src/bridge/stall_detector.h"

#include <algorithm>
#include <cstddef>

#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr Ms kLongestStallTimeout{60'000};
constexpr Ms kProbeTimeout{2000};

}  // namespace

void StallDetector::check(bool publishing) {
  const BootMs now = clock_.boot();
  if (publishing && outbox_.under_way() > 0) {
    if (now - outbox_.heard_at() <= kStallTimeout) {
      targets_.quarantine(now, kStallTimeout);
    } else {
      drop_stalled_connection(now);
    }
  }
  // While nothing is published, nothing is answered either.
  if (publishing) silent_.set(targets_.all_silent(now, kStallTimeout), now);
  if (const auto since = targets_.probing_since(); since && now - *since > kProbeTimeout)
    broker_.drop_publishing(PublishLane::probe, "the probed queue does not answer");
}

void StallDetector::drop_stalled_connection(BootMs now) {
  const Ms silent = now - outbox_.heard_at();
  if (silent <= stall_timeout_ || targets_.probing_since()) return;
  const std::size_t silent_targets = targets_.silent(now, stall_timeout_);
  // A copy for <prefix>.parked belongs to no target, but waits like them.
  const bool copies_wait = outbox_.under_way() > targets_.unanswered();
  if (silent_targets == 0 || (silent_targets == 1 && !copies_wait)) return;
  log::warn("no answer to publishes to several queues: reconnecting, then probing each queue alone",
            {{"silent_ms", silent.count()}, {"under_way", outbox_.under_way()}});
  targets_.quarantine(now, stall_timeout_);
  stall_timeout_ = std::min(stall_timeout_ * 2, kLongestStallTimeout);
  broker_.drop_publishing(PublishLane::main, "no answer to any publish for too long");
}

}  // namespace rung::bridge
