// States a precondition or an invariant as code, in all builds: a process that goes on without it would do
// something else than it says. What was broken goes to stderr; the other instances take over. Thread: any.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace rung {

[[noreturn]] inline void broken_requirement(const char* what, const char* file, int line) {
  std::fprintf(stderr, "rung: %s:%d: not as required: %s\n", file, line, what);
  std::abort();
}

}  // namespace rung

#define RUNG_REQUIRE(condition) \
  ((condition) ? static_cast<void>(0) : ::rung::broken_requirement(#condition, __FILE__, __LINE__))
