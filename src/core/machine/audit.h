// Audit rows: who changed a task by hand, when, what, and the fields before and after. A result that changes
// a finished task leaves one too.
// Thread: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "src/core/machine/machine.h"
#include "src/core/task/task.h"

namespace rung {

struct AuditRow {
  std::int64_t id = 0;
  EpochMs at;
  std::string who, what;  // what: name_of(Happening)
  TaskId task;
  std::string before, after;  // JSON objects of the changed fields, named as in retry_current
  std::string reason = {};    // ByHand::reason
  std::int64_t bulk = 0;      // ByHand::bulk
};

// None if `event` is neither by hand nor a result for a finished task.
std::optional<AuditRow> audit_of(const Event& event, const Task& before, const Task& after, EpochMs at);

}  // namespace rung
