#include "src/cli/shared/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "src/cli/shared/text.h"

namespace rung::cli {
namespace {

constexpr int kCells = 30;
constexpr Ms kRedraw{100}, kBetweenLines{5000};

void put(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

std::string bar(std::int64_t done, std::int64_t total, int cells) {
  const std::int64_t full = total > 0 ? std::clamp<std::int64_t>(done * cells / total, 0, cells) : cells;
  return "[" + std::string(static_cast<std::size_t>(full), '#') +
         std::string(static_cast<std::size_t>(cells - full), '.') + "]";
}

Progress::Progress(std::string what, std::int64_t total, const Clock& clock)
    : what_(std::move(what)), total_(total), clock_(clock), terminal_(isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() { end(); }

std::string Progress::line(std::int64_t done) const {
  const Ms took = clock_.boot() - began_;
  std::string text = fmt::format("{} of {}", done, total_);
  if (total_ > 0) text += fmt::format(", {}%", done * 100 / total_);
  const std::int64_t moved = done - first_;
  if (moved <= 0 || took.count() < 500) return text;
  text += fmt::format(", {:.0f}/s", static_cast<double>(moved) * 1000.0 / static_cast<double>(took.count()));
  const auto left = Ms{(total_ - done) * took.count() / moved};
  return left.count() > 0 ? text + ", " + humanise(left) + " to go" : text;
}

void Progress::at(std::int64_t done) {
  const bool begins = first_ < 0;
  if (begins) first_ = done;
  last_ = done;
  const BootMs now = clock_.boot();
  if (!begins && now - shown_ < (terminal_ ? kRedraw : kBetweenLines)) return;
  shown_ = now;
  if (!terminal_) {
    if (!begins) put(what_ + ": " + line(done) + "\n");
    return;
  }
  put("\r" + what_ + " " + bar(done, total_, kCells) + " " + line(done) + "\x1b[K");
  open_ = true;
}

void Progress::end() {
  if (!open_) return;
  put("\r" + what_ + " " + bar(last_, total_, kCells) + " " + line(last_) + "\x1b[K\n");
  open_ = false;
}

}  // namespace rung::cli
