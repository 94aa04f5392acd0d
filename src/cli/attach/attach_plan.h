// Plans how to attach a queue, from its current arguments and policies.
// Thread: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/rabbitmq/topology/attachment.h"

namespace rung::cli {

struct AttachPlan {
  enum class Action {
    nothing,  // already attached; `reason` says how
    refuse,   // a policy cannot attach it; `reason` says what can
    put,      // set `policy`
  };
  Action action = Action::nothing;
  std::string reason;
  std::string command;  // attaches it; "" = nothing does
  rabbit::Policy policy;
  std::string overridden;         // the policy that it copies and overrides; "" = none
  std::string previous_exchange;  // where dead letters go now; "" = nowhere
  // It is attached by the policy that attach made, which no longer equals the one that it copies: `policy`
  // does. How they differ; "" = they do not.
  std::string drift;
};

AttachPlan plan_attach(const BrokerOptions& broker, std::string_view queue, const rabbit::QueueFacts& facts,
                       const std::vector<rabbit::Policy>& policies, const rabbit::DeadLetterRoutes& routes);

// "rung attach orders"
std::string attach_command(const std::string& queue);
std::string vhost_of(const BrokerOptions& broker);

// The policy that would apply to the queue without the one named `except`; nullptr: none. Of several with the
// same priority, RabbitMQ takes any: here the first by name.
const rabbit::Policy* policy_below(const rabbit::QueueFacts& facts,
                                   const std::vector<rabbit::Policy>& policies, std::string_view except);

const rabbit::Policy* find_policy(const std::vector<rabbit::Policy>& policies, std::string_view name);

}  // namespace rung::cli
