// Parses times on the command line. Thread: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "src/core/base/time.h"

namespace rung::cli {

// The direction of an unsigned duration: "1h" after --created-after is an hour ago, after --due-before in an
// hour.
enum class Direction { past, future };

// "2026-11-21T17:05:00Z", with an optional fraction and offset ("+01:00"; default UTC), a space instead of
// the T, or only the date; "now"; a duration ("90m"), optionally signed ("-10m"). The error says what is
// wrong and what is accepted.
tl::expected<EpochMs, std::string> parse_when(std::string_view text, EpochMs now, Direction direction);

// The end of something that begins now: a time of day ("08:00": the next one by this machine's clock and time
// zone), or a time as above, but no duration. REQUIRES: no other thread changes the environment.
tl::expected<EpochMs, std::string> parse_until(std::string_view text, EpochMs now);

}  // namespace rung::cli
