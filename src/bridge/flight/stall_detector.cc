#include "src/bridge/flight/stall_detector.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "src/core/base/failpoint.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr Ms kLongestStallTimeout{60'000};
constexpr Ms kProbeTimeout{2000};
constexpr std::size_t kMostSilentNamed = 5;  // in the problem's detail

}  // namespace

void StallDetector::check(bool publishing) {
  const BootMs now = deps_.clock.boot();
  if (publishing && deps_.outbox.under_way() > 0) {
    if (now - deps_.outbox.heard_at() <= kStallTimeout) {
      deps_.targets.quarantine(now, kStallTimeout);
    } else {
      drop_stalled_connection(now);
    }
  }
  // While nothing is published, nothing is answered either.
  if (publishing) report(now);
  if (const auto since = deps_.targets.probing_since(); since && now - *since > kProbeTimeout)
    deps_.broker.drop_publishing(PublishLane::probe, "the probed queue does not answer");
}

void StallDetector::drop_stalled_connection(BootMs now) {
  const Ms silent = now - deps_.outbox.heard_at();
  if (silent <= stall_timeout_ || deps_.targets.probing_since()) return;
  const std::size_t silent_targets = deps_.targets.silent(now, stall_timeout_);
  // A copy for <prefix>.parked belongs to no target, but waits like them.
  const bool copies_wait = deps_.outbox.under_way() > deps_.flights.count(Flight::Stage::sent);
  if (silent_targets == 0 || (silent_targets == 1 && !copies_wait)) return;
  log::warn("no answer to publishes to several queues: reconnecting, then probing each queue alone",
            {{"silent_ms", silent.count()}, {"under_way", deps_.outbox.under_way()}});
  deps_.targets.quarantine(now, stall_timeout_);
  stall_timeout_ = std::min(stall_timeout_ * 2, kLongestStallTimeout);
  deps_.broker.drop_publishing(PublishLane::main, "no answer to any publish for too long");
}

void StallDetector::report(BootMs now) {
  const auto all = deps_.targets.all_silent(now, kStallTimeout);
  if (all.empty() && silent_.empty()) return;  // the usual case
  const auto before = std::exchange(silent_, {});
  std::string named;
  for (const Targets::Silent& one : all) {
    const std::string& name = deps_.names.name(one.queue);
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
                {{"queue", deps_.names.name(queue)}, {"silent_ms", (now - since).count()}});
  }
  if (silent_.empty()) return deps_.health.clear("silent_queues");
  if (silent_.size() > kMostSilentNamed)
    named += " and " + std::to_string(silent_.size() - kMostSilentNamed) + " more";
  deps_.health.set("silent_queues", "no answer to publishes to " + named +
                                        ": messages for it wait until the broker confirms again");
}

namespace {

// Publishes under way when leases are lost are answered within this, or their connection is dropped.
constexpr Ms kUnansweredMost{1000};

}  // namespace

PublishFence::PublishFence(io::Loop& loop, Broker& broker, const Outbox& outbox, Health& health)
    : broker_(broker), outbox_(outbox), health_(health), timer_(loop, [this] { give_up_unanswered(); }) {}

void PublishFence::leases_lost() {
  closed_ = true;
  timer_.start(kUnansweredMost, kUnansweredMost);
  health_.set("fenced", "its leases expired: publishing is stopped until they are renewed or acquired again",
              Health::Effect::not_ready);
  allow_until({0});
}

bool PublishFence::extend(BootMs deadline) {
  if (deadline.ms == 0 || (closed_ && outbox_.under_way() > 0)) {
    allow_until({0});
    return false;
  }
  closed_ = false;
  timer_.stop();
  health_.clear("fenced");
  allow_until(deadline);
  return true;
}

void PublishFence::allow_until(BootMs deadline) {
  constexpr BootMs kNever{std::numeric_limits<std::int64_t>::max()};
  broker_.allow_publish_until(planted(Bug::no_fence_on_publish) ? kNever : deadline);
}

// One silent queue would keep the fence closed for all: nothing else ends the publishes under way.
void PublishFence::give_up_unanswered() {
  if (outbox_.under_way() == 0 || planted(Bug::b1)) return;
  log::warn("leases expired with unconfirmed publishes: dropping their connections",
            {{"under_way", outbox_.under_way()}});
  for (const PublishLane lane : {PublishLane::main, PublishLane::probe})
    broker_.drop_publishing(lane, "the leases expired with unanswered publishes");
}

}  // namespace rung::bridge
