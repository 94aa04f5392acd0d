// The system clock as an interface. main() creates one and passes it to every component that needs the time;
// tests and the simulator provide their own. Thread: any.
#pragma once

#include <atomic>
#include <cstdint>

#include "src/core/base/time.h"

namespace rung {

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
// its sending), so a task due by now() is due by the database. Thread: any.
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

}  // namespace rung
