// What retention has done since the start, and a line in the log for a day's work, not for a batch. Thread:
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
  // A pass has ended: says what is worth it.
  void ended(const RetentionPass& pass, BootMs now);

 private:
  static constexpr Ms kSayEvery{std::chrono::hours{24}};

  RetentionTotals totals_, said_;     // said_: as of the last line in the log
  std::vector<std::string> dropped_;  // partitions, since then
  std::string trouble_;               // as last said
  BootMs said_at_{BootMs{0} - kSayEvery};
};

}  // namespace rung::bridge
