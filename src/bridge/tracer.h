// Observes what becomes of tasks, for traces. The bridge has none where traces are off.
// Times: the database's clock. Thread: the loop's.
#pragma once

#include "plugin/broker.h"
#include "src/core/machine.h"
#include "src/core/task.h"
#include "src/core/time.h"

namespace rung::bridge {

class Tracer {
 public:
  virtual ~Tracer() = default;
  // A new task is committed.
  virtual void received(const NewTask& fresh, EpochMs now) = 0;
  // The task's current attempt was passed to the broker's connection.
  virtual void sent(const Task& task, const Outgoing& outgoing, EpochMs now) = 0;
  // The result of that, exactly one for each sent(). Without a sent() before it: the attempt cannot be sent.
  virtual void answered(const Task& task, const PublishResult& result, EpochMs now) = 0;
  // A task's row has changed. REQUIRES: the verdict is `applied`.
  virtual void decided(const Decision& decision) = 0;
};

}  // namespace rung::bridge
