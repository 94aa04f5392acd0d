// What people and programs hand in without the broker: new tasks, and changes of tasks, from any thread. Gathered into
// few transactions, as intake is: many small calls at once cost what one large one does. Nothing is answered before
// its commit. Thread: submit() and change() any; everything else, and the callbacks, the loop's.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "src/bridge/shards.h"
#include "src/bridge/store_threads.h"
#include "src/bridge/transitions.h"

namespace rung::bridge {

// A task that only has to wait. Of `task` whoever submits sets message, intake_key, same_even_if_finished, origin_json,
// and of task.task: queue, exchange, routing_key, tag, message_id, silence, body_bytes. The rest is begin_delay()'s.
struct Submission {
  NewTask task;
  Directives directives;      // ladder, max_attempts
  std::optional<EpochMs> at;  // else `delay` from now, both by the database's clock
  Ms delay{0};
};

// What became of one: its row (of a duplicate the id alone), and whether it is new.
struct Submitted {
  Inserted answer;
  Task task;
};

}  // namespace rung::bridge
