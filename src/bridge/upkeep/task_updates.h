// What follows from new and changed rows of tasks.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "src/bridge/base/flow_counts.h"
#include "src/bridge/base/observers.h"
#include "src/bridge/base/once_per_name.h"
#include "src/bridge/base/queue_names.h"
#include "src/bridge/flight/dispatch.h"
#include "src/bridge/flight/horizon.h"
#include "src/bridge/gates/gates.h"
#include "src/bridge/watch/attachments.h"
#include "src/bridge/watch/store_watch.h"
#include "src/core/base/db_clock.h"
#include "src/core/task/task.h"

namespace rung::bridge {

// Failures that a consumer published to <prefix>.failed without saying which exchange and routing key the
// message came by: its retries get the queue's name as routing key, and nothing knows the original one any
// more. Says so once for each queue, in the log and as an event. Thread: the loop's.
class MissingOrigins {
 public:
  MissingOrigins(const std::string& prefix, RecordEvent record)
      : failed_(prefix + ".failed"), record_(std::move(record)) {}

  // A new row.
  void inserted(const Task& task);

  std::int64_t count() const { return count_; }  // since the start

 private:
  const std::string failed_;  // the exchange
  const RecordEvent record_;
  OncePerName said_;  // queues
  std::int64_t count_ = 0;
};

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
    Tracer* tracer;                             // nullptr: traces are off
    MissingOrigins* missing_origins = nullptr;  // tests need none
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
