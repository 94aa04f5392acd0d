// One pass of retention: partitions for the days to come; finished tasks that are old, in small batches; old
// records; old partitions, dropped whole or, where a task keeps one, swept row by row. A pass is a value that
// goes to the database and comes back, a step at a time. Thread: perform_step() on a store thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/core/clock.h"
#include "src/core/result.h"
#include "src/core/time.h"
#include "src/store/retention.h"

namespace rung::bridge {

// What went.
struct RetentionTotals {
  std::int64_t tasks = 0, partitions = 0, audit = 0, bulks = 0, events = 0;
  std::optional<EpochMs> last;  // when something went
};

struct RetentionPass {
  enum class Stage { add, tasks, records, list, drop, sweep, done };

  Stage stage = Stage::done;
  std::optional<Ms> keep;  // none: nothing is deleted; partitions are made all the same
  EpochMs now;             // when it began
  BootMs began{0};
  bool look = false;   // at the partitions, too
  bool sweep = false;  // and at what is left in those that stay
  PurgeCursor cursor;
  std::vector<Partition> old;  // still to be looked at, the last one first
  TaskId sweep_from, sweep_to;
  bool busy = false;     // the tables were: later
  bool refused = false;  // a partition could not be dropped: nor can the next
  std::string trouble;   // with the tables; the rest goes on
  // By the last step.
  RetentionTotals gone;
  std::vector<std::string> dropped;  // partitions, by name
  Ms took{0};
};

// What goes wrong with the tables' partitions (the user may not, the tables are in use) holds up nothing
// else.
Result<RetentionPass> perform_step(RetentionPass pass, const Clock& here, RetentionStore& store);

}  // namespace rung::bridge
