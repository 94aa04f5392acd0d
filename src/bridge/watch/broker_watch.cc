#include "src/bridge/watch/broker_watch.h"

#include <utility>

#include "src/bridge/base/flow_counts.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr Ms kLookAtLink{500};

bool serves(const BrokerStatus& status) { return status.consuming && status.publishing; }

std::string address_of(const BrokerStatus& status) {
  if (status.consuming_at == status.publishing_at) return status.publishing_at;
  return status.publishing_at + " (publishing), " + status.consuming_at + " (consuming)";
}

constexpr Ms kOwnershipLookAgain{5000};  // while there is a conflict, or no answer
constexpr int kSharedLooks = 3;
constexpr const char* kConflict = "ownership";

}  // namespace

BrokerWatch::BrokerWatch(const Sidecar& sidecar, std::function<void()> given_up)
    : sidecar_(sidecar), given_up_(std::move(given_up)), ability_(sidecar.settings.lease) {
  sidecar_.table.each("broker link", kLookAtLink, Jobs::Who::all, [this] { look(); });
}

void BrokerWatch::changed(const BrokerStatus& status) {
  const BrokerStatus before = std::exchange(status_, status);
  say_away(before.refused);
  if (serves(status) && !serves(before)) {
    if (away_since_.ms != 0) {
      log::info("broker reconnected", {{"away_ms", (sidecar_.loop.clock().boot() - away_since_).count()},
                                       {"address", address_of(status)}});
    } else {
      log::info("broker connected", {{"address", address_of(status)}});
    }
    away_since_ = {0};
    reasons_.clear();
    has_served_ = true;
    if (!stepped_back_) sidecar_.health.clear("broker");
  }
  ability_.publishing(status.publishing && ours_, sidecar_.loop.clock().boot());
  if (status.blocked == before.blocked) return;
  if (status.blocked) {
    log::warn("broker blocks publishing (memory or disk alarm): retries wait, no attempt is counted",
              {{"reason", status.reason}});
  } else {
    log::info("broker unblocked: publishing resumed");
  }
}

// Logged when the broker goes away and when it is back, not with each try; in between each new reason once.
void BrokerWatch::say_away(bool refused_before) {
  if (serves(status_) || status_.reason.empty()) return;
  if (!stepped_back_) sidecar_.health.set("broker", status_.reason, Health::Effect::not_ready);
  const bool first = away_since_.ms == 0;
  if (first) away_since_ = sidecar_.loop.clock().boot();
  const bool news = reasons_.is_news(status_.reason);
  if (status_.refused && (news || !refused_before)) {
    log::error("broker refuses this instance: retrying every 5 s at most", {{"reason", status_.reason}});
  } else if (first || news) {
    log::warn(first ? "broker unavailable" : "broker still unavailable", {{"reason", status_.reason}});
  }
}

void BrokerWatch::checked(const TopologyReport& report) {
  for (const std::string& name : report.repaired) {
    ++sidecar_.counts.totals.topology_repairs;
    log::warn("topology repaired", {{"missing", name}});
    sidecar_.record("topology_repaired", name,
                    "it was missing in " + std::string(sidecar_.broker.name()) + " and was declared again");
  }
  if (report.problem.empty() && sidecar_.health.has("topology")) log::info("topology complete again");
  if (sidecar_.health.show("topology", report.problem))
    log::warn("topology repair failed", {{"reason", report.problem}});
}

void BrokerWatch::set_ours(bool yes) {
  ours_ = yes;
  ability_.publishing(status_.publishing && ours_, sidecar_.loop.clock().boot());
}

void BrokerWatch::look() {
  BrokerLink link = ability_.link(sidecar_.loop.clock().boot());
  // Reconnected, if only recently, and still holding all its shards: after an outage for all instances, the
  // first to reconnect must not get the shards of the others.
  if (link == BrokerLink::lost && status_.publishing && ours_ && !sidecar_.shards.stepped_back())
    link = BrokerLink::interrupted;
  sidecar_.shards.set_link(link);
  const bool back = sidecar_.shards.stepped_back();
  if (back) given_up_();
  if (back == std::exchange(stepped_back_, back)) return;
  if (back) {
    sidecar_.health.set("broker", "cannot publish, and another instance has its shards: " + status_.reason,
                        Health::Effect::not_ready);
    sidecar_.record("shards_given_up", sidecar_.settings.identity.name, status_.reason);
  } else {
    if (serves(status_)) sidecar_.health.clear("broker");
    sidecar_.record("shards_taken_again", sidecar_.settings.identity.name,
                    status_.publishing ? "it can publish" : "no other instance can publish");
  }
}

OwnershipWatch::OwnershipWatch(const Sidecar& sidecar, std::function<void(bool ours)> changed)
    : sidecar_(sidecar),
      changed_(std::move(changed)),
      judge_(sidecar.table.add(
          {"ownership", kOwnershipLookAgain, Lane::flow, Jobs::Who::all, [this] { return look(); }, true})) {}

void OwnershipWatch::reported(const PlaceReport& report) {
  if (draining_) return;
  report_ = report;
  sidecar_.table.run(judge_);
}

Jobs::Work OwnershipWatch::look() {
  // Without a report, to ask the broker for one.
  const PlaceReport report = std::exchange(report_, std::nullopt).value_or(PlaceReport{});
  // A place that is another's is not remembered: the config may be corrected.
  const bool may_be_ours =
      !report.asked_for.empty() && (report.owner.empty() || report.owner == report.asked_for);
  return [this, report, place = may_be_ours ? std::optional(report.place) : std::nullopt](Store& store) {
    return [this, report, known = Known{read_ownership(store, place), store.live_nodes().size()}] {
      if (!draining_) judge(report, known);
    };
  };
}

void OwnershipWatch::judge(const PlaceReport& report, const Known& known) {
  const Ownership& ownership = known.ownership;
  database_ = ownership.database;
  if (report.asked_for != database_) {  // nobody has asked yet, or a person has changed it meanwhile
    marking_ = false;
    return sidecar_.broker.claim(database_, false);
  }
  if (const std::string why = conflict(ownership, report); !why.empty()) return refuse(why, report);
  if (report.owner.empty() && report.problem.empty() && !marking_) {
    marking_ = true;
    return sidecar_.broker.claim(database_, true);
  }
  accept(report, known);
}

void OwnershipWatch::accept(const PlaceReport& report, const Known& known) {
  if (sidecar_.health.show("ownership_unchecked", report.problem))
    log::warn("broker's mark cannot be checked", {{"reason", report.problem}});
  if (marking_ && report.owner == database_)
    log::info("broker marked as this database's",
              {{"place", describe(report.place)}, {"database", database_}});
  marking_ = false;
  const std::string others = shared(report, known.live);
  shared_looks_ = others.empty() ? 0 : shared_looks_ + 1;
  if (sidecar_.health.show("ownership_shared", shared_looks_ < kSharedLooks ? "" : others)) {
    log::error("instances of another database serve this place, too", {{"reason", others}});
    sidecar_.record("ownership_shared", report.place.prefix, others);
  }
  if (ours_) return;
  ours_ = true;
  if (known.ownership.serves) sidecar_.broker.serve_only(known.ownership.serves->cluster);
  if (!std::exchange(conflict_, "").empty()) {
    log::info("broker and database belong together again", {{"place", describe(report.place)}});
    sidecar_.health.clear(kConflict);
  }
  changed_(true);
}

void OwnershipWatch::refuse(const std::string& why, const PlaceReport& report) {
  marking_ = false;
  if (std::exchange(conflict_, why) != why) {
    log::error("broker and database do not belong together: nothing is taken in or published",
               {{"reason", why}});
    sidecar_.health.set(kConflict, why, Health::Effect::not_ready);
    sidecar_.record("ownership_conflict", report.place.prefix, why);
  }
  if (std::exchange(ours_, false)) changed_(false);
  sidecar_.table.soon(judge_, kOwnershipLookAgain);
}

}  // namespace rung::bridge
