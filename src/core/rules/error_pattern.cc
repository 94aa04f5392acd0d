#include "src/core/rules/error_pattern.h"

#include <re2/re2.h>

#include <string>
#include <utility>

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
  // Compiled with this limit only, not as a rule first: a rule may take more memory and time than a request
  // should.
  const std::size_t end = text.rfind('/');
  if (!is_one(text) || end < 2) return permanent("an expression stands between slashes: /HTTP 5..|reset/");
  RE2::Options options;
  options.set_case_sensitive(end + 1 == text.size());
  options.set_dot_nl(true);
  options.set_log_errors(false);
  options.set_max_mem(kPatternMemory);
  auto compiled = std::make_unique<const RE2>(text.substr(1, end - 1), options);
  if (!compiled->ok()) return permanent("not a regular expression (RE2 syntax): " + compiled->error());
  return std::make_shared<const ErrorPattern>(std::string(text), std::move(compiled));
}

bool ErrorPattern::matches(std::string_view error) const { return RE2::PartialMatch(error, *compiled_); }

}  // namespace rung
