#include "src/core/failure_rules.h"

#include <re2/re2.h>
#include <re2/set.h>

#include <algorithm>
#include <utility>

#include "levels/duration.h"
#include "src/core/target_rules.h"

namespace rung {
namespace {

using levels::format_duration;

// For one list of rules. Far more than 50 usual expressions need; beyond it, RE2 gets slower but stays
// correct.
constexpr std::int64_t kRegexMemory = 32LL * 1024 * 1024;

RE2::Options options_for(bool ignore_case) {
  RE2::Options options;
  options.set_case_sensitive(!ignore_case);
  options.set_log_errors(false);
  options.set_max_mem(kRegexMemory);
  return options;
}

// Error texts have several lines: . matches a line break too. A set of expressions has one case sensitivity,
// so each expression says its own.
std::string with_flags(const RuleRegex& regex) {
  return (regex.ignore_case ? "(?si:" : "(?s:") + regex.pattern + ")";
}

bool any_matches(const std::vector<std::string>& patterns, std::string_view text) {
  return std::ranges::any_of(patterns, [&](const std::string& p) { return matches_pattern(p, text); });
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out.append(out.empty() ? "" : ", ").append(word);
  return out;
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
  RuleRegex regex{std::string(text.substr(1, end - 1)), flags == "i"};
  if (regex.pattern.empty()) return permanent("the expression is empty and would match every error");
  const RE2 compiled(with_flags(regex), options_for(false));
  if (!compiled.ok()) return permanent("not a regular expression (RE2 syntax): " + compiled.error());
  regex.groups = compiled.NumberOfCapturingGroups();
  return regex;
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

// One pass over the error text finds which of all expressions match: with 50 rules, matching each alone costs
// more than 2 us.
struct FailureRules::Compiled {
  RE2::Set errors{options_for(false), RE2::UNANCHORED};
  std::vector<int> error_of;                        // by rule: its number in `errors`; -1 = it has none
  std::vector<std::unique_ptr<const RE2>> type_of;  // by rule: type_from, or nullptr
  bool any_error = false;
};

FailureRules::FailureRules(std::vector<FailureRule> rules) : rules_(std::move(rules)) {
  auto compiled = std::make_unique<Compiled>();
  for (const FailureRule& rule : rules_) {
    int number = -1;
    if (rule.when.error) number = compiled->errors.Add(with_flags(*rule.when.error), nullptr);
    compiled->error_of.push_back(number);
    compiled->any_error = compiled->any_error || number >= 0;
    compiled->type_of.push_back(
        rule.type_from ? std::make_unique<const RE2>(with_flags(*rule.type_from), options_for(false))
                       : nullptr);
  }
  if (compiled->any_error) compiled->errors.Compile();
  compiled_ = std::move(compiled);
}

FailureRules::~FailureRules() = default;

namespace {

// Whether each expression matches; filled when the first rule asks.
class ErrorMatches {
 public:
  ErrorMatches(const RE2::Set& set, std::string_view error) : set_(set), error_(error) {}
  bool has(int number) {
    if (!asked_) {
      asked_ = true;
      set_.Match(re2::StringPiece(error_.data(), error_.size()), &found_);
    }
    return std::ranges::find(found_, number) != found_.end();
  }

 private:
  const RE2::Set& set_;
  const std::string_view error_;
  std::vector<int> found_;
  bool asked_ = false;
};

// A condition that does not hold.
enum class Unmet { none, attempts, age, reason, queue, tag, header, error, type };

bool header_holds(const FailureCase& failure, const std::string& name, const std::string& pattern) {
  if (failure.headers == nullptr) return false;
  const auto it = failure.headers->find(name);
  return it != failure.headers->end() && matches_pattern(pattern, it->second);
}

// Of the conditions without regular expressions.
Unmet unmet(const RuleConditions& when, const FailureCase& failure) {
  if (when.attempts_above && failure.attempts <= *when.attempts_above) return Unmet::attempts;
  if (when.age_above && failure.age <= *when.age_above) return Unmet::age;
  if (!when.reasons.empty() && std::ranges::find(when.reasons, failure.reason) == when.reasons.end())
    return Unmet::reason;
  if (!when.queues.empty() && !any_matches(when.queues, failure.queue)) return Unmet::queue;
  if (!when.tags.empty() && !any_matches(when.tags, failure.tag)) return Unmet::tag;
  for (const auto& [name, pattern] : when.headers) {
    if (!header_holds(failure, name, pattern)) return Unmet::header;
  }
  return Unmet::none;
}

// Of all conditions of rule number `i`. `type`: the failure's type for this rule.
template <typename Compiled>
Unmet unmet(const FailureRule& rule, std::size_t i, const Compiled& compiled, const FailureCase& failure,
            ErrorMatches& errors, std::string& type) {
  if (const Unmet other = unmet(rule.when, failure); other != Unmet::none) return other;
  if (compiled.error_of[i] >= 0 && !errors.has(compiled.error_of[i])) return Unmet::error;
  type = failure.type;
  if (const RE2* from = compiled.type_of[i].get(); type.empty() && from != nullptr)
    RE2::PartialMatch(re2::StringPiece(failure.error.data(), failure.error.size()), *from, &type);
  if (!rule.when.types.empty() && !any_matches(rule.when.types, type)) return Unmet::type;
  return Unmet::none;
}

}  // namespace

FailureRules::Match FailureRules::match(const FailureCase& failure) const {
  ErrorMatches errors(compiled_->errors, failure.error);
  std::string type;
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    if (unmet(rules_[i], i, *compiled_, failure, errors, type) == Unmet::none)
      return {&rules_[i], std::move(type)};
  }
  return {nullptr, std::string(failure.type)};
}

std::string FailureRules::why_not(const FailureRule& rule, const FailureCase& failure) const {
  const auto i = static_cast<std::size_t>(&rule - rules_.data());
  const RuleConditions& when = rule.when;
  const auto differs = [](const std::string& what, std::string_view is, const std::string& wanted) {
    return what + (is.empty() ? " is not known" : " is " + std::string(is)) + ", not " + wanted;
  };
  ErrorMatches errors(compiled_->errors, failure.error);
  std::string type;
  switch (unmet(rule, i, *compiled_, failure, errors, type)) {
    case Unmet::none:
      return {};
    case Unmet::attempts:
      return "the number of attempts is " + std::to_string(failure.attempts) + ", not above " +
             std::to_string(*when.attempts_above);
    case Unmet::age:
      return "its age is " + format_duration(failure.age) + ", not above " + format_duration(*when.age_above);
    case Unmet::reason:
      return differs("the reason", failure.reason, joined(when.reasons));
    case Unmet::queue:
      return differs("the queue", failure.queue, joined(when.queues));
    case Unmet::tag:
      return differs("the tag", failure.tag, joined(when.tags));
    case Unmet::error:
      return "the error does not match /" + when.error->pattern + (when.error->ignore_case ? "/i" : "/");
    case Unmet::type:
      return differs("the type", type, joined(when.types));
    case Unmet::header:
      break;
  }
  for (const auto& [name, pattern] : when.headers) {
    if (header_holds(failure, name, pattern)) continue;
    const bool known = failure.headers != nullptr && failure.headers->contains(name);
    return differs("the header " + name, known ? failure.headers->find(name)->second : "", pattern);
  }
  return {};
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
