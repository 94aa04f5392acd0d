// Bytes as hexadecimal text, and percent-encoding. Any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace rung {

// Two lower-case digits for each byte.
std::string to_hex(std::string_view bytes);
void append_hex(std::string& out, std::string_view bytes);

// The inverse of to_hex(); digits of either case. None for anything else.
std::optional<std::string> from_hex_digits(std::string_view digits);

// Encodes all but unreserved characters as %XX.
std::string percent_encode(std::string_view text);
// None: a % is not followed by two hexadecimal digits. `plus_is_blank`: as in a query.
std::optional<std::string> percent_decode(std::string_view text, bool plus_is_blank = false);

}  // namespace rung
