#include "src/bridge/flight/stall_detector.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "src/bridge/base/health.h"
#include "src/bridge/base/outbox.h"
#include "src/bridge/base/queue_names.h"
#include "src/core/base/failpoint.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr Ms kLongestStallTimeout{60'000};
constexpr Ms kProbeTimeout{2000};
constexpr std::size_t kMostSilentNamed = 5;  // in the problem's detail

}  // namespace

void StallDetector::check(bool publishing) {
  const BootMs now = sidecar_.loop.clock().boot();
  if (publishing && sidecar_.outbox.under_way() > 0) {
    if (now - sidecar_.outbox.heard_at() <= kStallTimeout) {
      targets_.quarantine(now, kStallTimeout);
    } else {
      drop_stalled_connection(now);
    }
  }
  // While nothing is published, nothing is answered either.
  if (publishing) report(now);
  if (const auto since = targets_.probing_since(); since && now - *since > kProbeTimeout)
    sidecar_.broker.drop_publishing(PublishLane::probe, "the probed queue does not answer");
}

void StallDetector::drop_stalled_connection(BootMs now) {
  const Ms silent = now - sidecar_.outbox.heard_at();
  if (silent <= stall_timeout_ || targets_.probing_since()) return;
  const std::size_t silent_targets = targets_.silent(now, stall_timeout_);
  // A copy for <prefix>.parked belongs to no target, but waits like them.
  const bool copies_wait = sidecar_.outbox.under_way() > flights_.count(Flight::Stage::sent);
  if (silent_targets == 0 || (silent_targets == 1 && !copies_wait)) return;
  log::warn("no answer to publishes to several queues: reconnecting, then probing each queue alone",
            {{"silent_ms", silent.count()}, {"under_way", sidecar_.outbox.under_way()}});
  targets_.quarantine(now, stall_timeout_);
  stall_timeout_ = std::min(stall_timeout_ * 2, kLongestStallTimeout);
  sidecar_.broker.drop_publishing(PublishLane::main, "no answer to any publish for too long");
}

void StallDetector::report(BootMs now) {
  const auto all = targets_.all_silent(now, kStallTimeout);
  if (all.empty() && silent_.empty()) return;  // the usual case
  const auto before = std::exchange(silent_, {});
  std::string named;
  for (const Targets::Silent& one : all) {
    const std::string& name = sidecar_.names.name(one.queue);
    const auto known = before.find(one.queue);
    silent_.emplace(one.queue, known == before.end() ? one.since : known->second);
    if (known == before.end()) {
      log::warn("queue does not answer publishes: it gets no more until it does",
                {{"queue", name}, {"unanswered", one.unanswered}, {"silent_ms", (now - one.since).count()}});
    }
    if (silent_.size() <= kMostSilentNamed) named += (named.empty() ? "" : ", ") + name;
  }
  for (const auto& [queue, since] : before) {
    if (!silent_.contains(queue))
      log::info("queue answers publishes again",
                {{"queue", sidecar_.names.name(queue)}, {"silent_ms", (now - since).count()}});
  }
  if (silent_.empty()) return sidecar_.health.clear("silent_queues");
  if (silent_.size() > kMostSilentNamed)
    named += " and " + std::to_string(silent_.size() - kMostSilentNamed) + " more";
  sidecar_.health.set("silent_queues", "no answer to publishes to " + named +
                                           ": messages for it wait until the broker confirms again");
}

namespace {

// Publishes under way when leases are lost are answered within this, or their connection is dropped.
constexpr Ms kUnansweredMost{1000};

}  // namespace

void PublishFence::leases_lost() {
  closed_ = true;
  timer_.start(kUnansweredMost, kUnansweredMost);
  sidecar_.health.set("fenced",
                      "its leases expired: publishing is stopped until they are renewed or acquired again",
                      Health::Effect::not_ready);
  allow_until({0});
}

bool PublishFence::extend(BootMs deadline) {
  if (deadline.ms == 0 || (closed_ && sidecar_.outbox.under_way() > 0)) {
    allow_until({0});
    return false;
  }
  closed_ = false;
  timer_.stop();
  sidecar_.health.clear("fenced");
  allow_until(deadline);
  return true;
}

void PublishFence::allow_until(BootMs deadline) {
  constexpr BootMs kNever{std::numeric_limits<std::int64_t>::max()};
  sidecar_.broker.allow_publish_until(planted(Bug::no_fence_on_publish) ? kNever : deadline);
}

// One silent queue would keep the fence closed for all: nothing else ends the publishes under way.
void PublishFence::give_up_unanswered() {
  if (sidecar_.outbox.under_way() == 0 || planted(Bug::b1)) return;
  log::warn("leases expired with unconfirmed publishes: dropping their connections",
            {{"under_way", sidecar_.outbox.under_way()}});
  for (const PublishLane lane : {PublishLane::main, PublishLane::probe})
    sidecar_.broker.drop_publishing(lane, "the leases expired with unanswered publishes");
}

}  // namespace rung::bridge
