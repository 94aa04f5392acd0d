// Other programs, by libuv's uv_spawn on a loop of their own. Thread: any; each call waits for the program.
#pragma once

#include <string>
#include <vector>

#include "src/core/base/result.h"
#include "src/core/base/time.h"

namespace rung::cli {

struct Ran {
  int exit = 0;  // 128 + signal if it was killed
  std::string out, err;
};

// Runs `words` (the first is looked up on PATH) with empty stdin, in a session of its own. Errors: transient:
// it cannot be started, or exceeds `timeout` (then it is killed with its children).
Result<Ran> run_program(std::vector<std::string> words, Ms timeout);

}  // namespace rung::cli
