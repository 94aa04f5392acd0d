// Servers of this process's own, which a test may change, stall and stop. They end with the process, whatever
// ends it. Thread: one at a time.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace rung::test {

class OwnServers {
 public:
  // `options`: those of `tests/servers start`.
  explicit OwnServers(const std::string& options = "")
      : dir_((std::filesystem::temp_directory_path() / "rung-own.XXXXXX").string()) {
    if (mkdtemp(dir_.data()) == nullptr) throw std::runtime_error("mkdtemp " + dir_);
    run("\"$RUNG_TEST_SERVERS\" start '" + dir_ + "' --owner-pid " + std::to_string(getpid()) + " " +
        options);
  }
  ~OwnServers() { (void)std::system(("\"$RUNG_TEST_SERVERS\" stop '" + dir_ + "'").c_str()); }
  OwnServers(const OwnServers&) = delete;
  OwnServers& operator=(const OwnServers&) = delete;

  // One of theirs: RUNG_TEST_AMQP ...
  std::string variable(const std::string& name) const {
    return run(". '" + dir_ + "/env'; printf %s \"$" + name + "\"");
  }
  std::string sql(const std::string& statement) const {
    return run("'" + dir_ + "/sql' -N -e \"" + statement + "\"");
  }
  // The output of a command of the shell; throws if it fails.
  static std::string run(const std::string& command) {
    FILE* pipe = popen(command.c_str(), "r");
    if (pipe == nullptr) throw std::runtime_error("popen");
    std::string out;
    char buffer[4096];
    for (std::size_t n = 0; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) out.append(buffer, n);
    if (pclose(pipe) != 0) throw std::runtime_error(command + ": " + out);
    return out;
  }

 private:
  std::string dir_;
};

}  // namespace rung::test
