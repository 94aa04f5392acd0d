#include "src/core/base/utf8.h"

#include <re2/re2.h>

#include <boost/locale/utf.hpp>
#include <cstdio>

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

char32_t next_char(std::string_view text, std::size_t& at) {
  RUNG_REQUIRE(at < text.size());
  const char* next = text.data() + at;
  const char32_t c = Utf8Bytes::decode(next, text.data() + text.size());
  at = static_cast<std::size_t>(next - text.data());
  return c;
}

namespace {

// `text` with escapes for the characters that `form` matches.
std::string with_escapes(std::string_view text, const RE2& form, std::string (*escape)(char32_t)) {
  std::string out;
  std::size_t at = 0;
  const re2::StringPiece whole(text.data(), text.size());
  for (re2::StringPiece found; form.Match(whole, at, text.size(), RE2::UNANCHORED, &found, 1);) {
    const auto from = static_cast<std::size_t>(found.data() - text.data());
    out.append(text, at, from - at);
    at = from;
    out += escape(next_char(text, at));
  }
  return out.append(text, at);
}

}  // namespace

std::string escape_controls(std::string_view text) {
  static const RE2 form(R"([\p{Cc}\p{Cf}\p{Zl}\p{Zp}])");
  return with_escapes(clean_utf8(text, text.size() * 3), form, escaped);
}

std::string escape_controls_in_json(std::string_view json) {
  static const RE2 form(R"([\x{7F}-\x{9F}\p{Cf}\p{Zl}\p{Zp}])");  // those below are escaped
  return with_escapes(json, form, escaped_in_json);
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
