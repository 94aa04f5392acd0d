// Timestamps in RFC 3339 format: "2026-11-21T17:05:00.123Z". Thread: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "src/core/base/time.h"

namespace rung {

// UTC, with milliseconds.
std::string to_rfc3339(EpochMs t);

// Date, time and offset are mandatory; truncates to ms. None for anything else, and outside the years 1970 to
// 9999.
std::optional<EpochMs> from_rfc3339(std::string_view text);

// As people write it. The same, of any year, and: the date alone (midnight), a time without seconds, an
// offset without its colon, or none (UTC).
std::optional<EpochMs> read_instant(std::string_view text);
// "17:05", "17:05:00", "17:05:00.123456": since midnight; truncated to ms.
std::optional<Ms> read_time_of_day(std::string_view text);

}  // namespace rung
