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

}  // namespace rung
