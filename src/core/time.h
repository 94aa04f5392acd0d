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

// The two clocks to the us: for measuring one by the other.
struct EpochUs {
  std::int64_t us = 0;
};
struct BootUs {
  std::int64_t us = 0;
};

// CLOCK_BOOTTIME, now. Any thread.
BootUs boot_now_us();
inline BootMs boot_now() { return {boot_now_us().us / 1000}; }

// "2026-11-21 17:05:00.123", UTC: as MySQL's DATETIME(3) prints.
std::string format_utc(EpochMs t);

// The database's clock, as this process knows it: db_now - boot_now, measured whenever the database is asked.
// What now() answers is never ahead of the database (a reading is taken as of its arrival, not its sending),
// so that what is due by now() is due by the database. Thread: any.
class DbClock {
 public:
  // The database said `db_now` to a question sent and answered at these instants of ours: the nearer they are
  // to each other, the better both readings.
  void measured(EpochUs db_now, BootUs sent, BootUs received) {
    behind_.store(db_now.us - received.us, std::memory_order_relaxed);
    ahead_.store(db_now.us - sent.us + 1, std::memory_order_relaxed);  // 1: what it cut off
  }

  // Never ahead of the database: for what is asked to be due.
  EpochMs now() const { return at(boot_now_us()); }
  EpochMs at(BootMs t) const { return at(BootUs{t.ms * 1000}); }
  // Never behind it: for what a delay is counted from.
  EpochMs latest() const { return latest(boot_now_us()); }
  EpochMs latest(BootUs t) const { return {(ahead_.load(std::memory_order_relaxed) + t.us + 999) / 1000}; }

 private:
  EpochMs at(BootUs t) const { return {(behind_.load(std::memory_order_relaxed) + t.us) / 1000}; }

  std::atomic<std::int64_t> behind_{0}, ahead_{0};  // us
};

}  // namespace rung
