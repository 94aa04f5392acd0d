// Totals of retention since the start, and one log line for a day's work instead of one per batch. Thread:
// the loop's.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/bridge/retention_pass.h"
#include "src/core/time.h"

namespace rung::bridge {

// For metrics.
struct RetentionState {
  RetentionTotals totals;
  std::optional<Ms> keep;  // none: retention is off
  // When nothing was left to delete, or this instance took charge, whichever is later; 0 = it never did.
  EpochMs tasks_done, partitions_done;
};

class RetentionReport {
 public:
  RetentionState state(std::optional<Ms> keep) const {
    return {totals_, keep, tasks_done_, partitions_done_};
  }

  // A step is done.
  void add(const RetentionPass& step, EpochMs now);
  // This instance is in charge from now on.
  void took_charge(EpochMs now) { tasks_done_ = partitions_done_ = now; }
  // A pass has ended: logs what is worth logging.
  void ended(const RetentionPass& pass, EpochMs db_now, BootMs now);

 private:
  static constexpr Ms kSayEvery{std::chrono::hours{24}};

  RetentionTotals totals_, said_;     // said_: at the last log line
  std::vector<std::string> dropped_;  // partitions, since then
  std::string trouble_;               // as last logged
  EpochMs tasks_done_, partitions_done_;
  BootMs said_at_{BootMs{0} - kSayEvery};
};

}  // namespace rung::bridge
