// What follows from new and changed rows of tasks.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "src/bridge/base/flow_counts.h"
#include "src/bridge/base/observers.h"
#include "src/bridge/base/queue_names.h"
#include "src/bridge/flight/dispatch.h"
#include "src/bridge/flight/horizon.h"
#include "src/bridge/gates/gates.h"
#include "src/bridge/watch/attachments.h"
#include "src/bridge/watch/store_watch.h"
#include "src/core/base/clock.h"
#include "src/core/task/task.h"

namespace rung::bridge {

// Reacts to new and changed task rows, whoever changed them: adds the due time to the heap, withdraws a
// held-back copy, and logs what people must know. Thread: the loop's.
class TaskUpdates final : public TaskObserver {
 public:
  struct Deps {
    Dispatch& dispatch;
    Horizon& horizon;
    QueueNames& names;
    StoreWatch& store_watch;
    Attachments& attachments;
    Gates& gates;
    FlowCounts& counts;
    const DbClock& clock;
    Tracer* tracer;  // nullptr: traces are off
  };
  explicit TaskUpdates(Deps deps) : deps_(deps) {}
  void inserted(const NewTask& fresh) override;
  void decided(const Decision& decision) override;
  void holds_queue(const Task& task, Ms wait) override;

  // Failures since the start, by the rule that decided. Only rules of the config, so they are few.
  const std::map<std::string, std::int64_t>& decided_by_rule() const { return by_rule_; }

 private:
  void schedule(const Task& task);
  void count(const std::string& rule);

  const Deps deps_;
  std::map<std::string, std::int64_t> by_rule_;
};

}  // namespace rung::bridge
