#include "src/core/base/hex.h"

#include <boost/algorithm/hex.hpp>
#include <iterator>

namespace rung {

std::string to_hex(std::string_view bytes) {
  std::string out;
  append_hex(out, bytes);
  return out;
}

void append_hex(std::string& out, std::string_view bytes) {
  const std::size_t before = out.size();
  out.resize(before + 2 * bytes.size());
  boost::algorithm::hex_lower(bytes.begin(), bytes.end(), out.data() + before);
}

std::optional<std::string> from_hex_digits(std::string_view digits) try {
  std::string bytes;
  boost::algorithm::unhex(digits.begin(), digits.end(), std::back_inserter(bytes));
  return bytes;
} catch (const boost::algorithm::hex_decode_error&) {
  return std::nullopt;
}

std::string percent_encode(std::string_view text) {
  constexpr std::string_view kUnreserved =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  std::string out;
  for (const char& c : text) {
    if (kUnreserved.find(c) != std::string_view::npos) {
      out += c;
    } else {
      out += '%';
      boost::algorithm::hex(&c, &c + 1, std::back_inserter(out));
    }
  }
  return out;
}

std::optional<std::string> percent_decode(std::string_view text, bool plus_is_blank) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i] == '+' && plus_is_blank ? ' ' : text[i];
      continue;
    }
    const auto byte = from_hex_digits(text.substr(i + 1, 2));
    if (!byte || byte->empty()) return std::nullopt;
    out += *byte;
    i += 2;
  }
  return out;
}

}  // namespace rung
