#include "src/core/base/queue_pattern.h"

#include <re2/re2.h>

#include <utility>

#include "src/core/base/result.h"
#include "src/core/base/utf8.h"

namespace rung {
namespace {

// [abc], [a-z] or [!abc] as RE2 writes it, or the only character that it stands for.
struct CharacterClass {
  std::string regex, literal;
};

// The class at the front of `text`, which it is removed from. None: the [ there stands for itself.
std::optional<CharacterClass> take_class(std::string_view& text) {
  const bool negated = text.substr(1).starts_with('!');
  const std::size_t begin = negated ? 2 : 1;
  const std::size_t end = text.find(']', begin + 1);  // a ] that comes first is a member
  if (!text.starts_with('[') || end == std::string_view::npos) return std::nullopt;
  const std::string_view members = text.substr(begin, end - begin);
  text.remove_prefix(end + 1);
  std::string ranges;
  for (std::size_t at = 0; at < members.size();) {
    const std::size_t start = at;
    const char32_t first = next_char(members, at);
    const std::string_view one = members.substr(start, at - start);
    if (one == members && !negated) return CharacterClass{"", std::string(members)};
    std::string_view other = one;
    char32_t last = first;
    if (members.substr(at).starts_with('-') && at + 1 < members.size()) {
      const std::size_t to = ++at;
      last = next_char(members, at);
      other = members.substr(to, at - to);
    }
    if (first <= last) ranges += re2::RE2::QuoteMeta(one) + "-" + re2::RE2::QuoteMeta(other);
  }
  if (ranges.empty()) return CharacterClass{negated ? "." : "[^\\x{0}-\\x{10FFFF}]", ""};
  return CharacterClass{(negated ? "[^" : "[") + ranges + "]", ""};
}

}  // namespace

QueuePattern::QueuePattern(std::string text) : text_(std::move(text)) {
  if (text_.find_first_of("*?[") == std::string::npos) {
    only_name_ = head_ = text_;
    return;
  }
  const std::string clean = clean_utf8(text_, std::string::npos);
  std::string regex, literal;  // `literal`: since the last wildcard
  bool has_wildcard = false;
  const auto add_wildcard = [&](const std::string& wildcard) {
    if (!has_wildcard) head_ = literal;
    has_wildcard = true;
    regex += re2::RE2::QuoteMeta(std::exchange(literal, "")) + wildcard;
  };
  for (std::string_view rest = clean; !rest.empty();) {
    if (const auto found = take_class(rest)) {
      found->regex.empty() ? void(literal += found->literal) : add_wildcard(found->regex);
      continue;
    }
    const char c = rest.front();
    rest.remove_prefix(1);
    if (c == '*') {
      add_wildcard(".*");
    } else if (c == '?') {
      add_wildcard(".");
    } else {
      literal += c;
    }
  }
  if (!has_wildcard) {
    only_name_ = head_ = literal;
    return;
  }
  re2::RE2::Options options;
  options.set_dot_nl(true);
  options.set_log_errors(false);
  regex_ = std::make_shared<const re2::RE2>(regex + re2::RE2::QuoteMeta(literal), options);
  RUNG_REQUIRE(regex_->ok());
}

bool QueuePattern::matches(std::string_view name) const {
  if (only_name_) return name == *only_name_;
  if (is_utf8(name)) return name.starts_with(head_) && re2::RE2::FullMatch(name, *regex_);
  return re2::RE2::FullMatch(clean_utf8(name, std::string::npos), *regex_);
}

}  // namespace rung
