// The system clock as an interface. main() creates one and passes it to every component that needs the time;
// tests and the simulator provide their own. Thread: any.
#pragma once

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

}  // namespace rung
