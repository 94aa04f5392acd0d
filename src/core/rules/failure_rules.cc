#include "src/core/rules/failure_rules.h"

#include <fmt/ranges.h>
#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "levels/duration.h"
#include "src/core/base/queue_pattern.h"
#include "src/core/base/result.h"

namespace rung {
namespace {

using levels::format_duration;

std::string in_slashes(const RuleRegex& regex) {
  return "/" + regex.pattern + (regex.ignore_case ? "/i" : "/");
}

bool any_matches(const std::vector<std::string>& patterns, std::string_view text) {
  return std::ranges::any_of(patterns, [&](const std::string& p) { return matches_pattern(p, text); });
}

// Whether all that `narrow` matches is matched by `wide`.
bool covers(const std::vector<std::string>& wide, const std::vector<std::string>& narrow) {
  if (wide.empty()) return true;
  return !narrow.empty() && std::ranges::all_of(narrow, [&](const std::string& n) {
    // A pattern as text: "*.Json*" is matched by "*Json*". A * in it stands for characters that a * matches
    // too.
    return std::ranges::any_of(wide, [&](const std::string& w) { return w == n || matches_pattern(w, n); });
  });
}

template <typename T>
bool covers(const std::optional<T>& wide, const std::optional<T>& narrow) {
  return !wide || (narrow && *narrow >= *wide);
}

bool covers(const FailureRule& wide, const FailureRule& narrow) {
  const RuleConditions &w = wide.when, &n = narrow.when;
  const bool headers = std::ranges::all_of(w.headers, [&](const auto& wanted) {
    const auto it = n.headers.find(wanted.first);
    return it != n.headers.end() &&
           (it->second == wanted.second || matches_pattern(wanted.second, it->second));
  });
  // The types of two rules are comparable only if both find the type in the same way.
  const bool types = w.types.empty() || (covers(w.types, n.types) && wide.type_from == narrow.type_from);
  return types && headers && (!w.error || w.error == n.error) && covers(w.reasons, n.reasons) &&
         covers(w.tags, n.tags) && covers(w.queues, n.queues) && covers(w.attempts_above, n.attempts_above) &&
         covers(w.age_above, n.age_above);
}

}  // namespace

Result<RuleRegex> parse_rule_regex(std::string_view text) {
  constexpr const char* kForm =
      "a regular expression stands between slashes: /HTTP 429|rate limit/ or, to ignore case, /.../i";
  const std::size_t end = text.rfind('/');
  if (text.size() < 3 || text.front() != '/' || end == 0) return permanent(kForm);
  const std::string_view flags = text.substr(end + 1);
  if (!flags.empty() && flags != "i") return permanent(kForm);
  if (end == 1) return permanent("the expression is empty and would match every error");
  return compile_regex(std::string(text.substr(1, end - 1)), flags == "i");
}

Result<RuleRegex> compile_regex(std::string pattern, bool ignore_case) {
  RE2::Options options;  // those of more than 8 MB, which take seconds to compile, are too large
  options.set_log_errors(false);
  options.set_dot_nl(true);
  options.set_case_sensitive(!ignore_case);
  const auto compiled = std::make_shared<const RE2>(pattern, options);
  if (compiled->error_code() == RE2::ErrorPatternTooLarge) {
    return permanent(
        "the expression is too large: compiled, it needs more than 8 MB. Repeat fewer characters, e.g. "
        "{0,100} instead of {0,900}, or a simpler class: . instead of \\pL");
  }
  if (!compiled->ok()) return permanent("not a regular expression (RE2 syntax): " + compiled->error());
  return RuleRegex{std::move(pattern), ignore_case, compiled->NumberOfCapturingGroups(), compiled};
}

bool RuleRegex::matches(std::string_view text) const { return RE2::PartialMatch(text, *compiled); }

std::optional<std::string> RuleRegex::match_whole(std::string_view text) const {
  std::array<re2::StringPiece, 2> found;
  const std::size_t wanted = groups > 0 ? 1 : 0;
  if (!compiled->Match(text, 0, text.size(), RE2::ANCHOR_BOTH, found.data(), static_cast<int>(wanted + 1)))
    return std::nullopt;
  return std::string(found.at(wanted));
}

std::string describe(const RuleConditions& when) {
  std::string out;
  const auto add = [&](const std::string& part) { out.append(out.empty() ? "" : ", ").append(part); };
  const auto list = [&](const char* what, const std::vector<std::string>& values) {
    if (!values.empty()) add(fmt::format("{} {}", what, fmt::join(values, " or ")));
  };
  list("type", when.types);
  if (when.error) add("error " + in_slashes(*when.error));
  list("reason", when.reasons);
  for (const auto& [name, pattern] : when.headers) add("header " + name + " " + pattern);
  list("tag", when.tags);
  list("queue", when.queues);
  if (when.attempts_above) add("attempts above " + std::to_string(*when.attempts_above));
  if (when.age_above) add("age above " + levels::format_duration(*when.age_above));
  return out.empty() ? "any failure" : out;
}

std::string describe(const RuleAction& action) {
  std::string out;
  switch (action.kind) {
    case RuleAction::Kind::retry:
      out = "retry";
      break;
    case RuleAction::Kind::park:
      return "park";
    case RuleAction::Kind::discard:
      return "discard";
    case RuleAction::Kind::snooze:
      out = "snooze " + format_duration(action.snooze);
      break;
  }
  if (!action.ladder.empty()) out += ", ladder " + action.ladder;
  if (action.delay) out += ", delay " + format_duration(*action.delay);
  if (!action.to.empty()) out += ", to " + action.to;
  return out;
}

const std::vector<std::string>& failure_reasons() {
  static const std::vector<std::string> all = {"rejected",       "expired",  "maxlen",
                                               "delivery_limit", "returned", "silent"};
  return all;
}

namespace {

std::string differs(const std::string& what, std::string_view is, const std::vector<std::string>& wanted) {
  return fmt::format("{} is {}, not {}", what, is.empty() ? "not known" : is, fmt::join(wanted, ", "));
}

// Whether all conditions of the rule hold. `type`: the failure's type for this rule. `why`: receives the
// first that does not hold, unless it is nullptr. The expressions, which take longest, come last.
bool all_hold(const FailureRule& rule, const FailureCase& failure, std::string& type, std::string* why) {
  const RuleConditions& when = rule.when;
  const auto no = [&](const auto& text) {
    if (why != nullptr) *why = text();
    return false;
  };
  if (when.attempts_above && failure.attempts <= *when.attempts_above)
    return no([&] {
      return fmt::format("the number of attempts is {}, not above {}", failure.attempts,
                         *when.attempts_above);
    });
  if (when.age_above && failure.age <= *when.age_above)
    return no([&] {
      return "its age is " + format_duration(failure.age) + ", not above " + format_duration(*when.age_above);
    });
  if (!when.reasons.empty() && std::ranges::find(when.reasons, failure.reason) == when.reasons.end())
    return no([&] { return differs("the reason", failure.reason, when.reasons); });
  if (!when.queues.empty() && !any_matches(when.queues, failure.queue))
    return no([&] { return differs("the queue", failure.queue, when.queues); });
  if (!when.tags.empty() && !any_matches(when.tags, failure.tag))
    return no([&] { return differs("the tag", failure.tag, when.tags); });
  for (const auto& wanted : when.headers) {
    std::optional<std::string_view> is;
    if (failure.headers != nullptr) {
      if (const auto it = failure.headers->find(wanted.first); it != failure.headers->end()) is = it->second;
    }
    if (!is || !matches_pattern(wanted.second, *is))
      return no([&] { return differs("the header " + wanted.first, is.value_or(""), {wanted.second}); });
  }
  if (when.error && !when.error->matches(failure.error))
    return no([&] { return "the error does not match " + in_slashes(*when.error); });
  type = failure.type;
  if (type.empty() && rule.type_from) RE2::PartialMatch(failure.error, *rule.type_from->compiled, &type);
  if (!when.types.empty() && !any_matches(when.types, type))
    return no([&] { return differs("the type", type, when.types); });
  return true;
}

}  // namespace

FailureRules::Match FailureRules::match(const FailureCase& failure) const {
  std::string type;
  for (const FailureRule& rule : rules_) {
    if (all_hold(rule, failure, type, nullptr)) return {&rule, std::move(type)};
  }
  return {nullptr, std::string(failure.type)};
}

std::string why_not(const FailureRule& rule, const FailureCase& failure) {
  std::string type, why;
  all_hold(rule, failure, type, &why);
  return why;
}

std::vector<ShadowedRule> shadowed(const std::vector<FailureRule>& rules) {
  std::vector<ShadowedRule> out;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (!covers(rules[j], rules[i])) continue;
      out.push_back({i, j});
      break;
    }
  }
  return out;
}

}  // namespace rung
