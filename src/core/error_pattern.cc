#include "src/core/error_pattern.h"

#include <re2/re2.h>

#include <utility>

#include "src/core/failure_rules.h"

namespace rung {
namespace {

// Far more than usual expressions need: a character class of Unicode takes some KB. It bounds what one row
// may cost.
constexpr std::int64_t kPatternMemory = 1024LL * 1024;
constexpr std::size_t kPatternBytes = 1000;

}  // namespace

ErrorPattern::ErrorPattern(std::string text, std::unique_ptr<const re2::RE2> compiled)
    : text_(std::move(text)), compiled_(std::move(compiled)) {}
ErrorPattern::~ErrorPattern() = default;

bool ErrorPattern::is_one(std::string_view text) {
  return text.size() >= 3 && text.front() == '/' && (text.ends_with('/') || text.ends_with("/i"));
}

Result<ErrorPatternPtr> ErrorPattern::parse(std::string_view text) {
  if (text.size() > kPatternBytes)
    return permanent("the expression is longer than " + std::to_string(kPatternBytes) + " bytes");
  auto regex = parse_rule_regex(text);
  if (!regex) return tl::unexpected(regex.error());
  RE2::Options options;
  options.set_case_sensitive(!regex->ignore_case);
  options.set_dot_nl(true);
  options.set_log_errors(false);
  options.set_max_mem(kPatternMemory);
  auto compiled = std::make_unique<const RE2>(regex->pattern, options);
  if (!compiled->ok()) return permanent("the expression is too large: repeat less in it");
  return std::make_shared<const ErrorPattern>(std::string(text), std::move(compiled));
}

bool ErrorPattern::matches(std::string_view error) const { return RE2::PartialMatch(error, *compiled_); }

}  // namespace rung
