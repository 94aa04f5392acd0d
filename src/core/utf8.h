// UTF-8, for what goes into columns and logs. Thread: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rung {

bool is_utf8(std::string_view text);

// Invalid bytes become U+FFFD, NUL too (logs and shells end at it); cut to `most` bytes on a character's
// boundary.
std::string clean_utf8(std::string_view text, std::size_t most);

// Control and format characters and line separators (Unicode categories Cc, Cf, Zl, Zp): they move a
// terminal's cursor, turn text around, hide it, or break a line.
bool is_control_or_format(char32_t c);

// For texts of others on a terminal or in a log: those characters as \n, \t, \r, \x1b, \u202e or \U000e0041,
// and invalid bytes as U+FFFD. One line.
std::string escape_controls(std::string_view text);
// The same for a JSON document, as \u escapes of JSON: it parses back to the same texts. What stands between
// its values is left as it is. REQUIRES: valid JSON in UTF-8, in which C0 characters of texts are escaped, as
// every writer does.
std::string escape_controls_in_json(std::string json);

// The character at `at`, which moves behind it. REQUIRES: text is UTF-8, at < text.size().
char32_t next_char(std::string_view text, std::size_t& at);

}  // namespace rung
