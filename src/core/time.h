// Time. Three clocks are told apart by their types, so that none is taken for another:
//   EpochMs     wall clock, ms since 1970 UTC, by the DATABASE. Every due time, every column, is of this
//   kind. BootMs      CLOCK_BOOTTIME of this machine, ms: goes on in suspend, never steps. Leases are held by
//   it. Ms          a duration.
// Thread: values; DbClock says its own.
#pragma once

#include <atomic>
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

// CLOCK_BOOTTIME, now. Any thread.
BootMs boot_now();

// "2026-11-21 17:05:00.123", UTC: as MySQL's DATETIME(3) prints.
std::string format_utc(EpochMs t);

// The database's clock, as this process knows it: db_now - boot_now, measured whenever the database is asked.
// What now() answers is never ahead of the database (a reading is taken as of its arrival, not its sending),
// so that what is due by now() is due by the database. Thread: any; one atomic.
class DbClock {
 public:
  void measured(EpochMs db_now, BootMs received) {
    offset_.store(db_now.ms - received.ms, std::memory_order_relaxed);
  }
  EpochMs now() const { return {offset_.load(std::memory_order_relaxed) + boot_now().ms}; }
  EpochMs at(BootMs t) const { return {offset_.load(std::memory_order_relaxed) + t.ms}; }

 private:
  std::atomic<std::int64_t> offset_{0};
};

}  // namespace rung
