// The program at a terminal of its own. Thread: one at a time.
#pragma once

#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

namespace rung::cli {

// The program at its own terminal, as for a person.
class AtTerminal {
 public:
  explicit AtTerminal(std::vector<std::string> words) {
    words.insert(words.begin(), RUNG_TEST_PROGRAM);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_ = forkpty(&terminal_, nullptr, nullptr, nullptr);
    if (pid_ == 0) {
      execv(argv[0], argv.data());
      _exit(127);
    }
  }
  ~AtTerminal() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(terminal_);
  }
  AtTerminal(const AtTerminal&) = delete;
  AtTerminal& operator=(const AtTerminal&) = delete;

  // Reads until `text` is there; all that was read so far.
  std::string until(const std::string& text) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes{2};
    char buffer[4096];
    while (seen_.find(text) == std::string::npos && std::chrono::steady_clock::now() < deadline) {
      const ssize_t n = read(terminal_, buffer, sizeof buffer);  // ends with EIO when the program has
      if (n <= 0) break;
      seen_.append(buffer, static_cast<std::size_t>(n));
    }
    return seen_;
  }
  void type(const std::string& text) {
    if (write(terminal_, text.data(), text.size()) < 0) throw std::runtime_error("no terminal");
  }
  int exit() {
    until("\x01 never");
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
  int terminal_ = -1;
  std::string seen_;
};

}  // namespace rung::cli
