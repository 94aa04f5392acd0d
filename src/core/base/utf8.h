// UTF-8, for what goes into columns and logs. Thread: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rung {

bool is_utf8(std::string_view text);

// Replaces invalid bytes, and NUL (logs and shells stop at it), by U+FFFD; cuts to `most` bytes at a
// character boundary.
std::string clean_utf8(std::string_view text, std::size_t most);

// Makes foreign text safe for a terminal or a log: writes control and format characters and line separators
// (Unicode categories Cc, Cf, Zl, Zp), which move a terminal's cursor, reverse or hide text, or break a line,
// as \n, \t, \r, \x1b, \u202e or \U000e0041, and invalid bytes as U+FFFD. One line.
std::string escape_controls(std::string_view text);
// The same for a JSON document, with JSON's \u escapes: it parses back to the same strings. Text outside of
// strings is unchanged. REQUIRES: valid JSON in UTF-8 whose strings have C0 characters escaped, as every
// writer does.
std::string escape_controls_in_json(std::string_view json);

// Returns the character at `at` and moves `at` behind it. REQUIRES: text is UTF-8, at < text.size().
char32_t next_char(std::string_view text, std::size_t& at);

}  // namespace rung
