// The rules of a config as JSON (no addresses and no secrets), and what they would decide for a failure:
// `rung check --explain`, POST /v1/simulate. Decided by the state machine, as in the sidecar. Thread: pure
// functions.
#pragma once

#include <string>

#include "src/api/base/json.h"
#include "src/core/causes/fingerprint.h"
#include "src/core/rules/failure_rules.h"
#include "src/core/rules/policy.h"
#include "src/core/task/task.h"

namespace rung::api {

Json config_json(const RuleBook& rules);
// What applies to one queue: its entry (`entry`: its name, or the pattern that it matches; null: the
// defaults), the delays of its ladder and its rules for failures.
Json queue_config_json(const RuleBook& rules, const std::string& queue);

// What POST /v1/simulate answers to this body, without the gate and the rates. Throws what is wrong with it.
// `causes`: the config's, nullptr: it has none.
Json explain_failure(const Json& failure, const RuleBook& rules, const CauseRules* causes = nullptr);

}  // namespace rung::api
