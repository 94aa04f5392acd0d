// What others can set on Rung's own queues and exchanges that harms there: by policy, operator policy and
// argument. `rung doctor` tells it; docs/broker-settings.md lists it.
// Thread: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/broker.h"
#include "plugin/rabbitmq/topology/attachment.h"

namespace rung::rabbit {

// harmful: intake or retries can stand still, or repeat. fatal: messages can be lost, or go elsewhere.
enum class Harm : std::uint8_t { harmful, fatal };

struct OwnState {
  std::string vhost = "/";
  std::vector<QueueFacts> queues;        // Rung's own, and
  std::vector<ExchangeFacts> exchanges;  // its exchanges
  std::vector<Policy> policies;
  std::vector<OutBinding> return_bindings;  // of the exchange <prefix>.return
};
Result<OwnState> read_own_state(QueueAdmin& admin, std::string_view prefix, std::string vhost,
                                std::vector<Policy> policies);

struct SettingFinding {
  Harm harm = Harm::harmful;
  std::string subject;  // the queue or exchange
  std::string what;     // "policy 'all' sets message-ttl to 5000: messages ..."
  std::string mend;     // the command or change that mends it
};

// The fatal ones first. `queue_type`: broker.queue_type.
std::vector<SettingFinding> judge_settings(std::string_view prefix, std::string_view queue_type,
                                           const OwnState& state);

// The lowest, of those queues that messages are taken in from.
DeliveryLimit lowest_delivery_limit(const std::vector<QueueFacts>& own_queues);

}  // namespace rung::rabbit
