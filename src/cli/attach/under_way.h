// What rung detach and rung move share: they pause queues, and wait until what is under way has ended.
// Thread: main's; blocks. Prints errors.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "src/core/base/clock.h"
#include "src/core/base/result.h"

namespace rung::cli {

// Sidecars read pauses twice a second; what they had claimed by then still goes out.
inline constexpr Ms kPauseTakes{3000};

// One line to stderr.
void tell(const std::string& line);

// A database or a schema that does not exist has no tasks.
bool has_no_tables(const Error& error);

struct WaitWords {
  std::string still;       // "3 deliveries are still {}"
  std::string gives_up;    // follows it in the error when the time is over
  std::string interrupts;  // what Ctrl-C leaves behind
};
// Until `open` returns 0. kSuccess, or an error.
int wait_for_none(const Clock& clock, BootMs until, const std::function<Result<std::int64_t>()>& open,
                  const WaitWords& words);

}  // namespace rung::cli
