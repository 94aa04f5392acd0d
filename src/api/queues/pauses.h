// Pausing and resuming a queue by hand, for HTTP and the command line. Thread: as the store's.
#pragma once

#include <optional>
#include <string>

#include "src/api/json/json.h"
#include "src/core/rules/policy.h"
#include "src/store/gates.h"
#include "src/store/mysql/mysql_store.h"

namespace rung::api {

struct PauseRequest {
  std::string queue;
  std::optional<Ms> lasts;       // from now, by the database's clock ...
  std::optional<EpochMs> until;  // ... or until then; neither: until it is resumed. REQUIRES: not both
  std::string reason;            // REQUIRES: UTF-8
  std::string who;
};

// Why no queue can have this name; "" = one can.
std::string wrong_queue_name(const std::string& queue);

// Pauses a queue, or changes its pause. A permanent error is the caller's: the name cannot be a queue's or is
// one of Rung's own, or `until` has passed.
Result<Pause> pause_queue(MysqlStore& store, const PauseRequest& request, const TargetRules& rules);
struct ResumeRequest {
  std::string queue, who, reason;
  bool probe = false;  // an open breaker does not wait any longer for its next probe
};
// Ends the pause, and a consumer's retry-after that holds back the queue. If neither is in force there is
// nothing to do, which is no error: a request may be repeated.
struct ResumedQueue {
  std::string queue;
  Resumed ended;
  bool probes = false;     // the wait of its breaker has ended, too
  std::string held_still;  // what holds the queue back all the same; "" = it flows
  std::string state;       // QueueGate::state after it
};
Result<ResumedQueue> resume_queue(MysqlStore& store, const ResumeRequest& request, const TargetRules& rules);

Json to_json(const Pause& pause);  // with the names of the columns of retry_queues
// The pause that ended, or the retry-after; `ended` names both, `retry_after` is the reason of the latter.
// Without either the queue and its state alone; the rest is null.
Json to_json(const ResumedQueue& resumed);

}  // namespace rung::api
