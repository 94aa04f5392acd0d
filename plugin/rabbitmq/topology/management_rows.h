// What rows of the management API say. Thread: pure functions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "plugin/rabbitmq/topology/dead_letter_routes.h"
#include "plugin/rabbitmq/topology/management.h"
#include "plugin/rabbitmq/topology/own_settings.h"

namespace rung::rabbit {

QueueFacts queue_facts_of(const nlohmann::json& row);
// REQUIRES: `row` is an object.
Binding binding_of(const nlohmann::json& row);
Policy policy_of(const nlohmann::json& row);
// Older versions give no effective definition for exchanges: no operator policy applies to those.
OwnObject own_object_of(bool queue, const nlohmann::json& row, const std::vector<Policy>& policies,
                        const std::vector<Policy>& by_operator);

}  // namespace rung::rabbit
