// Rules by kind of failure: `rules` of the config. The first rule whose conditions all hold decides what
// happens to a failed task; if none matches, the queue's ladder does. machine.cc applies the result. Thread:
// a FailureRules is immutable after construction; match() may be called from any thread.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/core/base/result.h"
#include "src/core/base/time.h"

namespace re2 {
class RE2;
}

namespace rung {

using RuleHeaders = std::map<std::string, std::string, std::less<>>;

// A regular expression in RE2's syntax, which matches in linear time. Texts and stack traces have several
// lines: a . is a line break, too.
struct RuleRegex {
  std::string pattern;
  bool ignore_case = false;
  int groups = 0;  // how many groups in parentheses it has
  std::shared_ptr<const re2::RE2> compiled = {};

  bool matches(std::string_view text) const;  // anywhere in it
  // If it matches the whole text: its first group, or all if it has none.
  std::optional<std::string> match_whole(std::string_view text) const;
  bool operator==(const RuleRegex& other) const {
    return pattern == other.pattern && ignore_case == other.ignore_case;
  }
};
// Error: why it is not a valid one, or too large.
Result<RuleRegex> compile_regex(std::string pattern, bool ignore_case = false);
// As rules and causes have it: /PATTERN/ or /PATTERN/i.
Result<RuleRegex> parse_rule_regex(std::string_view text);

// All conditions that are set must hold. In lists, one must match; * in a pattern matches any characters.
struct RuleConditions {
  std::vector<std::string> types;         // patterns for the error type
  std::optional<RuleRegex> error;         // matches anywhere in the error text
  std::vector<std::string> reasons;       // words of retry-reason
  RuleHeaders headers;                    // name -> pattern for the value
  std::vector<std::string> tags, queues;  // patterns
  std::optional<int> attempts_above;      // more counted attempts than this; the first delivery is none
  std::optional<Ms> age_above;            // since the first failure, without the time behind a gate
  bool operator==(const RuleConditions&) const = default;

  bool empty() const { return *this == RuleConditions{}; }
};

struct RuleAction {
  enum class Kind { retry, park, discard, snooze };
  Kind kind = Kind::retry;
  Ms snooze{0};             // kind snooze: wait for this long; level and counted attempts stay the same
  std::optional<Ms> delay;  // kind retry: instead of the level's delay
  std::string ladder;       // kind retry: instead of the queue's; "" = none
  std::string to;           // retry, snooze: the queue that gets the message from now on; "" = the same
  bool operator==(const RuleAction&) const = default;
};
// "type A or B, error /x/i", "any failure": for people.
std::string describe(const RuleConditions& when);
// "snooze 5m", "retry, ladder quick": for people.
std::string describe(const RuleAction& action);

struct FailureRule {
  std::string name;  // "payments[2]": the list, and the position in it, from 1
  RuleConditions when;
  RuleAction then;
  // If the failure has no type: the first group of this expression in the error text is its type, for this
  // rule.
  std::optional<RuleRegex> type_from;
};

// A failure, as the rules see it.
struct FailureCase {
  std::string_view queue, tag, type, error, reason;
  const RuleHeaders* headers = nullptr;  // of those that rules name; nullptr = none
  int attempts = 0;                      // counted ones, including the one that failed
  Ms age{0};
};

class FailureRules {
 public:
  // REQUIRES: a type_from has a group.
  explicit FailureRules(std::vector<FailureRule> rules) : rules_(std::move(rules)) {}

  struct Match {
    const FailureRule* rule = nullptr;  // nullptr: none matches
    std::string type;                   // the error type; of the failure, or found by type_from
  };
  Match match(const FailureCase& failure) const;
  const std::vector<FailureRule>& rules() const { return rules_; }

 private:
  std::vector<FailureRule> rules_;
};
using FailureRulesPtr = std::shared_ptr<const FailureRules>;

// The first condition of `rule` that does not hold, for people; "" if all hold.
std::string why_not(const FailureRule& rule, const FailureCase& failure);

// The rules that never match because an earlier rule of the list matches first whatever the failure is: for
// each the positions of both, from 0.
struct ShadowedRule {
  std::size_t rule = 0, by = 0;
};
std::vector<ShadowedRule> shadowed(const std::vector<FailureRule>& rules);

// Words of the condition `reason`.
const std::vector<std::string>& failure_reasons();

}  // namespace rung
