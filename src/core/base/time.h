// Time. Three types keep the clocks apart, so that none is mistaken for another:
//   EpochMs  wall clock of the DATABASE, ms since 1970 UTC: every due time, every column.
//   BootMs   CLOCK_BOOTTIME of this machine, ms: runs on in suspend, never steps. Leases depend on it.
//   Ms       a duration.
//
// Thread: values, but for the clocks, which any thread may read.
#pragma once

#include <atomic>
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

// The system clock as an interface. main() creates one and passes it to every component that needs the time;
// tests and the simulator provide their own.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual BootUs boot_us() const = 0;  // CLOCK_BOOTTIME: measures leases and waits
  virtual EpochMs wall() const = 0;    // for display, and for tokens that others have
                                       // signed (src/oidc); no other decision depends on it
  BootMs boot() const { return {boot_us().us / 1000}; }
};

class SystemClock final : public Clock {
 public:
  BootUs boot_us() const override;
  EpochMs wall() const override;
};

// The database's clock, as this process knows it: db_now - our boot clock, measured by each query that
// returns the database's time. now() is never ahead of the database (a reading is dated by its arrival, not
// its sending), so a task due by now() is due by the database.
class DbClock {
 public:
  // REQUIRES: `here` outlives it.
  explicit DbClock(const Clock& here) : here_(here) {}

  const Clock& here() const { return here_; }

  // The database returned `db_now` to a query sent and answered at these instants of our clock. The closer
  // they are, the better both readings.
  void measured(EpochUs db_now, BootUs sent, BootUs received) {
    behind_.store(db_now.us - received.us, std::memory_order_relaxed);
    ahead_.store(db_now.us - sent.us + 1, std::memory_order_relaxed);  // 1: truncated fraction
    known_.store(true, std::memory_order_release);
  }

  // Measured at least once. Before, now() and latest() are the time since the machine's start, in 1970.
  bool known() const { return known_.load(std::memory_order_acquire); }

  // Never ahead of the database: for deciding what is due.
  EpochMs now() const { return at(here_.boot_us()); }
  EpochMs at(BootMs t) const { return at(BootUs{t.ms * 1000}); }
  // Never behind the database: for the start of a delay.
  EpochMs latest() const { return latest(here_.boot_us()); }
  EpochMs latest(BootUs t) const { return {(ahead_.load(std::memory_order_relaxed) + t.us + 999) / 1000}; }

 private:
  EpochMs at(BootUs t) const { return {(behind_.load(std::memory_order_relaxed) + t.us) / 1000}; }

  const Clock& here_;
  std::atomic<std::int64_t> behind_{0}, ahead_{0};  // us
  std::atomic<bool> known_{false};
};

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
