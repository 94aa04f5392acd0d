#include "src/core/rules/failure_rules.h"

#include <re2/re2.h>
#include <re2/set.h>

#include <algorithm>
#include <utility>

#include "levels/duration.h"
#include "src/core/base/result.h"
#include "src/core/rules/target_rules.h"

namespace rung {
namespace {

using levels::format_duration;

// Bytes. Far more than 50 usual expressions need.
constexpr std::int64_t kSetMemory = 32LL * 1024 * 1024;  // the expressions of one list, matched in one pass
constexpr std::int64_t kRegexMemory =
    8LL * 1024 * 1024;  // one expression; larger ones take seconds to compile

RE2::Options options_with(std::int64_t memory) {
  RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(memory);
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
  const RE2 compiled(with_flags(regex), options_with(kRegexMemory));
  if (compiled.error_code() == RE2::ErrorPatternTooLarge) {
    return permanent(
        "the expression is too large: compiled, it needs more than 8 MB. Repeat fewer characters, e.g. "
        "{0,100} "
        "instead of {0,900}, or a simpler class: . instead of \\pL");
  }
  if (!compiled.ok()) return permanent("not a regular expression (RE2 syntax): " + compiled.error());
  regex.groups = compiled.NumberOfCapturingGroups();
  return regex;
}

std::string describe(const RuleConditions& when) {
  std::string out;
  const auto add = [&](const std::string& part) { out.append(out.empty() ? "" : ", ").append(part); };
  const auto list = [&](std::string part, const std::vector<std::string>& values) {
    if (values.empty()) return;
    for (const std::string& value : values)
      part.append(&value == &values.front() ? " " : " or ").append(value);
    add(part);
  };
  list("type", when.types);
  if (when.error) add("error /" + when.error->pattern + (when.error->ignore_case ? "/i" : "/"));
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

// Not in an unnamed namespace: it is a member of FailureRules::Compiled.
namespace rule_regexes {

using RegexPtr = std::unique_ptr<const RE2>;

inline RegexPtr compile(const std::optional<RuleRegex>& regex) {
  return regex ? std::make_unique<const RE2>(with_flags(*regex), options_with(kRegexMemory)) : nullptr;
}

inline re2::StringPiece piece(std::string_view text) { return {text.data(), text.size()}; }

// The conditions `error` of some rules.
class ErrorSet {
 public:
  // Of the first `count` rules.
  ErrorSet(const std::vector<FailureRule>& rules, std::size_t count) {
    bool any = false;
    for (std::size_t i = 0; i < count; ++i) {
      const auto& error = rules[i].when.error;
      number_of_.push_back(error ? set_.Add(with_flags(*error), nullptr) : kNone);
      usable_ = usable_ && (!error || number_of_.back() >= 0);
      any = any || error.has_value();
    }
    // RE2 must not be asked to match with a set that was not compiled: it ends the process.
    if (any && usable_) usable_ = set_.Compile() && matches_anything();
  }
  bool usable() const { return usable_; }
  int number_of(std::size_t rule) const { return number_of_[rule]; }
  // The numbers of those that match. False: RE2 ran out of memory.
  bool match(std::string_view text, std::vector<int>& found) const {
    RE2::Set::ErrorInfo info{RE2::Set::kNoError};
    return set_.Match(piece(text), &found, &info) || info.kind == RE2::Set::kNoError;
  }

 private:
  static constexpr int kNone = -1;

  // Too little memory for matching, with an expression that compiles, is noticed only by matching.
  bool matches_anything() const {
    std::vector<int> found;
    return match("an error text", found);
  }

  RE2::Set set_{options_with(kSetMemory), RE2::UNANCHORED};
  std::vector<int> number_of_;  // by rule; negative: it has no such condition
  bool usable_ = true;
};

}  // namespace rule_regexes

using rule_regexes::ErrorSet;
using rule_regexes::RegexPtr;

// One pass over the error text finds which of all expressions match: with 50 rules, matching each alone costs
// more than 2 us.
struct FailureRules::Compiled {
  explicit Compiled(const std::vector<FailureRule>& rules) : errors(rules, rules.size()) {
    for (const FailureRule& rule : rules) {
      error_of.push_back(rule_regexes::compile(rule.when.error));
      type_of.push_back(rule_regexes::compile(rule.type_from));
    }
  }
  ErrorSet errors;
  // By rule; nullptr: it has none.
  std::vector<RegexPtr> error_of;  // used if `errors` cannot be
  std::vector<RegexPtr> type_of;
};

FailureRules::FailureRules(std::vector<FailureRule> rules)
    : rules_(std::move(rules)), compiled_(std::make_unique<const Compiled>(rules_)) {}

FailureRules::~FailureRules() = default;

namespace {

// Whether the condition `error` of a rule matches; all are matched when the first rule asks.
class ErrorMatches {
 public:
  ErrorMatches(const ErrorSet& set, const std::vector<RegexPtr>& alone, std::string_view error)
      : set_(set), alone_(alone), error_(error) {}
  bool has(std::size_t rule) {
    if (!asked_) {
      asked_ = true;
      one_by_one_ = !set_.usable() || !set_.match(error_, found_);
    }
    if (one_by_one_) return RE2::PartialMatch(rule_regexes::piece(error_), *alone_[rule]);
    return std::ranges::find(found_, set_.number_of(rule)) != found_.end();
  }

 private:
  const ErrorSet& set_;
  const std::vector<RegexPtr>& alone_;
  const std::string_view error_;
  std::vector<int> found_;
  bool asked_ = false, one_by_one_ = false;
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
  if (compiled.error_of[i] != nullptr && !errors.has(i)) return Unmet::error;
  type = failure.type;
  if (const RE2* from = compiled.type_of[i].get(); type.empty() && from != nullptr)
    RE2::PartialMatch(rule_regexes::piece(failure.error), *from, &type);
  if (!rule.when.types.empty() && !any_matches(rule.when.types, type)) return Unmet::type;
  return Unmet::none;
}

}  // namespace

std::optional<FailureRules::TooLarge> FailureRules::too_large() const {
  if (compiled_->errors.usable()) return std::nullopt;
  std::size_t fit = 0, unfit = rules_.size();  // how many fit, and do not fit, together
  while (unfit - fit > 1) {
    const std::size_t half = fit + (unfit - fit) / 2;
    (ErrorSet(rules_, half).usable() ? fit : unfit) = half;
  }
  return TooLarge{unfit - 1,
                  "with this expression, those of the list are too large together: compiled, they need more "
                  "than 32 MB. Repeat fewer characters, or use simpler classes: . instead of \\pL"};
}

FailureRules::Match FailureRules::match(const FailureCase& failure) const {
  ErrorMatches errors(compiled_->errors, compiled_->error_of, failure.error);
  std::string type;
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    if (unmet(rules_[i], i, *compiled_, failure, errors, type) == Unmet::none)
      return {&rules_[i], std::move(type)};
  }
  return {nullptr, std::string(failure.type)};
}

std::string FailureRules::why_not(const FailureRule& rule, const FailureCase& failure) const {
  const auto i = static_cast<std::size_t>(&rule - rules_.data());
  RUNG_REQUIRE(i < rules_.size());
  const RuleConditions& when = rule.when;
  const auto differs = [](const std::string& what, std::string_view is, const std::string& wanted) {
    return what + (is.empty() ? " is not known" : " is " + std::string(is)) + ", not " + wanted;
  };
  ErrorMatches errors(compiled_->errors, compiled_->error_of, failure.error);
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
