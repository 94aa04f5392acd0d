// Other programs, with empty stdin. Thread: any; the call waits for the program.
#pragma once

#include <string>
#include <vector>

namespace rung::cli {

struct Ran {
  int exit = 0;  // 128 + signal if it was killed
  std::string out, err;
};

// Runs `words`; the first is looked up on PATH. What takes longer than five minutes is killed with its
// children.
Ran run_program(const std::vector<std::string>& words);

}  // namespace rung::cli
