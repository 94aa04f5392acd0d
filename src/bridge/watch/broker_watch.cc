#include "src/bridge/watch/broker_watch.h"

#include <utility>

#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr Ms kLookAtLink{500};

bool serves(const BrokerStatus& status) { return status.consuming && status.publishing; }

std::string address_of(const BrokerStatus& status) {
  if (status.consuming_at == status.publishing_at) return status.publishing_at;
  return status.publishing_at + " (publishing), " + status.consuming_at + " (consuming)";
}

}  // namespace

BrokerWatch::BrokerWatch(const Clock& clock, Deps deps, std::string node, Ms down_timeout)
    : deps_(std::move(deps)), clock_(clock), node_(std::move(node)), ability_(down_timeout) {
  deps_.jobs.add({"broker link", kLookAtLink, Lane::flow, Jobs::Who::all, [this] {
                    look();
                    return Jobs::Work{};
                  }});
}

void BrokerWatch::changed(const BrokerStatus& status) {
  const BrokerStatus before = std::exchange(status_, status);
  say_away(before.refused);
  if (serves(status) && !serves(before)) {
    if (away_since_.ms != 0) {
      log::info("broker reconnected",
                {{"away_ms", (clock_.boot() - away_since_).count()}, {"address", address_of(status)}});
    } else {
      log::info("broker connected", {{"address", address_of(status)}});
    }
    away_since_ = {0};
    reasons_.clear();
    has_served_ = true;
    if (!stepped_back_) deps_.health.clear("broker");
  }
  ability_.publishing(status.publishing && ours_, clock_.boot());
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
  if (!stepped_back_) deps_.health.set("broker", status_.reason, Health::Effect::not_ready);
  const bool first = away_since_.ms == 0;
  if (first) away_since_ = clock_.boot();
  const bool news = reasons_.is_news(status_.reason);
  if (status_.refused && (news || !refused_before)) {
    log::error("broker refuses this instance: retrying every 5 s at most", {{"reason", status_.reason}});
  } else if (first || news) {
    log::warn(first ? "broker unavailable" : "broker still unavailable", {{"reason", status_.reason}});
  }
}

void BrokerWatch::checked(const TopologyReport& report) {
  for (const std::string& name : report.repaired) {
    ++repairs_;
    log::warn("topology repaired", {{"missing", name}});
    deps_.record("topology_repaired", name,
                 "it was missing in " + std::string(deps_.broker) + " and was declared again");
  }
  if (report.problem.empty() && deps_.health.has("topology")) log::info("topology complete again");
  if (deps_.health.show("topology", report.problem))
    log::warn("topology repair failed", {{"reason", report.problem}});
}

void BrokerWatch::set_ours(bool yes) {
  ours_ = yes;
  ability_.publishing(status_.publishing && ours_, clock_.boot());
}

void BrokerWatch::look() {
  BrokerLink link = ability_.link(clock_.boot());
  // Reconnected, if only recently, and still holding all its shards: after an outage for all instances, the
  // first to reconnect must not get the shards of the others.
  if (link == BrokerLink::lost && status_.publishing && ours_ && !deps_.shards.stepped_back())
    link = BrokerLink::interrupted;
  deps_.shards.set_link(link);
  const bool back = deps_.shards.stepped_back();
  if (back) deps_.given_up();
  if (back == std::exchange(stepped_back_, back)) return;
  if (back) {
    deps_.health.set("broker", "cannot publish, and another instance has its shards: " + status_.reason,
                     Health::Effect::not_ready);
    deps_.record("shards_given_up", node_, status_.reason);
  } else {
    if (serves(status_)) deps_.health.clear("broker");
    deps_.record("shards_taken_again", node_,
                 status_.publishing ? "it can publish" : "no other instance can publish");
  }
}

}  // namespace rung::bridge
