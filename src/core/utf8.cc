#include "src/core/utf8.h"

#include <cstdint>

namespace rung {
namespace {

// Length of the valid character at the front of `s` (not empty), 0 where there is none. RFC 3629: no overlong
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

}  // namespace

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
