// What attach, detach, attached and doctor ask about queues, through the management API.
// Thread: one; the calls block, bounded by the admin's timeouts.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "plugin/broker_options.h"
#include "plugin/rabbitmq/topology/attachment.h"
#include "src/cli/shared/command.h"

namespace rung::cli {

// The management API, which accepts our login. Permanent error: in the config. Transient: why it was not
// reached.
Result<std::unique_ptr<rabbit::QueueAdmin>> reach_management(const BrokerOptions& broker);

// Queues that belong to Rung (<prefix>.*, of every group) or to the broker (amq.*).
bool is_own_queue(const Config& config, std::string_view queue);
// Existing queues that match a pattern of the config, by pattern, without those that have an entry of their
// own, Rung's own, error queues, exclusive queues and streams.
std::map<std::string, std::vector<std::string>> matched_queues(const Config& config,
                                                               const std::vector<rabbit::QueueFacts>& all);
// The command ends if the queue belongs to another group than the chosen one.
void check_group(const Config& config, const std::string& queue);

}  // namespace rung::cli
