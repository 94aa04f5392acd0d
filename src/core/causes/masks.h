// What varies in an error text: a table of regular expressions. docs/causes.md states the rule. Thread: pure
// functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rung::causes {

inline constexpr std::size_t kTextBytes = 1000;
// Replaces a value that the user's masks have matched (CauseRules::mask).
inline constexpr char kMasked = '\x1a';

// `text` without what varies: words in lower case with one blank between them, and a * for values side by
// side, except at the beginning and at the end. At most kTextBytes, of the first 2 KB of `text`.
std::string masked(std::string_view text);

}  // namespace rung::causes
