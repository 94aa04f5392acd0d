#include "src/bridge/flight/publish_fence.h"

#include <cstdint>
#include <limits>

#include "src/core/base/failpoint.h"
#include "src/io/log.h"

namespace rung::bridge {
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
