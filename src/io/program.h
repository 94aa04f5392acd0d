// Other programs, by libuv's uv_spawn on a loop of their own. Thread: any; each call waits for the program.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "src/core/base/result.h"
#include "src/core/base/time.h"

namespace rung::io {

struct Ran {
  int exit = 0;  // 128 + signal if it was killed
  std::string out, err;
};

using Variables = std::map<std::string, std::string>;

// Runs `words` (the first is looked up on PATH) with empty stdin, in a session of its own. `more` is added to
// our environment. Errors: transient: it cannot be started, or exceeds `timeout` (then it is killed with its
// children).
Result<Ran> run_program(const std::vector<std::string>& words, Ms timeout, const Variables& more = {});

// As a shell does: with our terminal; Ctrl-C is for the program alone. Its exit code.
Result<int> run_at_terminal(const std::vector<std::string>& words);

}  // namespace rung::io
