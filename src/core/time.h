// Time. Three clocks are told apart by their types, so that none is taken for another:
//   EpochMs     wall clock, ms since 1970 UTC, by the DATABASE. Every due time, every column, is of this
//   kind. BootMs      CLOCK_BOOTTIME of this machine, ms: goes on in suspend, never steps. Leases are held by
//   it. Ms          a duration.
// Thread: values. What reads them: clock.h (this machine), db_clock.h (the database).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

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

// The two clocks to the us: for measuring one by the other.
struct EpochUs {
  std::int64_t us = 0;
};
struct BootUs {
  std::int64_t us = 0;
};

// "2026-11-21 17:05:00.123", UTC: as MySQL's DATETIME(3) prints.
std::string format_utc(EpochMs t);

}  // namespace rung
