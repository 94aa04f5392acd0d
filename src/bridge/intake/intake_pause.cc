#include "src/bridge/intake/intake_pause.h"

#include <algorithm>
#include <utility>

#include "src/io/log.h"

namespace rung::bridge {

namespace {

constexpr Ms kLookForAnAnswer{250};
constexpr int kLasts = 3;          // times the outage_timeout: after this the database's return has lasted
constexpr int kLongestLeast = 12;  // times the outage_timeout

}  // namespace

IntakePause::IntakePause(io::Loop& loop, Deps deps, Ms outage_timeout)
    : deps_(std::move(deps)),
      clock_(loop.clock()),
      outage_timeout_(outage_timeout),
      timer_(loop, [this] { look(); }) {}

void IntakePause::start() {
  begun_ = false;
  paused_ = true;
  paused_at_ = clock_.boot();
  deps_.holds.hold(IntakeHolds::Why::database_away);
  timer_.start(kLookForAnAnswer);
}

void IntakePause::begin(BootMs now) {
  paused_ = false;
  begun_ = true;
  log::info("database answered: intake begins", {{"waited_ms", (now - paused_at_).count()}});
  deps_.holds.release(IntakeHolds::Why::database_away);
}

void IntakePause::database_away(bool yes) {
  away_ = yes;
  look();
}

void IntakePause::drain() {
  draining_ = true;
  timer_.stop();
}

void IntakePause::look() {
  if (draining_) return;
  const BootMs now = clock_.boot();
  const BootMs answered = deps_.answered();
  if (!paused_) {
    if (!away_) return timer_.stop();
    if (now - answered < outage_timeout_) return timer_.start(outage_timeout_ - (now - answered));
    pause(now);
  } else if (deps_.served() > paused_at_ && now - paused_at_ >= least_) {
    begun_ ? resume(now) : begin(now);
    if (!away_) return timer_.stop();  // otherwise another kind of job still waits
  }
  timer_.start(kLookForAnAnswer);
}

void IntakePause::pause(BootMs now) {
  const bool lasted = resumed_at_.ms == 0 || now - resumed_at_ > outage_timeout_ * kLasts;
  least_ = lasted ? Ms{0} : std::clamp(least_ * 2, outage_timeout_, outage_timeout_ * kLongestLeast);
  paused_ = true;
  paused_at_ = now;
  deps_.holds.hold(IntakeHolds::Why::database_away);
  deps_.forget();
  const std::string broker(deps_.broker);
  log::warn("database does not answer: intake paused, unacked messages returned to " + broker,
            {{"for_ms", outage_timeout_.count()}});
  deps_.health.set("intake",
                   "no answer from the database for " + std::to_string(outage_timeout_.count()) +
                       " ms: intake is paused, and unacked messages were returned to " + broker,
                   Health::Effect::not_ready);
}

void IntakePause::resume(BootMs now) {
  paused_ = false;
  resumed_at_ = now;
  const std::string length = std::to_string((now - paused_at_).count());
  log::info("intake resumed", {{"paused_ms", (now - paused_at_).count()}});
  deps_.holds.release(IntakeHolds::Why::database_away);
  deps_.health.clear("intake");
  // It could not be written before.
  deps_.record("intake_paused", deps_.node,
               "intake was paused for " + length +
                   " ms because the database did not answer: unacked messages were returned to " +
                   std::string(deps_.broker));
}

}  // namespace rung::bridge
