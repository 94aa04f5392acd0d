// Reacts to new and changed task rows, whoever changed them: adds the due time to the heap, withdraws a
// held-back copy, and logs what people must know. Thread: the loop's.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "src/bridge/attachments.h"
#include "src/bridge/breakers.h"
#include "src/bridge/dispatch.h"
#include "src/bridge/flow_counts.h"
#include "src/bridge/gate_writer.h"
#include "src/bridge/horizon.h"
#include "src/bridge/missing_origins.h"
#include "src/bridge/queue_names.h"
#include "src/bridge/store_watch.h"
#include "src/bridge/task_observer.h"
#include "src/bridge/tracer.h"
#include "src/core/db_clock.h"

namespace rung::bridge {

class TaskUpdates final : public TaskObserver {
 public:
  TaskUpdates(Dispatch& dispatch, Horizon& horizon, QueueNames& names, StoreWatch& store_watch,
              Attachments& attachments, Breakers& breakers, GateWriter& writer, FlowCounts& counts,
              const DbClock& clock, Tracer* tracer, MissingOrigins* missing_origins = nullptr)
      : dispatch_(dispatch),
        horizon_(horizon),
        names_(names),
        store_watch_(store_watch),
        attachments_(attachments),
        breakers_(breakers),
        writer_(writer),
        counts_(counts),
        clock_(clock),
        tracer_(tracer),
        missing_origins_(missing_origins) {}

  void inserted(const NewTask& fresh) override;
  void decided(const Decision& decision) override;
  void holds_queue(const Task& task, Ms wait) override;

  // Failures since the start, by the rule that decided. Only rules of the config, so they are few.
  const std::map<std::string, std::int64_t>& decided_by_rule() const { return by_rule_; }

 private:
  void schedule(const Task& task);
  void count(const std::string& rule);

  Dispatch& dispatch_;
  Horizon& horizon_;
  QueueNames& names_;
  StoreWatch& store_watch_;
  Attachments& attachments_;
  Breakers& breakers_;
  GateWriter& writer_;
  FlowCounts& counts_;
  const DbClock& clock_;
  Tracer* const tracer_;  // nullptr: traces are off
  MissingOrigins* const missing_origins_;
  std::map<std::string, std::int64_t> by_rule_;
};

}  // namespace rung::bridge
