#include "src/bridge/upkeep/cause_upkeep.h"

#include <utility>

#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr Ms kCauseTick{1000};
constexpr Ms kReadCausesEvery{std::chrono::seconds{15}};
constexpr Ms kForgetCausesEvery{std::chrono::hours{1}};
// Changes of one transaction. A transaction of the flow leaves one for each of its causes, usually a few.
constexpr int kFoldAtOnce = 2000;
constexpr int kForgetCausesAtOnce = 1000;
// Every process has read the causes since.
constexpr Ms kForgetLater{std::chrono::hours{1}};

}  // namespace

CauseUpkeep::CauseUpkeep(io::Loop& loop, Deps deps) : deps_(deps), timer_(loop, [this] { tick(); }) {}

void CauseUpkeep::start() { timer_.start(kCauseTick, kCauseTick); }

// On the lane of queries, whose connection is in use: that of upkeep would be opened for it each time.
void CauseUpkeep::read() {
  deps_.jobs.submit<void>(
      Lane::sweeps, [](Store& store) { return store.read_causes(); },
      [](const Result<void>& known) {
        if (!known) log::warn("causes not kept up", {{"reason", known.error().message}});
      });
}

void CauseUpkeep::tick() {
  const BootMs now = deps_.clock.here().boot();
  if (!deps_.shards.any()) return;
  if (now >= read_at_) {
    read_at_ = now + kReadCausesEvery;
    read();
  }
  if (busy_ || !deps_.shards.held(0)) return;
  const bool fold = std::exchange(changes_, false), forget = now >= forget_at_;
  if (!fold && !forget) return;
  if (forget) forget_at_ = now + kForgetCausesEvery;
  busy_ = true;
  deps_.jobs.submit<CausesFolded>(
      Lane::upkeep,
      [fold, forget,
       before = deps_.clock.now() - kCauseKept - kForgetLater](Store& store) -> Result<CausesFolded> {
        auto folded = fold ? store.fold_causes(kFoldAtOnce) : CausesFolded{};
        if (folded && forget) {
          if (auto gone = store.forget_causes(before, kForgetCausesAtOnce); !gone)
            return tl::unexpected(gone.error());
        }
        return folded;
      },
      [this](const Result<CausesFolded>& folded) {
        busy_ = false;
        arrived(folded);
      });
}

void CauseUpkeep::arrived(const Result<CausesFolded>& folded) {
  if (!folded) return log::warn("causes not kept up", {{"reason", folded.error().message}});
  for (const CauseRow& row : folded->worse) {
    log::warn(
        "an ignored cause got worse",
        {{"cause", row.id}, {"queue", row.queue}, {"last_hour", row.last_hour}, {"sample", row.sample}});
  }
}

}  // namespace rung::bridge
