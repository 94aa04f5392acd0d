// Reads pauses and the states of gates from the database: at each tick() what has changed, and every half
// minute all of it, because a row that was deleted is not among the changes. One read is under way at a time.
// A read that began before invalidate() says nothing about now: known() is false until a later one has ended.
// If a read fails, that is logged, and the next one starts where the last good one did. Thread: the loop's.
// Times (EpochMs): by the database's clock.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/bridge/base/health.h"
#include "src/bridge/base/store_jobs.h"
#include "src/core/base/db_clock.h"
#include "src/core/gates/gates.h"
#include "src/core/rules/policy.h"

namespace rung::bridge {

struct GateReading {
  EpochMs at;                // before it was read: by DbClock::now(), never ahead of the database
  bool all = false;          // else what has changed
  bool states_read = false;  // not if the config has no gates
  std::vector<Pause> pauses;
  std::vector<GateState> states;
};

class GateReader {
 public:
  using Names = std::set<std::string, std::less<>>;
  // A read has ended. Of the queues in `written` it does not have the latest state: this instance has written
  // them since it began. `first`: known() was false until now.
  using Took = std::function<void(const GateReading& reading, const Names& written, bool first)>;
  // A reload replaces `rules`.
  GateReader(StoreJobs& jobs, DbClock& clock, const RuleBookPtr& rules, Health& health, Took took);

  void start();
  // Call twice a second: a pause is in force everywhere within a second.
  void tick();
  // Our leases were lost: what was read may be old.
  void invalidate();
  // This instance has written the state of the queue.
  void written(const std::string& queue);

  bool known() const { return !unknown_since_; }

 private:
  void check_health();
  void read();
  void read_done(const GateReading& reading, bool fresh);

  StoreJobs& jobs_;
  DbClock& clock_;
  const RuleBookPtr& rules_;
  Health& health_;
  const Took took_;
  std::optional<BootMs> unknown_since_ = BootMs{0};  // none: known()
  bool reading_ = false;
  int generation_ = 0;  // a read that began before the latest says nothing about now
  EpochMs read_at_;
  BootMs read_all_at_{0};
  bool read_states_ = false;  // all of them, once
  Names written_;             // by us, since the read under way began
};

}  // namespace rung::bridge
