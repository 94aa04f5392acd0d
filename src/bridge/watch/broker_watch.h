// Watches the broker's state: logs each change, maintains the problems "broker" and "topology" in Health, and
// releases our shards while we cannot publish and another instance can. Thread: the loop's.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "src/bridge/base/sidecar.h"
#include "src/bridge/base/store_jobs.h"
#include "src/bridge/leases/jobs.h"
#include "src/bridge/leases/shards.h"
#include "src/store/store.h"

namespace rung::bridge {

// The state of our publishing connection (BrokerLink) as reported to the other instances, damped so that
// shards do not move with every reconnect. The link counts as lost once it has been down for longer than
// `down_timeout`, and as up again once it has been up for as long. A connection that lasts less than a third
// of that does not end the outage. Thread: the loop's.
class Ability {
 public:
  explicit Ability(Ms down_timeout) : down_timeout_(down_timeout) {}

  // The connection went up or down.
  void publishing(bool up, BootMs now) {
    if (up == up_since_.has_value()) return;
    if (up) {
      up_since_ = now;
      return;
    }
    if (!down_since_ || now - *up_since_ >= down_timeout_ / 3) down_since_ = now;
    up_since_.reset();
  }
  BrokerLink link(BootMs now) {
    if (!up_since_ && down_since_ && now - *down_since_ > down_timeout_) lost_ = true;
    if (up_since_ && now - *up_since_ >= down_timeout_) lost_ = false;
    if (lost_) return BrokerLink::lost;
    return up_since_ ? BrokerLink::up : BrokerLink::interrupted;
  }

 private:
  const Ms down_timeout_;
  bool lost_ = false;
  std::optional<BootMs> up_since_, down_since_;
};

class BrokerWatch {
 public:
  // We step back when the connection has been down for a lease. `given_up`: called repeatedly while our
  // shards are given up.
  BrokerWatch(const Sidecar& sidecar, std::function<void()> given_up);

  void changed(const BrokerStatus& status);
  void checked(const TopologyReport& report);
  // Whether we may publish to this broker (OwnershipWatch). If not, another instance may get our shards.
  void set_ours(bool yes);

  const BrokerStatus& status() const { return status_; }
  bool takes_messages() const { return status_.publishing && !status_.blocked; }
  bool has_served() const { return has_served_; }  // has consumed and published at least once

 private:
  void say_away(bool refused_before);
  void look();

  const Sidecar& sidecar_;
  const std::function<void()> given_up_;
  BrokerStatus status_;
  Ability ability_;
  bool ours_ = false;
  bool has_served_ = false;
  bool stepped_back_ = false;          // as last reported
  BootMs away_since_{0};               // 0 = not away
  OncePerName reasons_{kMostReasons};  // those logged since then
};

// Checks that this database and this place of the broker belong together (src/store/store.h), before the
// first message is taken or sent, and with each check of the topology. Otherwise one database could be served
// by two virtual hosts, each publishing the other's tasks into its own queues, or one prefix by two
// databases, each taking the other's results for unknown. On a conflict nothing is taken in or published, the
// process goes on, and it looks again every few seconds: a person has to correct the config, or run `rung
// adopt`.
//
// A copy of the database has its id, and only shows by its instances: these are a warning, for a process that
// was killed may look like one of them for a while.
//
// A free place and a new database are taken by whoever comes first: the database remembers the place first,
// then the broker is marked. Thread: the loop's.
class OwnershipWatch {
 public:
  // `changed`: called with each change of ours().
  OwnershipWatch(const Sidecar& sidecar, std::function<void(bool ours)> changed);

  void start() { sidecar_.table.run(judge_); }
  void reported(const PlaceReport& report);
  void drain() { draining_ = true; }

  // Until the first check has succeeded, and during a conflict: false.
  bool ours() const { return ours_; }

 private:
  Jobs::Work look();
  struct Known {
    Ownership ownership;
    std::size_t live = 0;  // instances that use the database
  };
  void judge(const PlaceReport& report, const Known& known);
  void accept(const PlaceReport& report, const Known& known);
  void refuse(const std::string& why, const PlaceReport& report);

  const Sidecar& sidecar_;
  const std::function<void(bool ours)> changed_;
  const Jobs::Id judge_;
  std::optional<PlaceReport> report_;  // not judged yet
  std::string database_;               // its id, as last read; "" = not yet
  std::string conflict_;               // as last told; "" = none
  int shared_looks_ = 0;               // in a row, that found instances of another database
  bool marking_ = false;               // the last claim was to mark the place
  bool ours_ = false;
  bool draining_ = false;
};

}  // namespace rung::bridge
