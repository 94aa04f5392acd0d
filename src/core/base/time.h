// Time. Three types keep the clocks apart, so that none is mistaken for another:
//   EpochMs  wall clock of the DATABASE, ms since 1970 UTC: every due time, every column.
//   BootMs   CLOCK_BOOTTIME of this machine, ms: runs on in suspend, never steps. Leases depend on it.
//   Ms       a duration.
//
// Thread: values. Both clocks are read by clock.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rung {

using Ms = std::chrono::milliseconds;

struct EpochMs {
  std::int64_t ms = 0;
  auto operator<=>(const EpochMs&) const = default;
  EpochMs operator+(Ms d) const { return {ms + d.count()}; }
  EpochMs operator-(Ms d) const { return {ms - d.count()}; }
  Ms operator-(EpochMs other) const { return Ms{ms - other.ms}; }
};

struct BootMs {
  std::int64_t ms = 0;
  auto operator<=>(const BootMs&) const = default;
  BootMs operator+(Ms d) const { return {ms + d.count()}; }
  BootMs operator-(Ms d) const { return {ms - d.count()}; }
  Ms operator-(BootMs other) const { return Ms{ms - other.ms}; }
};

// The two clocks to the us: to measure one against the other.
struct EpochUs {
  std::int64_t us = 0;
};
struct BootUs {
  std::int64_t us = 0;
};

// DATETIME and RFC 3339 end before it.
inline constexpr EpochMs kYear10000{253'402'300'800'000};

// "2026-11-21 17:05:00.123", UTC: the format of MySQL's DATETIME(3).
std::string format_utc(EpochMs t);

// --- timestamps in RFC 3339 format: "2026-11-21T17:05:00.123Z"

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
