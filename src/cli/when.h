// Points in time as people type them. Thread: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "src/core/time.h"

namespace rung::cli {

// Which way a bare duration points: "1h" after --created-since is an hour ago, after --due-before in an hour.
enum class Direction { past, future };

// "2026-11-21T17:05:00Z", with fraction and offset ("+01:00") or without (UTC), a blank for the T, the date
// alone; "now"; a duration ("90m"), signed where the direction shall be said ("-10m"). The error says what is
// wrong and what would be right.
tl::expected<EpochMs, std::string> parse_when(std::string_view text, EpochMs now, Direction direction);

}  // namespace rung::cli
