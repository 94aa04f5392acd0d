// A filter on error texts: /PATTERN/ or /PATTERN/i in RE2's syntax, as in rules. It matches in time that is
// linear in the text, whatever the expression is. Thread: immutable; any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "src/core/base/result.h"

namespace re2 {
class RE2;
}

namespace rung {

class ErrorPattern;
using ErrorPatternPtr = std::shared_ptr<const ErrorPattern>;

class ErrorPattern {
 public:
  // Whether `text` is meant as an expression, not as a text that the error contains: it begins with a slash,
  // and ends with a slash or /i.
  static bool is_one(std::string_view text);
  // Permanent errors: why it is not a valid one, or too large.
  static Result<ErrorPatternPtr> parse(std::string_view text);

  // Whether it matches anywhere in `error`. A . matches a line break too.
  bool matches(std::string_view error) const;
  const std::string& text() const { return text_; }  // with the slashes

  ErrorPattern(std::string text, std::unique_ptr<const re2::RE2> compiled);
  ~ErrorPattern();
  ErrorPattern(const ErrorPattern&) = delete;
  ErrorPattern& operator=(const ErrorPattern&) = delete;

 private:
  std::string text_;
  std::unique_ptr<const re2::RE2> compiled_;
};

}  // namespace rung
