#include "src/core/causes/fingerprint.h"

#include <re2/re2.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "src/core/base/utf8.h"
#include "src/core/causes/frames.h"
#include "src/core/causes/masks.h"
#include "src/core/message/identity.h"

namespace rung {
namespace {

constexpr std::size_t kMostBytes = 16 * 1024;  // kErrorBytes, src/core/task/task.h
constexpr std::size_t kShownBytes = 500;
constexpr std::size_t kIdBytes = 6;

// Error texts have several lines: . matches a line break too.
std::string expression_of(const RuleRegex& regex) {
  return (regex.ignore_case ? "(?si:" : "(?s:") + regex.pattern + ")";
}

re2::StringPiece piece(std::string_view text) { return {text.data(), text.size()}; }

// The colours of a terminal, and what else an escape character begins.
std::string without_escapes(std::string_view error) {
  std::string text(error);
  if (text.find('\x1b') == std::string::npos) return text;
  static const RE2* const escapes =
      new RE2(R"(\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|.)?)");
  RE2::GlobalReplace(&text, *escapes, "");
  return text;
}

}  // namespace

struct CauseRules::Compiled {
  struct Named {
    Named(const std::string& expression, const RE2::Options& options, std::string cause)
        : regex(expression, options), name(std::move(cause)) {}
    RE2 regex;
    std::string name;
  };
  std::deque<Named> names;
  std::deque<RE2> masks;
};

CauseRules::CauseRules(std::vector<CauseRule> rules) {
  RE2::Options quiet;
  quiet.set_log_errors(false);
  auto compiled = std::make_unique<Compiled>();
  for (CauseRule& rule : rules) {
    if (rule.name.empty()) {
      compiled->masks.emplace_back(expression_of(rule.regex), quiet);
    } else {
      compiled->names.emplace_back(expression_of(rule.regex), quiet, std::move(rule.name));
    }
  }
  compiled_ = std::move(compiled);
}
CauseRules::~CauseRules() = default;

std::optional<std::string> CauseRules::name_of(std::string_view error) const {
  const auto rule = std::ranges::find_if(compiled_->names, [&](const Compiled::Named& named) {
    return RE2::PartialMatch(piece(error), named.regex);
  });
  if (rule == compiled_->names.end()) return std::nullopt;
  return rule->name;
}

void CauseRules::mask(std::string& text) const {
  for (const RE2& mask : compiled_->masks) RE2::GlobalReplace(&text, mask, std::string(1, causes::kMasked));
}

bool matches_nothing(const RuleRegex& regex) { return RE2::PartialMatch("", expression_of(regex)); }

std::string cause_text(std::string_view error, const CauseRules* rules) {
  const std::string whole = without_escapes(error.substr(0, kMostBytes));
  if (rules != nullptr) {
    if (auto name = rules->name_of(whole)) return *std::move(name);
  }
  auto trace = causes::find_trace(whole);
  std::string message = whole;
  if (trace) message = std::move(trace->message);
  if (rules != nullptr) rules->mask(message);
  std::string text = causes::masked(message);
  if (trace && !trace->frame.empty()) text.append(text.empty() ? "in " : " in ").append(trace->frame);
  return text;
}

Fingerprint fingerprint_of(std::string_view queue, std::string_view error_type, const std::string& text) {
  std::string facts;
  facts.reserve(queue.size() + error_type.size() + text.size() + 24);
  append_field(facts, queue);
  append_field(facts, error_type);
  append_field(facts, text);
  return {to_hex(sha256(facts), kIdBytes), clean_utf8(text, kShownBytes)};
}

Fingerprint fingerprint(std::string_view queue, std::string_view error_type, std::string_view error,
                        const CauseRules* rules) {
  return fingerprint_of(queue, error_type, cause_text(error, rules));
}

}  // namespace rung
