#include "src/bridge/watch/ownership_watch.h"

#include <optional>
#include <utility>

#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr Ms kOwnershipLookAgain{5000};  // while there is a conflict, or no answer
constexpr int kSharedLooks = 3;
constexpr const char* kConflict = "ownership";

}  // namespace

OwnershipWatch::OwnershipWatch(Deps deps)
    : deps_(std::move(deps)),
      judge_(deps_.jobs.add(
          {"ownership", kOwnershipLookAgain, Lane::flow, Jobs::Who::all, [this] { return look(); }, true})) {}

void OwnershipWatch::reported(const PlaceReport& report) {
  if (draining_) return;
  report_ = report;
  deps_.jobs.run(judge_);
}

Jobs::Work OwnershipWatch::look() {
  // Without a report, to ask the broker for one.
  const PlaceReport report = std::exchange(report_, std::nullopt).value_or(PlaceReport{});
  // A place that is another's is not remembered: the config may be corrected.
  const bool may_be_ours =
      !report.asked_for.empty() && (report.owner.empty() || report.owner == report.asked_for);
  return [this, report, place = may_be_ours ? std::optional(report.place) : std::nullopt](
             Store& store) -> Result<Jobs::Then> {
    auto ownership = read_ownership(store, place);
    if (!ownership) return tl::unexpected(ownership.error());
    const auto live = store.live_nodes();
    if (!live) return tl::unexpected(live.error());
    return [this, report, known = Known{*std::move(ownership), live->size()}] {
      if (!draining_) judge(report, known);
    };
  };
}

void OwnershipWatch::judge(const PlaceReport& report, const Known& known) {
  const Ownership& ownership = known.ownership;
  database_ = ownership.database;
  if (report.asked_for != database_) {  // nobody has asked yet, or a person has changed it meanwhile
    marking_ = false;
    return deps_.broker.claim(database_, false);
  }
  if (const std::string why = conflict(ownership, report); !why.empty()) return refuse(why, report);
  if (report.owner.empty() && report.problem.empty() && !marking_) {
    marking_ = true;
    return deps_.broker.claim(database_, true);
  }
  accept(report, known);
}

void OwnershipWatch::accept(const PlaceReport& report, const Known& known) {
  if (deps_.health.show("ownership_unchecked", report.problem))
    log::warn("broker's mark cannot be checked", {{"reason", report.problem}});
  if (marking_ && report.owner == database_)
    log::info("broker marked as this database's",
              {{"place", describe(report.place)}, {"database", database_}});
  marking_ = false;
  const std::string others = shared(report, known.live);
  shared_looks_ = others.empty() ? 0 : shared_looks_ + 1;
  if (deps_.health.show("ownership_shared", shared_looks_ < kSharedLooks ? "" : others)) {
    log::error("instances of another database serve this place, too", {{"reason", others}});
    deps_.record("ownership_shared", report.place.prefix, others);
  }
  if (ours_) return;
  ours_ = true;
  if (known.ownership.serves) deps_.broker.serve_only(known.ownership.serves->cluster);
  if (!std::exchange(conflict_, "").empty()) {
    log::info("broker and database belong together again", {{"place", describe(report.place)}});
    deps_.health.clear(kConflict);
  }
  deps_.changed(true);
}

void OwnershipWatch::refuse(const std::string& why, const PlaceReport& report) {
  marking_ = false;
  if (std::exchange(conflict_, why) != why) {
    log::error("broker and database do not belong together: nothing is taken in or published",
               {{"reason", why}});
    deps_.health.set(kConflict, why, Health::Effect::not_ready);
    deps_.record("ownership_conflict", report.place.prefix, why);
  }
  if (std::exchange(ours_, false)) deps_.changed(false);
  deps_.jobs.soon(judge_, kOwnershipLookAgain);
}

}  // namespace rung::bridge
