// rung reload: sends SIGHUP to a sidecar and waits for the outcome. ExecReload= of the systemd unit.
#include <CLI/App.hpp>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "levels/duration.h"
#include "src/cli/run/reload_report.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/commands.h"
#include "src/core/base/clock.h"

namespace rung::cli {
namespace {

constexpr Ms kLookEvery{50};

struct ReloadOptions {
  int pid = 0;
  std::string timeout = "30s";
};

int main_pid() {
  const char* text = std::getenv("MAINPID");  // NOLINT(concurrency-mt-unsafe): nothing sets it
  int pid = 0;
  if (text != nullptr) std::from_chars(text, text + std::strlen(text), pid);
  return pid;
}

int tell(const ReloadReport& report) {
  for (const std::string& problem : report.problems) report_error(kUserError, problem);
  if (!report.problems.empty())
    return report_error(kUserError, "the config has errors: the previous one stays in effect");
  print("config reloaded: " + (report.changes.empty() ? "nothing changed" : report.changes) + "\n");
  for (const std::string& key : report.restart) print("needs a restart: " + key + "\n");
  return kSuccess;
}

int run(const ReloadOptions& options) {
  const auto timeout = levels::parse_duration(options.timeout);
  if (!timeout) return report_error(kUserError, "--timeout: " + timeout.error());
  const int pid = options.pid != 0 ? options.pid : main_pid();
  if (pid <= 1) return report_error(kUserError, "which process? Give --pid, or set $MAINPID as systemd does");
  const std::string path = reload_report_path();
  if (path.empty()) {
    return report_error(kUserError,
                        "$RUNTIME_DIRECTORY is not set, for this command and for rung run: the sidecar "
                        "writes there how the reload ended. Without it, send SIGHUP and look at /readyz");
  }
  const SystemClock clock;
  const BootMs sent = clock.boot();
  if (kill(pid, SIGHUP) != 0)
    return report_error(kUnreachable, "process " + std::to_string(pid) + ": " + std::strerror(errno));
  while (clock.boot() - sent < *timeout) {
    std::this_thread::sleep_for(kLookEvery);
    const auto report = read_report(path);
    if (report && report->pid == pid && report->started >= sent) return tell(*report);
    if (kill(pid, 0) != 0) return report_error(kUnreachable, "process " + std::to_string(pid) + " has ended");
  }
  return report_error(kUnreachable, "no outcome within " + options.timeout +
                                        ": the config, or a file that it names, may be on a file system "
                                        "that does not answer; the previous config stays in effect");
}

}  // namespace

void add_reload(CLI::App& app, int* exit) {
  auto options = std::make_shared<ReloadOptions>();
  CLI::App& c =
      *app.add_subcommand("reload", "Makes a sidecar read its config anew, and waits for the outcome");
  c.add_option("--pid", options->pid, "The sidecar's process (default: $MAINPID)")
      ->check(CLI::Range(2, std::numeric_limits<int>::max()));
  c.add_option("--timeout", options->timeout, "How long to wait for the outcome (default: 30s)");
  c.footer(
      "\nFor ExecReload= of a systemd unit: systemctl reload then fails if the config has errors. The "
      "sidecar\n"
      "writes the outcome into $RUNTIME_DIRECTORY, which both must have.\n"
      "Exit code 1: the config has errors, and the previous one stays in effect. 2: no outcome in time.");
  c.callback([options, exit] { *exit = run(*options); });
}

}  // namespace rung::cli
