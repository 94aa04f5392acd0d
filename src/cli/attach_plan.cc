#include "src/cli/attach_plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace rung::cli {
namespace {

using PlainJson = nlohmann::json;
using rabbit::Policy;

constexpr const char* kDeadLetters = "dead-letter-exchange";

PlainJson definition_of(const Policy* policy) {
  PlainJson definition =
      policy == nullptr ? PlainJson::object() : PlainJson::parse(policy->definition, nullptr, false);
  return definition.is_object() ? definition : PlainJson::object();
}

}  // namespace

const Policy* find_policy(const std::vector<Policy>& policies, std::string_view name) {
  const auto it = std::ranges::find(policies, name, &Policy::name);
  return name.empty() || it == policies.end() ? nullptr : &*it;
}

std::optional<std::string> dead_letters_by_policy(const rabbit::QueueFacts& facts,
                                                  const std::vector<Policy>& policies) {
  const PlainJson definition = definition_of(find_policy(policies, facts.policy));
  const auto it = definition.find(kDeadLetters);
  if (it == definition.end() || !it->is_string()) return std::nullopt;
  return it->get<std::string>();
}

AttachPlan plan_attach(std::string_view prefix, std::string_view queue, const rabbit::QueueFacts& facts,
                       const std::vector<Policy>& policies) {
  AttachPlan plan;
  const std::string ours = rabbit::failed_exchange(prefix);
  if (facts.dead_letter_argument) {
    if (*facts.dead_letter_argument == ours) {
      plan.reason = "by its queue argument x-dead-letter-exchange";
      return plan;
    }
    plan.action = AttachPlan::Action::refuse;
    plan.reason =
        "it was declared with x-dead-letter-exchange '" + *facts.dead_letter_argument +
        "', and a queue argument overrides any policy: redeclare it without the argument or with '" + ours +
        "', or bind the queue " + ours + " to '" + *facts.dead_letter_argument + "'";
    return plan;
  }
  if (facts.type == "stream") {
    plan.action = AttachPlan::Action::refuse;
    plan.reason = "it is a stream, and streams do not dead-letter: publish failures to " + ours + " instead";
    return plan;
  }
  const auto now = dead_letters_by_policy(facts, policies);
  if (now == ours) {
    plan.reason = "by policy " + facts.policy;
    return plan;
  }

  const Policy* in_effect = find_policy(policies, facts.policy);
  plan.action = AttachPlan::Action::put;
  plan.previous_exchange = now.value_or("");
  plan.policy.name = rabbit::policy_name(queue);
  plan.policy.pattern = rabbit::policy_pattern(queue);
  // Only one policy applies to a queue, so ours copies the one in effect.
  PlainJson definition = definition_of(in_effect);
  definition[kDeadLetters] = ours;
  plan.policy.definition = definition.dump(-1, ' ', false, PlainJson::error_handler_t::replace);
  if (in_effect != nullptr) {
    const bool is_ours = in_effect->name == plan.policy.name;
    plan.policy.priority = in_effect->priority + (is_ours ? 0 : 1);
    if (!is_ours) plan.overridden = in_effect->name;
  }
  return plan;
}

}  // namespace rung::cli
