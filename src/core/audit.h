// What a change by hand leaves for whoever asks later: who, when, what, before and after. So does a result
// that changes a task that had finished.
// Thread: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "src/core/machine.h"
#include "src/core/task.h"

namespace rung {

struct AuditRow {
  std::int64_t id = 0;
  EpochMs at;
  std::string who, what;  // what: name_of(Happening)
  TaskId task;
  std::string before, after;  // JSON objects of the fields that changed, named as in retry_current
};

// None where `event` is neither by hand nor a result for a task that had finished.
std::optional<AuditRow> audit_of(const Event& event, const Task& before, const Task& after, EpochMs at);

}  // namespace rung
