#include "tests/support/program.h"

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace rung::cli {
namespace {

std::string quoted(const std::string& word) {
  std::string out = " '";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

Ran run_program(const std::vector<std::string>& words) {
  std::string folder = (std::filesystem::temp_directory_path() / "rung-ran.XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) throw std::runtime_error("mkdtemp " + folder);
  const std::string out = folder + "/out", err = folder + "/err";
  std::string command = "exec timeout -s KILL 300";
  for (const std::string& word : words) command += quoted(word);
  const int status = std::system((command + " </dev/null >" + out + " 2>" + err).c_str());
  Ran ran{WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), text_of(out), text_of(err)};
  std::filesystem::remove_all(folder);
  return ran;
}

}  // namespace rung::cli
