// Rules and their parts, for the tests of failures.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/core/rules/failure_rules.h"
#include "tests/unit/core/machine_fixture.h"

namespace rung::testing {

inline RuleRegex regex(std::string_view text) { return parse_rule_regex(text).value(); }

inline FailureRule rule(RuleConditions when, RuleAction then, std::optional<RuleRegex> type_from = {}) {
  FailureRule out{"", std::move(when), std::move(then), std::move(type_from)};
  return out;
}

inline RuleConditions type(std::vector<std::string> types) {
  RuleConditions when;
  when.types = std::move(types);
  return when;
}
inline RuleConditions error(std::string_view text) {
  RuleConditions when;
  when.error = regex(text);
  return when;
}
inline RuleAction action(RuleAction::Kind kind) {
  RuleAction then;
  then.kind = kind;
  return then;
}
inline RuleAction snooze(Ms wait) {
  RuleAction then = action(RuleAction::Kind::snooze);
  then.snooze = wait;
  return then;
}

inline FailureRules list(std::vector<FailureRule> rules) {
  for (std::size_t i = 0; i < rules.size(); ++i) rules[i].name = "list[" + std::to_string(i + 1) + "]";
  return FailureRules(std::move(rules));
}

}  // namespace rung::testing
