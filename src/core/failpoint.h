// Where a test may end the process: a named step between a commit, a publish, a confirm or an ack and the
// next thing. RUNG_FAILPOINT=NAME or NAME:N in the environment kills the process (SIGKILL) at that step, the
// N-th time it comes by. Compiled into test builds only (CMake option RUNG_FAILPOINTS); else nothing is left
// of it. docs/guarantees.md lists the points and what may have happened at each; tests/faults/crash walks
// through them. Thread: any.
#pragma once

#include <string_view>

namespace rung {

#ifdef RUNG_FAILPOINTS
inline constexpr bool kFailpoints = true;
void failpoint(std::string_view name);
// NAME and what follows it, e.g. "claim" and ".before_commit": put together only where a point is set.
void failpoint(std::string_view name, std::string_view rest);
#else
inline constexpr bool kFailpoints = false;
constexpr void failpoint(std::string_view /*name*/) {}
constexpr void failpoint(std::string_view /*name*/, std::string_view /*rest*/) {}
#endif

}  // namespace rung
