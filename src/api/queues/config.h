// The rules of a config as JSON: ladders, queues, tags, error queues; no addresses and no secrets.
// Thread: pure functions.
#pragma once

#include <string>

#include "src/api/base/json.h"
#include "src/core/rules/policy.h"

namespace rung::api {

Json config_json(const RuleBook& rules);
// What applies to one queue: its entry (`entry`: its name, or the pattern that it matches; null: the
// defaults), the delays of its ladder and its rules for failures.
Json queue_config_json(const RuleBook& rules, const std::string& queue);

}  // namespace rung::api
