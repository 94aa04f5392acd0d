// The changes by hand of all tasks and queues, the newest first. Thread: values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/core/machine/audit.h"

namespace rung {

// Where a page ends: rows are ordered by time, and those of one millisecond by id.
struct AuditPlace {
  EpochMs at;
  std::int64_t id = 0;
  auto operator<=>(const AuditPlace&) const = default;
};

// Empty = all, without what bulks have done to single tasks.
struct AuditFilter {
  std::string queue = {}, what = {};
  std::string who = {};                           // how the name begins: it ends with an address or a host
  std::int64_t bulk = 0;                          // what it has done to each task; 0 = a bulk is one row
  std::optional<EpochMs> since = {}, until = {};  // without `until` itself
  std::optional<AuditPlace> after = {};           // only what is listed behind it
  int limit = 50;
  // No index serves them: one call looks at kMostAuditRead rows at most.
  bool selects() const { return !queue.empty() || !what.empty() || !who.empty(); }
};
inline constexpr int kMostAuditRead = 10'000;

struct AuditPage {
  struct Row {
    AuditRow change;
    std::string queue;  // of the task as it is now, or of the pause; "" = it has none, or has been deleted
  };
  std::vector<Row> rows;
  std::optional<AuditPlace> next;  // none: there are no more. The page may have no rows all the same
};

// The queue that was paused or resumed, or that a bulk's filter names; "" = it is another change.
std::string paused_queue(const AuditRow& row);

}  // namespace rung
