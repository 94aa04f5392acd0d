// Progress of a long operation, on stderr: a bar on a terminal, otherwise a line from time to time.
// Thread: main's.
#pragma once

#include <cstdint>
#include <string>

#include "src/core/base/clock.h"

namespace rung::cli {

class Progress {
 public:
  // `what` is printed before the bar. REQUIRES: `clock` outlives this object.
  Progress(std::string what, std::int64_t total, const Clock& clock);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void at(std::int64_t done);
  // Prints the final state and ends the line.
  void end();

 private:
  std::string line(std::int64_t done) const;

  const std::string what_;
  const std::int64_t total_;
  const Clock& clock_;
  const bool terminal_;
  const BootMs began_ = clock_.boot();
  BootMs shown_;
  std::int64_t first_ = -1, last_ = 0;  // `done` of the first and of the last call of at()
  bool open_ = false;                   // the terminal's current line shows a bar
};

// "[#####.....]", `cells` wide.
std::string bar(std::int64_t done, std::int64_t total, int cells);

}  // namespace rung::cli
