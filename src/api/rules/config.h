// The rules of a sidecar's config as JSON: ladders, queues, tags, error queues; no addresses and no secrets.
// Thread: pure functions.
#pragma once

#include "src/api/json/json.h"
#include "src/core/rules/policy.h"

namespace rung::api {

Json config_json(const RuleBook& rules);

}  // namespace rung::api
