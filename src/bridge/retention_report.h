// Totals of retention since the start, and one log line for a day's work instead of one per batch. Thread:
// the loop's.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/bridge/retention_pass.h"
#include "src/core/time.h"

namespace rung::bridge {

class RetentionReport {
 public:
  const RetentionTotals& totals() const { return totals_; }

  // A step is done.
  void add(const RetentionPass& step, EpochMs now);
  // A pass has ended: logs what is worth logging.
  void ended(const RetentionPass& pass, BootMs now);

 private:
  static constexpr Ms kSayEvery{std::chrono::hours{24}};

  RetentionTotals totals_, said_;     // said_: at the last log line
  std::vector<std::string> dropped_;  // partitions, since then
  std::string trouble_;               // as last logged
  BootMs said_at_{BootMs{0} - kSayEvery};
};

}  // namespace rung::bridge
