#include "src/core/base/utf8.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iterator>

#include "src/core/base/result.h"

namespace rung {
namespace {

// Length of the valid character at the front of `s` (not empty), 0 if there is none. RFC 3629: no overlong
// forms, no surrogates, nothing above U+10FFFF.
std::size_t char_length(std::string_view s) {
  const auto at = [&](std::size_t i) { return static_cast<std::uint8_t>(s[i]); };
  const auto continues = [&](std::size_t i) { return i < s.size() && (at(i) & 0xC0) == 0x80; };
  const std::uint8_t first = at(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return continues(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    if (!continues(1) || !continues(2)) return 0;
    if (first == 0xE0 && at(1) < 0xA0) return 0;
    if (first == 0xED && at(1) > 0x9F) return 0;
    return 3;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if (!continues(1) || !continues(2) || !continues(3)) return 0;
    if (first == 0xF0 && at(1) < 0x90) return 0;
    if (first == 0xF4 && at(1) > 0x8F) return 0;
    return 4;
  }
  return 0;
}

struct Range {
  char32_t first, last;
};
// Unicode 15's categories Cc, Cf, Zl and Zp, in order.
constexpr Range kControlOrFormat[] = {
    {0x0, 0x1F},        {0x7F, 0x9F},       {0xAD, 0xAD},       {0x600, 0x605},     {0x61C, 0x61C},
    {0x6DD, 0x6DD},     {0x70F, 0x70F},     {0x890, 0x891},     {0x8E2, 0x8E2},     {0x180E, 0x180E},
    {0x200B, 0x200F},   {0x2028, 0x202E},   {0x2060, 0x2064},   {0x2066, 0x206F},   {0xFEFF, 0xFEFF},
    {0xFFF9, 0xFFFB},   {0x110BD, 0x110BD}, {0x110CD, 0x110CD}, {0x13430, 0x1343F}, {0x1BCA0, 0x1BCA3},
    {0x1D173, 0x1D17A}, {0xE0001, 0xE0001}, {0xE0020, 0xE007F}};

std::string formatted(const char* format, char32_t c) {
  char text[16];
  std::snprintf(text, sizeof text, format, static_cast<unsigned>(c));  // NOLINT: the formats below
  return text;
}

std::string escaped(char32_t c) {
  switch (c) {
    case '\n':
      return "\\n";
    case '\t':
      return "\\t";
    case '\r':
      return "\\r";
    default:
      return formatted(c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
  }
}

// A surrogate pair for characters above 16 bits.
std::string escaped_in_json(char32_t c) {
  if (c < 0x10000) return formatted("\\u%04x", c);
  c -= 0x10000;
  return formatted("\\u%04x", 0xD800 + (c >> 10)) + formatted("\\u%04x", 0xDC00 + (c & 0x3FF));
}

}  // namespace

bool is_control_or_format(char32_t c) {
  const auto* range = std::ranges::lower_bound(kControlOrFormat, c, {}, &Range::last);
  return range != std::end(kControlOrFormat) && c >= range->first;
}

char32_t next_char(std::string_view text, std::size_t& at) {
  RUNG_REQUIRE(at < text.size());
  const auto lead = static_cast<unsigned char>(text[at++]);
  int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : lead >= 0xC0 ? 1 : 0;
  auto c = static_cast<char32_t>(more == 3   ? lead & 0x07
                                 : more == 2 ? lead & 0x0F
                                 : more == 1 ? lead & 0x1F
                                             : lead);
  for (; more > 0 && at < text.size(); --more) c = (c << 6) | (static_cast<unsigned char>(text[at++]) & 0x3F);
  return c;
}

std::string escape_controls(std::string_view text) {
  const std::string clean = clean_utf8(text, text.size() * 3);
  std::string out;
  for (std::size_t at = 0; at < clean.size();) {
    const std::size_t start = at;
    const char32_t c = next_char(clean, at);
    if (is_control_or_format(c)) {
      out += escaped(c);
    } else {
      out.append(clean, start, at - start);
    }
  }
  return out;
}

std::string escape_controls_in_json(std::string json) {
  const auto suspicious = [](char c) { return static_cast<unsigned char>(c) >= 0x7F; };
  if (std::ranges::none_of(json, suspicious)) return json;
  std::string out;
  out.reserve(json.size());
  for (std::size_t at = 0; at < json.size();) {
    const std::size_t start = at;
    const char32_t c = next_char(json, at);
    if (c >= 0x7F && is_control_or_format(c)) {
      out += escaped_in_json(c);
    } else {
      out.append(json, start, at - start);
    }
  }
  return out;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t n = char_length(text);
    if (n == 0) return false;
    text.remove_prefix(n);
  }
  return true;
}

std::string clean_utf8(std::string_view text, std::size_t most) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  std::string out;
  out.reserve(text.size() < most ? text.size() : most);
  while (!text.empty()) {
    const std::size_t n = char_length(text);
    const bool good = n > 0 && text[0] != '\0';
    const std::string_view piece = good ? text.substr(0, n) : kReplacement;
    if (out.size() + piece.size() > most) break;
    out += piece;
    text.remove_prefix(n > 0 ? n : 1);
  }
  return out;
}

}  // namespace rung
