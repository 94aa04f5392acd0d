#include "src/sidecar/reload.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string_view>
#include <thread>
#include <utility>

#include "levels/duration.h"
#include "src/io/log.h"

namespace rung::sidecar {

using Json = nlohmann::ordered_json;

std::string reload_report_path() {
  const char* folders = std::getenv("RUNTIME_DIRECTORY");  // NOLINT(concurrency-mt-unsafe): nothing sets it
  if (folders == nullptr || *folders == '\0') return {};
  const std::string_view all(folders);
  return std::string(all.substr(0, all.find(':'))) + "/reload.json";
}

void write_report(const std::string& path, const ReloadReport& report) {
  const Json json = {{"pid", report.pid},
                     {"started_ms", report.started.ms},
                     {"problems", report.problems},
                     {"changes", report.changes},
                     {"restart", report.restart}};
  const std::string whole = path + ".new";
  std::ofstream out(whole, std::ios::binary | std::ios::trunc);
  out << json.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
  out.close();
  if (out.good() && std::rename(whole.c_str(), path.c_str()) == 0) return;
  log::warn("cannot write the outcome of the reload",
            {{"file", path}, {"reason", std::strerror(errno)}});  // NOLINT: of this thread, for people
}

Result<ReloadReport> read_report(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const Json json = Json::parse(in, nullptr, false);
  if (!json.is_object()) return permanent(path + ": not the outcome of a reload");
  ReloadReport report;
  report.pid = json.value("pid", 0);
  report.started = BootMs{json.value("started_ms", std::int64_t{0})};
  report.problems = json.value("problems", std::vector<std::string>{});
  report.changes = json.value("changes", "");
  report.restart = json.value("restart", std::vector<std::string>{});
  return report;
}

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

struct ConfigReader::Link {
  std::mutex mutex;
  ConfigReader* reader = nullptr;  // guarded by mutex; nullptr: it is gone
};

ConfigReader::ConfigReader(io::Loop& loop, Read read, std::function<void(Outcome&)> done)
    : loop_(loop), read_(std::move(read)), done_(std::move(done)), link_(std::make_shared<Link>()) {
  link_->reader = this;
}

ConfigReader::~ConfigReader() {
  const std::lock_guard lock(link_->mutex);
  link_->reader = nullptr;
}

void ConfigReader::request() {
  if (since_) {
    again_ = true;
  } else {
    start();
  }
}

void ConfigReader::start() {
  since_ = loop_.clock().boot();
  std::thread([link = link_, read = read_, started = *since_] {
    auto outcome = std::make_shared<Outcome>(Outcome{read(), started});
    const std::lock_guard lock(link->mutex);
    if (link->reader == nullptr) return;
    link->reader->loop_.post([link, outcome = std::move(outcome)] {
      // Both run on the loop: the reader cannot go away meanwhile.
      ConfigReader* reader = nullptr;
      {
        const std::lock_guard again(link->mutex);
        reader = link->reader;
      }
      if (reader != nullptr) reader->finished(*outcome);
    });
  }).detach();
}

void ConfigReader::finished(Outcome& outcome) {
  since_.reset();
  // What changed since the read began is read before `done` says that all is read.
  if (std::exchange(again_, false)) start();
  done_(outcome);
}

}  // namespace rung::sidecar
