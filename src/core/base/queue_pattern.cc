#include "src/core/base/queue_pattern.h"

#include <re2/re2.h>

#include <algorithm>
#include <utility>

#include "src/core/base/utf8.h"

namespace rung {

QueuePattern::QueuePattern(std::string text) : text_(std::move(text)) {
  // A class, whose first member may be a ], or one character.
  static const re2::RE2 token(R"((?s)\[(!?)(.[^\]]*)\]|(.))");
  const std::string clean = clean_utf8(text_, std::string::npos);
  re2::StringPiece rest(clean);
  std::string regex, literal, negated, members, one;  // `literal`: since the last wildcard
  while (re2::RE2::Consume(&rest, token, &negated, &members, &one)) {
    std::string wildcard;
    if (!members.empty()) {
      std::size_t first = 0;
      next_char(members, first);
      if (first == members.size() && negated.empty()) {
        one = members;
      } else {
        std::string ranges = re2::RE2::QuoteMeta(members);
        re2::RE2::GlobalReplace(&ranges, R"(\\-)", "-");
        wildcard = (negated.empty() ? "[" : "[^") + ranges + "]";
      }
    } else if (one == "*") {
      wildcard = ".*";
    } else if (one == "?") {
      wildcard = ".";
    }
    if (wildcard.empty()) {
      literal += one;
      continue;
    }
    if (regex.empty()) head_ = literal;
    regex += re2::RE2::QuoteMeta(std::exchange(literal, "")) + wildcard;
  }
  if (regex.empty()) {
    only_name_ = head_ = literal;
    return;
  }
  re2::RE2::Options options;
  options.set_dot_nl(true);
  options.set_log_errors(false);
  regex_ = std::make_shared<const re2::RE2>(regex + re2::RE2::QuoteMeta(literal), options);
  if (!regex_->ok()) only_name_ = head_ = text_;  // a range ends before it begins
}

bool QueuePattern::matches(std::string_view name) const {
  if (only_name_) return name == *only_name_;
  if (is_utf8(name)) return name.starts_with(head_) && re2::RE2::FullMatch(name, *regex_);
  return re2::RE2::FullMatch(clean_utf8(name, std::string::npos), *regex_);
}

bool matches_pattern(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0;
  std::size_t star = std::string_view::npos, resume = 0;  // the last *, and where its run ends so far
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  return std::ranges::all_of(pattern.substr(p), [](char c) { return c == '*'; });
}

}  // namespace rung
