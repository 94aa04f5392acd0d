// What a token of an error text looks like. Thread: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rung::causes {

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
inline bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
inline bool is_letter(char c) { return is_upper(c) || is_lower(c); }
inline bool is_hex_digit(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
inline bool is_high(char c) { return static_cast<unsigned char>(c) >= 0x80; }
inline bool is_blank(char c) { return static_cast<unsigned char>(c) <= ' ' || c == '\x7f'; }
// Of ASCII tokens.
inline bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '-'; }
inline char lowered(char c) { return is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c; }

std::string folded(std::string_view text);

// A character beyond ASCII: its length in bytes, and what it is.
enum class High : unsigned char { letter, digit, blank, newline, mark };
struct HighChar {
  std::size_t length = 1;
  High kind = High::mark;  // also of an invalid byte
};
// REQUIRES: at < text.size(), is_high(text[at]).
HighChar high_at(std::string_view text, std::size_t at);

bool all_digits(std::string_view text);  // not empty
bool has_digit(std::string_view text);
// At least `most` hexadecimal digits, all of one case.
bool is_hex(std::string_view text, std::size_t least);

// Letters that no name has: random ones. `token`: letters, _ and -.
bool looks_random(std::string_view token);
// ORA-00001, E11000, SQL0803N, AADSTS50034.
bool is_vendor_code(std::string_view token);
// PAY-1003, R12: as services number their errors. No id: short, it begins with a letter, few digits.
bool is_code_of_vendor(std::string_view token);
// AC04, ERR-1003; not ORD-1003.
bool is_numbered(std::string_view token);
// ECONNREFUSED, ERR_HTTP2_ERROR.
bool is_error_constant(std::string_view token);
// Whether the digits are part of a name: sha256, md5_file, Http2Stream, ERR_HTTP2_ERROR.
bool digits_belong(std::string_view token);
// "ConnectionError", "connect_timeout": what failed.
bool is_failure(std::string_view lower);
// What a column, a class or a field may be called. plain: letters, _, - and . alone.
bool is_name(std::string_view text, bool plain);
// Base64: kL3+WqOLNNv4UKrt. Letters of both cases and digits, in no order.
bool is_blob(std::string_view text);

}  // namespace rung::causes
