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
constexpr int kRegroupAtOnce = 500;
constexpr int kForgetCausesAtOnce = 1000;

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
  if (busy_) return;
  const bool ours = deps_.shards.held(0);
  if (ours && !ours_) regroup_ = true;
  ours_ = ours;
  const bool fold = ours && changes_;
  const bool forget = ours && now >= forget_at_, regroup = ours && regroup_;
  if (!fold && !forget && !regroup) return;
  changes_ = false;
  if (forget) forget_at_ = now + kForgetCausesEvery;
  busy_ = true;
  deps_.jobs.submit<Done>(
      Lane::upkeep,
      [fold, forget, regroup, before = deps_.clock.now() - kCauseKept](Store& store) -> Result<Done> {
        Done done;
        if (fold) {
          auto folded = store.fold_causes(kFoldAtOnce);
          if (!folded) return tl::unexpected(folded.error());
          done.folded = *std::move(folded);
        }
        if (regroup) {
          auto regrouped = store.regroup_causes(kRegroupAtOnce);
          if (!regrouped) return tl::unexpected(regrouped.error());
          done.regrouped = *regrouped;
        }
        if (forget) {
          if (auto gone = store.forget_causes(before, kForgetCausesAtOnce); !gone)
            return tl::unexpected(gone.error());
        }
        return done;
      },
      [this, regroup](const Result<Done>& done) {
        busy_ = false;
        if (done && regroup) regroup_ = done->regrouped.more;
        arrived(done);
      });
}

void CauseUpkeep::arrived(const Result<Done>& done) {
  if (!done) return log::warn("causes not kept up", {{"reason", done.error().message}});
  for (const CauseRow& row : done->folded.worse) {
    log::warn(
        "an ignored cause got worse",
        {{"cause", row.id}, {"queue", row.queue}, {"last_hour", row.last_hour}, {"sample", row.sample}});
  }
}

}  // namespace rung::bridge
