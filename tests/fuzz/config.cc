// A rung.yaml: all that `rung check` does with it.
#include "src/config/config.h"

#include <sys/mman.h>
#include <unistd.h>

#include "src/core/base/url.h"
#include "src/core/base/utf8.h"
#include "tests/fuzz/fuzz.h"

namespace rung {
namespace {

using fuzz::hold;

// ${FUZZ_SECRET} in the input becomes this; no problem may quote it.
constexpr const char* kSecret = "n0t-F0r-eyes";

// The config is read from a file: one in memory.
class MemoryFile {
 public:
  MemoryFile() : fd_(memfd_create("rung.yaml", MFD_CLOEXEC)), path_("/proc/self/fd/" + std::to_string(fd_)) {
    setenv("FUZZ_SECRET", kSecret, 1);
  }
  const std::string& write(std::string_view text) {
    hold(ftruncate(fd_, 0) == 0, "the file is there");
    hold(pwrite(fd_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()), "it takes the text");
    return path_;
  }

 private:
  const int fd_;
  const std::string path_;
};

void hold_problem(const ConfigProblem& problem, int lines) {
  hold(!problem.what.empty(), "a problem says what is wrong");
  hold(problem.line >= 0 && problem.line <= lines, "a problem's line is one of the file", problem.str());
  hold((problem.line == 0) == (problem.column == 0), "a line has a column", problem.str());
  hold(problem.what.find(kSecret) == std::string::npos, "a problem quotes no secret", problem.what);
  hold(problem.what.size() < 2000, "a problem is a sentence", problem.what);
  const std::string shown = escape_controls(problem.str());
  for (const char c : shown)
    hold(static_cast<unsigned char>(c) >= ' ' && c != 0x7f, "a problem is one line", shown);
  fuzz::hold_text(shown, 10'000, "a problem is UTF-8");
}

void hold_sound(const Config& config) {
  hold(config.rules != nullptr && !config.node.empty(), "a good config has rules and a node");
  hold(!config.broker.urls.empty() && !config.store.urls.empty() && !config.store.urls[0].path.empty(),
       "a good config has addresses");
  hold(config.lease > Ms::zero() && config.window >= config.lease && config.drain >= Ms::zero(), "times fit");
  hold(config.broker.prefetch > 0 && config.broker.max_unconfirmed > 0 && config.max_loaded > 0,
       "bounds hold");
  for (const auto& [name, ladder] : config.rules->ladders()) {
    std::vector<Ms> delays;
    for (int level = 1; level <= ladder.levels(); ++level) delays.push_back(ladder.delay(level));
    hold(levels::Ladder::from_list(delays, ladder.jitter()).has_value(), "a ladder is sound", name);
  }
  for (const auto& [name, queue] : config.rules->queues()) {
    hold(config.rules->ladder(queue.ladder) != nullptr, "a queue's ladder is there", queue.ladder);
    hold(!name.empty() && name.size() <= 255, "a queue's name can be one", name);
  }
  const std::string shown = describe(config);
  hold(shown.find("ladder default: ") != std::string::npos && shown.find("(any other)") != std::string::npos,
       "rung check shows ladders and queues", shown);
  for (const char c : shown) {
    hold(c == '\n' || (static_cast<unsigned char>(c) >= ' ' && c != 0x7f), "no control character", shown);
  }
}

}  // namespace
}  // namespace rung

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static rung::MemoryFile file;
  const auto text = rung::fuzz::text_of(data, size);
  if (text.find(rung::kSecret) != text.npos) return 0;  // libFuzzer saw it compared: then it is no secret
  const rung::LoadedConfig loaded = rung::load_config(file.write(text));
  // Also "\r" and what else YAML takes for the end of a line.
  const auto lines = static_cast<int>(text.size()) + 1;
  for (const auto& problem : loaded.problems) rung::hold_problem(problem, lines);
  if (loaded.ok()) rung::hold_sound(loaded.config);
  return 0;
}
