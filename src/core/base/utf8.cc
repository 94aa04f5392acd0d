#include "src/core/base/utf8.h"

#include <algorithm>
#include <boost/locale/utf.hpp>
#include <cstdio>
#include <iterator>

#include "src/core/base/result.h"

namespace rung {
namespace {

using Utf8Bytes = boost::locale::utf::utf_traits<char>;

// Length of the valid character at the front of `s` (not empty), 0 if there is none. RFC 3629: no overlong
// forms, no surrogates, nothing above U+10FFFF.
std::size_t char_length(std::string_view s) {
  const char* at = s.data();
  const auto c = Utf8Bytes::decode(at, s.data() + s.size());
  return boost::locale::utf::is_valid_codepoint(c) ? static_cast<std::size_t>(at - s.data()) : 0;
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
  const char* next = text.data() + at;
  const char32_t c = Utf8Bytes::decode(next, text.data() + text.size());
  at = static_cast<std::size_t>(next - text.data());
  return c;
}

namespace {

// Of the characters from `least` on.
std::string with_escapes(std::string_view text, char32_t least, std::string (*escape)(char32_t)) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t start = at;
    const char32_t c = next_char(text, at);
    if (c >= least && is_control_or_format(c)) {
      out += escape(c);
    } else {
      out.append(text, start, at - start);
    }
  }
  return out;
}

}  // namespace

std::string escape_controls(std::string_view text) {
  return with_escapes(clean_utf8(text, text.size() * 3), 0, escaped);
}

std::string escape_controls_in_json(std::string json) {
  constexpr char32_t kFirst = 0x7F;  // those below it are escaped
  const auto suspicious = [](char c) { return static_cast<unsigned char>(c) >= kFirst; };
  if (std::ranges::none_of(json, suspicious)) return json;
  return with_escapes(json, kFirst, escaped_in_json);
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
