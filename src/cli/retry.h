// A call of the store, tried again where it failed only for now: a deadlock, a lock wait, a server that is
// just coming back. Store's calls may be repeated. Thread: main's, which waits meanwhile.
#pragma once

#include <thread>

#include "src/core/result.h"
#include "src/core/time.h"

namespace rung::cli {

inline constexpr int kMaxTries = 6;
inline constexpr Ms kFirstBackoff{200};  // doubled each time: six seconds in all

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
