// What holds back the tasks of a queue: cheap, unlike the view retry_queues, for it counts no tasks. The
// rules of a config (no addresses and no secrets), and what they would decide for a failure: `rung check
// --explain`, POST /v1/simulate; decided by the state machine, as in the sidecar. Thread: as the store's;
// pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/api/base/message.h"
#include "src/core/causes/fingerprint.h"
#include "src/core/rules/failure_rules.h"
#include "src/core/rules/policy.h"
#include "src/core/task/task.h"
#include "src/store/mysql/mysql_store.h"

namespace rung::api {

// By queue: how many messages wait in it, if it has no consumer, and deliveries to it await an answer.
std::map<std::string, std::int64_t> unread_queues(MysqlStore& store);
// The rows of retry_queues, and the other queues that have tasks which have not ended, or are attached; by
// name.
std::vector<QueueGate> read_queues(MysqlStore& store);
// {"queues", "queues_left_out"}: what is held first, which is never left out, then those with the most
// waiting tasks, `most` in all. A page takes a queue that is missing for a flowing one.
Json overview_queues(std::vector<QueueGate> gates, std::size_t most);

// All queues that are held back.
std::vector<QueueGate> gates_in_force(MysqlStore& store);
// The gate that holds back this task; none: it does not wait for one, or is due only after its end.
std::optional<QueueGate> holding_gate(MysqlStore& store, const Task& task);

// "queue orders is paused until 2026-11-23 08:00:00.000 UTC by ann (the shop is down)"
std::string gate_text(const QueueGate& gate);
// Why no queue can have this name; "" = one can.
std::string wrong_queue_name(const std::string& queue);

// With the names of the columns of retry_queues, without waiting, next_due_at, parked and attached. None:
// null.
Json gate_json(const std::optional<QueueGate>& gate);

Json config_json(const RuleBook& rules);
// What applies to one queue: its entry (`entry`: its name, or the pattern that it matches; null: the
// defaults), the delays of its ladder and its rules for failures.
Json queue_config_json(const RuleBook& rules, const std::string& queue);

// What POST /v1/simulate answers to this body, without the gate and the rates. Throws what is wrong with it.
// `causes`: the config's, nullptr: it has none.
Json explain_failure(const Json& failure, const RuleBook& rules, const CauseRules* causes = nullptr);

}  // namespace rung::api
