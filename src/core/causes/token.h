// What a token of an error text looks like. A word byte: a letter, a digit, _, -, or a byte of a character
// beyond ASCII that is no blank and no punctuation. Thread: pure functions.
#pragma once

#include <string>
#include <string_view>

namespace rung::causes {

inline bool is_digit_byte(char c) { return c >= '0' && c <= '9'; }
inline bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
inline bool is_word_byte(char c) {
  return is_letter(c) || is_digit_byte(c) || c == '_' || c == '-' || static_cast<unsigned char>(c) >= 0x80;
}
// The length of the blank at `at`; 0 = there is none. Also beyond ASCII, and ’ between digits.
std::size_t blank_at(std::string_view text, std::size_t at);

std::string lowered(std::string_view text);     // ASCII only
bool has_digit(std::string_view text);          // also of other scripts
bool is_number(std::string_view text);          // ASCII digits alone
bool is_hex(std::string_view text);             // at least five digits, with a decimal one, or at least seven
bool is_base64(std::string_view text);          // long, with + or /, letters of both cases and digits
bool is_version(std::string_view text);         // 1.4.2, v1.4.2, 10.0.3.7, 12.5
bool is_name(std::string_view text);            // what a column, a class or a field may be called
bool looks_random(std::string_view text);       // letters that no word has
bool is_vendor_code(std::string_view text);     // ORA-00001, E11000, ERR_HTTP2_ERROR
bool is_error_constant(std::string_view text);  // ECONNREFUSED, NO_ROUTE, DEADLINE_EXCEEDED
bool is_numbered_name(std::string_view text);   // orders_2024: words and numbers, joined by _
std::string letters_of(std::string_view text);  // the same without the numbers: orders_
bool is_camel_with_digits(std::string_view text);  // Http2Stream, Base64Decoder

}  // namespace rung::causes
