// Checks that this database and this place of the broker belong together (src/store/ownership.h), before the
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
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "plugin/broker.h"
#include "src/bridge/base/health.h"
#include "src/bridge/base/observers.h"
#include "src/bridge/leases/jobs.h"
#include "src/store/ownership.h"

namespace rung::bridge {

class OwnershipWatch {
 public:
  struct Deps {
    Broker& broker;
    Jobs& jobs;
    Health& health;
    RecordEvent record;
    std::function<void(bool ours)> changed;  // called with each change of ours()
  };
  explicit OwnershipWatch(Deps deps);

  void start() { deps_.jobs.run(judge_); }
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

  const Deps deps_;
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
