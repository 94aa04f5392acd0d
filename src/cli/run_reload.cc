#include "src/cli/run_reload.h"

#include <unistd.h>

#include <thread>
#include <utility>

#include "levels/duration.h"

namespace rung::cli {

std::string failed_reload(const LoadedConfig& loaded) {
  std::string text =
      "the last reload failed, and the previous config stays in effect: " + loaded.problems.front().str();
  if (const std::size_t more = loaded.problems.size() - 1; more > 0)
    text += " (and " + std::to_string(more) + " more: rung check)";
  return text;
}

std::string slow_reload(const std::string& path, Ms since) {
  return "the config is being read for " + levels::format_duration(since) +
         " without an end, and the previous one stays in effect: " + path +
         " or a file that it names is on a file system that does not answer";
}

ReloadReport report_of(const ConfigReader::Outcome& outcome, std::string changes,
                       std::vector<std::string> restart) {
  ReloadReport report{getpid(), outcome.started, {}, std::move(changes), std::move(restart)};
  for (const ConfigProblem& problem : outcome.loaded.problems) report.problems.push_back(problem.str());
  return report;
}

void publish(const ReloadReport& report) {
  std::string path = reload_report_path();
  if (path.empty()) return;
  std::thread([path = std::move(path), report] { write_report(path, report); }).detach();
}

}  // namespace rung::cli
