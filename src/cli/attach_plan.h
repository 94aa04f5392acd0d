// What has to be done so that a queue's dead letters come to us, worked out from what stands now.
// Thread: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/rabbitmq/management.h"

namespace rung::cli {

struct AttachPlan {
  enum class Action {
    nothing,  // attached already; `why` says by what
    refuse,   // a policy cannot do it; `why` says what can
    put,      // `policy`
  };
  Action action = Action::nothing;
  std::string reason;
  rabbit::Policy policy;
  std::string overridden;         // the policy whose definition it takes over and covers; "" = none
  std::string previous_exchange;  // where dead letters went until now; "" = nowhere
};

AttachPlan plan_attach(std::string_view prefix, std::string_view queue, const rabbit::QueueFacts& facts,
                       const std::vector<rabbit::Policy>& policies);

// Where the policy in effect sends dead letters; none where it does not say.
std::optional<std::string> dead_letters_by_policy(const rabbit::QueueFacts& facts,
                                                  const std::vector<rabbit::Policy>& policies);

const rabbit::Policy* find_policy(const std::vector<rabbit::Policy>& policies, std::string_view name);

}  // namespace rung::cli
