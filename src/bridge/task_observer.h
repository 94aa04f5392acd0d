// Observes the tasks' rows, so that the state in memory follows them. Thread: the loop's.
#pragma once

#include "src/core/machine.h"
#include "src/core/task.h"

namespace rung::bridge {

class TaskObserver {
 public:
  virtual ~TaskObserver() = default;
  // A new row is committed.
  virtual void inserted(const NewTask& fresh) = 0;
  // An event was decided; the row has changed where the verdict is `applied`.
  virtual void decided(const Decision& decision) = 0;
  // The consumer of this new task asked that its queue wait.
  virtual void holds_queue(const Task& task, Ms wait) = 0;
};

}  // namespace rung::bridge
