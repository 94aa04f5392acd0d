#include "src/core/base/queue_pattern.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace rung {
namespace {

// Above Unicode: an invalid byte equals only itself.
constexpr char32_t kInvalidByte = 0x110000;

// The length of the UTF-8 sequence at the start of `text`; 0: it is none.
std::size_t sequence_length(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const std::size_t length = lead < 0x80                   ? 1
                             : lead >= 0xC2 && lead < 0xE0 ? 2
                             : lead >= 0xE0 && lead < 0xF0 ? 3
                             : lead >= 0xF0 && lead < 0xF5 ? 4
                                                           : 0;
  if (length == 0 || length > text.size()) return 0;
  const auto follows = [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80; };
  return std::ranges::all_of(text.substr(1, length - 1), follows) ? length : 0;
}

std::u32string characters(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    const auto lead = static_cast<unsigned char>(text[0]);
    if (length == 0) {
      out += kInvalidByte + lead;
      text.remove_prefix(1);
      continue;
    }
    constexpr unsigned char kLeadBits[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    char32_t character = lead & kLeadBits[length];
    for (std::size_t i = 1; i < length; ++i)
      character = (character << 6U) | (static_cast<unsigned char>(text[i]) & 0x3FU);
    out += character;
    text.remove_prefix(length);
  }
  return out;
}

void append(std::string& out, char32_t c) {
  if (c >= kInvalidByte) {
    out += static_cast<char>(c - kInvalidByte);
  } else if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0U | (c >> 6U));
    out += static_cast<char>(0x80U | (c & 0x3FU));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0U | (c >> 12U));
    out += static_cast<char>(0x80U | ((c >> 6U) & 0x3FU));
    out += static_cast<char>(0x80U | (c & 0x3FU));
  } else {
    out += static_cast<char>(0xF0U | (c >> 18U));
    out += static_cast<char>(0x80U | ((c >> 12U) & 0x3FU));
    out += static_cast<char>(0x80U | ((c >> 6U) & 0x3FU));
    out += static_cast<char>(0x80U | (c & 0x3FU));
  }
}

}  // namespace

QueuePattern::QueuePattern(std::string text) : text_(std::move(text)) {
  parse();
  find_ends();
}

bool QueuePattern::Part::matches(char32_t c) const {
  const auto in = [c](const auto& range) { return range.first <= c && c <= range.second; };
  switch (kind) {
    case Kind::character:
      return c == character;
    case Kind::one_of:
      return std::ranges::any_of(ranges, in);
    case Kind::none_of:
      return std::ranges::none_of(ranges, in);
    default:
      return true;
  }
}

void QueuePattern::parse() {
  const std::u32string text = characters(text_);
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char32_t c = text[at];
    if (c == U'[' && parse_class(text, at)) continue;
    if (c == U'*') {
      // Two in a row mean the same as one.
      if (parts_.empty() || parts_.back().kind != Part::Kind::any_run)
        parts_.push_back({Part::Kind::any_run});
    } else if (c == U'?') {
      parts_.push_back({Part::Kind::any_character});
    } else {
      parts_.push_back({Part::Kind::character, c});
    }
  }
}

// At a [: appends the class and moves `at` to its ]. False: it is not a class.
bool QueuePattern::parse_class(const std::u32string& text, std::size_t& at) {
  std::size_t i = at + 1;
  const bool negated = i < text.size() && text[i] == U'!';
  if (negated) ++i;
  // A ] that comes first is a member.
  const std::size_t end = text.find(U']', i + 1);
  if (i >= text.size() || end == std::u32string::npos) return false;
  Part part{negated ? Part::Kind::none_of : Part::Kind::one_of};
  for (; i < end; ++i) {
    const bool is_range = i + 2 < end && text[i + 1] == U'-';
    part.ranges.emplace_back(text[i], is_range ? text[i + 2] : text[i]);
    if (is_range) i += 2;
  }
  const bool one = !negated && part.ranges.size() == 1 && part.ranges[0].first == part.ranges[0].second;
  if (one) part = {Part::Kind::character, part.ranges[0].first};
  parts_.push_back(std::move(part));
  at = end;
  return true;
}

void QueuePattern::find_ends() {
  const auto is_wildcard = [](const Part& part) { return part.kind != Part::Kind::character; };
  const auto first = std::ranges::find_if(parts_, is_wildcard);
  for (auto it = parts_.begin(); it != first; ++it) append(head_, it->character);
  if (first == parts_.end()) {
    only_name_ = head_;
    return;
  }
  auto last = parts_.end();
  while (!is_wildcard(*(last - 1))) --last;
  for (; last != parts_.end(); ++last) append(tail_, last->character);
}

bool QueuePattern::matches(std::string_view name) const {
  if (only_name_) return name == *only_name_;
  if (!name.starts_with(head_) || !name.ends_with(tail_)) return false;
  const std::u32string text = characters(name);
  std::size_t p = 0, t = 0;
  std::size_t run = std::string::npos, resume = 0;  // the last *, and where its run ends so far
  while (t < text.size()) {
    if (p < parts_.size() && parts_[p].kind == Part::Kind::any_run) {
      run = p++;
      resume = t;
    } else if (p < parts_.size() && parts_[p].matches(text[t])) {
      ++p;
      ++t;
    } else if (run != std::string::npos) {
      p = run + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  return p == parts_.size() || (p + 1 == parts_.size() && parts_[p].kind == Part::Kind::any_run);
}

}  // namespace rung
