#include "src/cli/body.h"

#include <fmt/format.h>

#include <cstdint>

#include "src/cli/text.h"
#include "src/core/utf8.h"

namespace rung::cli {

std::string printable_body(std::string_view body) {
  if (is_utf8(body)) return lines(body, 0);
  std::string out;
  for (const char c : body) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte >= 0x20 && byte < 0x7f && c != '\\' ? std::string(1, c) : fmt::format("\\x{:02x}", byte);
  }
  return out;
}

std::string to_base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::string_view part = bytes.substr(at, 3);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i)
      bits = bits << 8U | (i < part.size() ? static_cast<unsigned char>(part[i]) : 0U);
    for (std::size_t i = 0; i < 4; ++i)
      out += i <= part.size() ? kDigits[bits >> (18U - 6U * static_cast<unsigned>(i)) & 63U] : '=';
  }
  return out;
}

}  // namespace rung::cli
