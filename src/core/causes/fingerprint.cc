#include "src/core/causes/fingerprint.h"

#include <re2/re2.h>

#include <algorithm>
#include <utility>

#include "src/core/base/utf8.h"
#include "src/core/causes/parts.h"
#include "src/core/message/identity.h"

namespace rung {
namespace {

constexpr std::size_t kMostBytes = 16 * 1024;  // kErrorBytes, src/core/task/task.h
constexpr std::size_t kShownBytes = 500;
constexpr std::size_t kIdBytes = 6;

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

std::optional<std::string> CauseRules::name_of(std::string_view error) const {
  const auto rule = std::ranges::find_if(
      rules_, [&](const CauseRule& one) { return !one.name.empty() && one.regex.matches(error); });
  if (rule == rules_.end()) return std::nullopt;
  return rule->name;
}

void CauseRules::mask(std::string& text) const {
  for (const CauseRule& rule : rules_) {
    if (rule.name.empty()) RE2::GlobalReplace(&text, *rule.regex.compiled, std::string(1, causes::kMasked));
  }
}

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
