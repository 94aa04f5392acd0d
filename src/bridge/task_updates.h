// Reacts to new and changed task rows, whoever changed them: adds the due time to the heap, withdraws a
// held-back copy, and logs what people must know. Thread: the loop's.
#pragma once

#include "src/bridge/attachments.h"
#include "src/bridge/dispatch.h"
#include "src/bridge/horizon.h"
#include "src/bridge/queue_names.h"
#include "src/bridge/store_watch.h"
#include "src/bridge/task_observer.h"

namespace rung::bridge {

class TaskUpdates final : public TaskObserver {
 public:
  TaskUpdates(Dispatch& dispatch, Horizon& horizon, QueueNames& names, StoreWatch& store_watch,
              Attachments& attachments)
      : dispatch_(dispatch),
        horizon_(horizon),
        names_(names),
        store_watch_(store_watch),
        attachments_(attachments) {}

  void inserted(const Task& task) override;
  void decided(const Decision& decision) override;

 private:
  void schedule(const Task& task);

  Dispatch& dispatch_;
  Horizon& horizon_;
  QueueNames& names_;
  StoreWatch& store_watch_;
  Attachments& attachments_;
};

}  // namespace rung::bridge
