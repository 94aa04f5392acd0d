#include "src/bridge/intake/intake_pause.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "src/bridge/intake/intake.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr Ms kLookForAnAnswer{250};
constexpr int kLasts = 3;          // times the lease: after this the database's return has lasted
constexpr int kLongestLeast = 12;  // times the lease

}  // namespace

IntakePause::IntakePause(const Sidecar& sidecar, IntakeHolds& holds)
    : sidecar_(sidecar), holds_(holds), timer_(sidecar.loop, [this] { look(); }) {}

void IntakePause::start() {
  begun_ = false;
  paused_ = true;
  paused_at_ = sidecar_.loop.clock().boot();
  holds_.hold(IntakeHolds::Why::database_away);
  timer_.start(kLookForAnAnswer);
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
  const Ms outage = sidecar_.settings.lease;
  const BootMs now = sidecar_.loop.clock().boot();
  const BootMs answered = sidecar_.jobs.answered();
  if (!paused_) {
    if (!away_) return timer_.stop();
    if (now - answered < outage) return timer_.start(outage - (now - answered));
    pause(now);
  } else if (sidecar_.jobs.served() > paused_at_ && now - paused_at_ >= least_) {
    resume(now);
    if (!away_) return timer_.stop();  // otherwise another kind of job still waits
  }
  timer_.start(kLookForAnAnswer);
}

void IntakePause::pause(BootMs now) {
  const Ms outage = sidecar_.settings.lease;
  const bool lasted = resumed_at_.ms == 0 || now - resumed_at_ > outage * kLasts;
  least_ = lasted ? Ms{0} : std::clamp(least_ * 2, outage, outage * kLongestLeast);
  paused_ = true;
  paused_at_ = now;
  holds_.hold(IntakeHolds::Why::database_away);
  sidecar_.intake.drop_all();
  const std::string broker(sidecar_.broker.name());
  log::warn("database does not answer: intake paused, unacked messages returned to " + broker,
            {{"for_ms", outage.count()}});
  sidecar_.health.set("intake",
                      "no answer from the database for " + std::to_string(outage.count()) +
                          " ms: intake is paused, and unacked messages were returned to " + broker,
                      Health::Effect::not_ready);
}

void IntakePause::resume(BootMs now) {
  paused_ = false;
  const std::int64_t length = (now - paused_at_).count();
  holds_.release(IntakeHolds::Why::database_away);
  if (!std::exchange(begun_, true))
    return log::info("database answered: intake begins", {{"waited_ms", length}});
  resumed_at_ = now;
  log::info("intake resumed", {{"paused_ms", length}});
  sidecar_.health.clear("intake");
  // It could not be written before.
  sidecar_.record("intake_paused", sidecar_.settings.identity.name,
                  "intake was paused for " + std::to_string(length) +
                      " ms because the database did not answer: unacked messages were returned to " +
                      std::string(sidecar_.broker.name()));
}

namespace {

constexpr std::int64_t kUnpausedStarts = 2;  // so many unfinished starts cost no pause
constexpr std::size_t kLongestName = 48;
constexpr const char* kStarts = "intake_starts ";
constexpr const char* kLoopProblem = "crash_loop";

// The column has 64 characters.
std::string setting_name(const std::string& node) {
  return kStarts +
         (node.size() <= kLongestName ? node : "#" + std::to_string(std::hash<std::string>{}(node)));
}

std::int64_t number_in(const std::string& text) {
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return std::max<std::int64_t>(number, 0);
}

}  // namespace

CrashLoop::CrashLoop(const Sidecar& sidecar, IntakeHolds& holds)
    : sidecar_(sidecar),
      holds_(holds),
      name_(setting_name(sidecar.settings.identity.name)),
      timer_(sidecar.loop, [this] { tick(); }) {}

void CrashLoop::start() {
  stage_ = Stage::counting;
  holds_.hold(IntakeHolds::Why::crash_loop);
  sidecar_.jobs.submit<std::int64_t>(
      Lane::flow,
      [name = name_](Store& store) -> Result<std::int64_t> {
        const auto before = store.setting(name, "");
        if (!before) return tl::unexpected(before.error());
        const std::int64_t unfinished = number_in(*before);
        if (auto written = store.set_setting(name, std::to_string(unfinished + 1)); !written)
          return tl::unexpected(written.error());
        return unfinished;
      },
      [this](const Result<std::int64_t>& unfinished) {
        if (!unfinished)
          log::warn("counting the starts of the intake failed", {{"reason", unfinished.error().message}});
        counted(unfinished ? *unfinished : 0);
      });
}

void CrashLoop::counted(std::int64_t unfinished) {
  if (stage_ != Stage::counting) return;
  unfinished_ = unfinished;
  if (unfinished_ == 0) return consume();
  stage_ = Stage::waiting;
  Ms pause = kLookTakes;
  if (unfinished_ > kUnpausedStarts) {
    pause = std::min(pause + Ms{1000} * (unfinished_ - kUnpausedStarts), kLongestPause);
    log::warn("earlier starts ended before their intake was stable: it begins after a pause",
              {{"starts", unfinished_}, {"pause_ms", pause.count()}});
  }
  timer_.start(pause);
  judge();
}

void CrashLoop::looked(const AttachmentLook& look) {
  looked_ = true;
  if (look.limit) limit_ = *look.limit;
  judge();
}

void CrashLoop::judge() {
  const bool used_up = unfinished_ >= std::max<std::int64_t>(limit_.deliveries / 2, 1);
  if (stage_ == Stage::waiting) {
    if (used_up) return stop();
    if (looked_ && unfinished_ <= kUnpausedStarts) consume();
  } else if (stage_ == Stage::stopped && !used_up) {
    log::info("no delivery limit any more: intake begins");
    sidecar_.health.clear(kLoopProblem);
    consume();
  }
}

void CrashLoop::stop() {
  stage_ = Stage::stopped;
  timer_.stop();
  const std::string text = std::to_string(unfinished_) +
                           " starts in a row ended before their intake was stable, and " + limit_.queue +
                           " has a delivery limit of " + std::to_string(limit_.deliveries) +
                           ": nothing is consumed, so that the broker drops no message. The command that "
                           "removes the limit: rung doctor";
  log::error("a crash loop would use up a delivery limit: intake is stopped",
             {{"starts", unfinished_}, {"queue", limit_.queue}, {"limit", limit_.deliveries}});
  sidecar_.health.set(kLoopProblem, text, Health::Effect::not_ready);
  sidecar_.record("intake_stopped", limit_.queue, text);
}

void CrashLoop::consume() {
  stage_ = Stage::consuming;
  holds_.release(IntakeHolds::Why::crash_loop);
  timer_.start(kStable);
}

void CrashLoop::tick() {
  if (stage_ == Stage::waiting) return consume();
  stage_ = Stage::over;
  write(0);
}

void CrashLoop::write(std::int64_t count) {
  sidecar_.jobs.submit<void>(
      Lane::upkeep,
      [name = name_, count](Store& store) {
        // A name that changes with each start, as a container's, leaves no row behind.
        return store.set_setting(name, count > 0 ? std::to_string(count) : "");
      },
      [](const Result<void>& done) {
        if (!done) log::warn("counting the starts of the intake failed", {{"reason", done.error().message}});
      });
}

void CrashLoop::drain() {
  timer_.stop();
  // A start that consumed nothing has used up nothing, but it has mended nothing either. While it is being
  // counted, one start too many is the safe side.
  if (stage_ == Stage::consuming) {
    write(0);
  } else if (stage_ != Stage::over && stage_ != Stage::counting) {
    write(unfinished_);
  }
  stage_ = Stage::over;
}

}  // namespace rung::bridge
