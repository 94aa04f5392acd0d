// How far a long work is, on stderr: a bar on a terminal, else a line now and then.
// Thread: main's.
#pragma once

#include <cstdint>
#include <string>

#include "src/core/clock.h"

namespace rung::cli {

class Progress {
 public:
  // `what` stands before the bar. REQUIRES: `clock` outlives it.
  Progress(std::string what, std::int64_t total, const Clock& clock);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void at(std::int64_t done);
  // The last word; the bar's line ends.
  void end();

 private:
  std::string line(std::int64_t done) const;

  const std::string what_;
  const std::int64_t total_;
  const Clock& clock_;
  const bool terminal_;
  const BootMs began_ = clock_.boot();
  BootMs shown_;
  std::int64_t first_ = -1, last_ = 0;  // what was done when it was first told, and now
  bool open_ = false;                   // a bar stands on the terminal's line
};

// "[#####.....]", `cells` wide.
std::string bar(std::int64_t done, std::int64_t total, int cells);

}  // namespace rung::cli
