// Repeats a store call after transient errors: a deadlock, a lock wait, a restarting server. Store calls are
// safe to repeat. Thread: main's, which sleeps between the tries.
#pragma once

#include <thread>

#include "src/core/base/result.h"
#include "src/core/base/time.h"

namespace rung::cli {

inline constexpr int kMaxTries = 6;
inline constexpr Ms kFirstBackoff{200};  // doubled after each try: six seconds in total

template <typename Call>
auto retry_transient(const Call& call) -> decltype(call()) {
  Ms pause = kFirstBackoff;
  for (int left = kMaxTries - 1;; --left, pause *= 2) {
    auto result = call();
    if (result || result.error().kind != Error::Kind::transient || left == 0) return result;
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace rung::cli
