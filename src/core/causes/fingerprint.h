// Which failures have the same cause. docs/causes.md states the rule. Thread: pure functions; a CauseRules is
// immutable.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/core/rules/failure_rules.h"

namespace rung {

// An entry of the config's `causes`.
struct CauseRule {
  RuleRegex regex;
  std::string name;  // of the cause of errors that it matches; "" = what it matches is a value (mask)
};
inline constexpr std::size_t kMostCauseRules = 50, kCauseRegexBytes = 500, kCauseNameBytes = 100;

class CauseRules {
 public:
  explicit CauseRules(std::vector<CauseRule> rules) : rules_(std::move(rules)) {}

  // That of the first rule that names the cause of `error`.
  std::optional<std::string> name_of(std::string_view error) const;
  // Of `text`, what a mask matches becomes a value.
  void mask(std::string& text) const;

 private:
  const std::vector<CauseRule> rules_;
};
using CauseRulesPtr = std::shared_ptr<const CauseRules>;

// What all errors of one cause have in common. Any bytes are fine; at most 16 KB (kErrorBytes) of `error` are
// looked at, in linear time. Depends on nothing but the arguments.
std::string cause_text(std::string_view error, const CauseRules* rules = nullptr);
// Of a failure in `queue`: 12 hexadecimal digits. text: cause_text() of its error.
std::string cause_id(std::string_view queue, std::string_view error_type, std::string_view text);

}  // namespace rung
