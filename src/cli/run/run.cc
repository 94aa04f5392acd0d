// rung run, and what is about a sidecar's process and its tables: reload, healthcheck, migrate.
#include <CLI/App.hpp>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>

#include "levels/duration.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/task_text.h"
#include "src/core/base/clock.h"
#include "src/net/http_client.h"
#include "src/sidecar/parts.h"
#include "src/sidecar/reload.h"
#include "src/sidecar/sidecar.h"
#include "src/store/mysql/mysql_store.h"

namespace rung::cli {

void add_run(CLI::App& app, int* exit) {
  CLI::App& c = add_command(app, "run", "Runs the sidecar in the foreground",
                            "Examples:\n"
                            "  rung run -c rung.yaml\n"
                            "  rung run --group eu              for one of the groups in the config\n"
                            "SIGTERM and SIGINT: drain, then exit 0. SIGHUP: reload ladders and queues.",
                            Takes::config);
  c.callback([exit] {
    const std::string path = find_config();
    Config none;  // without a file load() reports where it looked
    *exit = path.empty() ? load(none, ConfigFor::sidecar) : sidecar::run(path, group_choice());
  });
}

// rung reload: sends SIGHUP to a sidecar and waits for the outcome. ExecReload= of the systemd unit.
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

int tell(const sidecar::ReloadReport& report) {
  for (const std::string& problem : report.problems) report_error(kUserError, problem);
  if (!report.problems.empty())
    return report_error(kUserError, "the config has errors: the previous one stays in effect");
  print("config reloaded: " + (report.changes.empty() ? "nothing changed" : report.changes) + "\n");
  for (const std::string& key : report.restart) print("needs a restart: " + key + "\n");
  return kSuccess;
}

int reload(const ReloadOptions& options) {
  const auto timeout = levels::parse_duration(options.timeout);
  if (!timeout) return report_error(kUserError, "--timeout: " + timeout.error());
  const int pid = options.pid != 0 ? options.pid : main_pid();
  if (pid <= 1) return report_error(kUserError, "which process? Give --pid, or set $MAINPID as systemd does");
  const std::string path = sidecar::reload_report_path();
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
    const auto report = sidecar::read_report(path);
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
  CLI::App& c = add_command(
      app, "reload", "Makes a sidecar read its config anew, and waits for the outcome",
      "For ExecReload= of a systemd unit: systemctl reload then fails if the config has errors. The "
      "sidecar\n"
      "writes the outcome into $RUNTIME_DIRECTORY, which both must have.\n"
      "Exit code 1: the config has errors, and the previous one stays in effect. 2: no outcome in time.",
      Takes::none);
  c.add_option("--pid", options->pid, "The sidecar's process (default: $MAINPID)")
      ->check(CLI::Range(2, std::numeric_limits<int>::max()));
  c.add_option("--timeout", options->timeout, "How long to wait for the outcome (default: 30s)");
  c.callback([options, exit] { *exit = reload(*options); });
}

// rung healthcheck: asks this machine's sidecar over HTTP whether it is ready. For a container's HEALTHCHECK:
// the image has neither a shell nor curl.
namespace {

struct HealthcheckOptions {
  bool live = false;
  std::string timeout = "3s";
};

constexpr int kOk = 200;

// What the answer says besides "not ready: ...": one line per problem.
void report_problems(const nlohmann::json& answer) {
  if (!answer.is_object() || !answer.contains("problems") || !answer["problems"].is_array()) return;
  for (const auto& p : answer["problems"]) {
    if (p.is_object()) report_error(kUserError, p.value("name", "?") + ": " + p.value("detail", ""));
  }
}

int healthcheck(const HealthcheckOptions& options) {
  const auto timeout = levels::parse_duration(options.timeout);
  if (!timeout) return report_error(kUserError, "--timeout: " + timeout.error());
  Config config;
  if (const int code = load(config, ConfigFor::health); code != kSuccess) return code;
  if (config.http.listen.empty())
    return report_error(kUserError,
                        "http.listen is not set: without it the sidecar cannot be asked, e.g. "
                        "http: { listen: \"127.0.0.1:8025\" }");
  // Not verified: the certificate names the host as others see it. No secret is sent, and the answer decides
  // nothing beyond this exit code.
  const Ms half = std::max(*timeout / 2, Ms{1});  // 0 would mean: no limit
  net::HttpClient client(
      {.base = sidecar::own_url(config.http), .verify = false, .connecting = half, .answering = half});
  const net::HttpReply reply = client.send("GET", options.live ? "/healthz" : "/readyz");
  if (reply.status == 0) return report_error(kUnreachable, sidecar::own_url(config.http) + " " + reply.error);
  const auto answer = nlohmann::json::parse(reply.body, nullptr, false);
  if (given().json) print(reply.body + "\n");
  if (reply.status == kOk) {
    if (!given().json) print(options.live ? "live\n" : "ready\n");
    return kSuccess;
  }
  const std::string detail = answer.is_object() ? answer.value("detail", "") : "";
  report_error(kUserError, detail.empty() ? "status " + std::to_string(reply.status) : detail);
  report_problems(answer);
  return kUserError;
}

}  // namespace

void add_healthcheck(CLI::App& app, int* exit) {
  auto o = std::make_shared<HealthcheckOptions>();
  CLI::App& c =
      add_command(app, "healthcheck", "Asks the sidecar on this machine over HTTP whether it is ready",
                  "Examples:\n"
                  "  rung healthcheck           exit code 0: it takes messages in and publishes them\n"
                  "  rung healthcheck --live    exit code 0: the process responds, whatever its servers do\n"
                  "Needs http.listen in the config; a loopback address is enough. Exit code 1 if the sidecar "
                  "is not ready\n"
                  "(each reason is a line on stderr), 2 if nothing answers. To check all sidecars of a "
                  "database, use rung "
                  "stats.",
                  Takes::json);
  c.add_flag("--live", o->live, "Ask /healthz instead of /readyz");
  c.add_option("--timeout", o->timeout, "Give up after this long")
      ->type_name("DURATION")
      ->capture_default_str();
  c.callback([o, exit] { *exit = healthcheck(*o); });
}

namespace {

int migrate() {
  Config config;
  if (const int code = load(config, ConfigFor::database); code != kSuccess) return code;
  config.store.migrate = true;  // store.migrate only concerns `rung run`
  const SystemClock clock;
  const auto store = open_mysql_store(config.store, clock);
  if (!store) return report_error(store.error());
  const auto created = (*store)->migrate();
  if (!created) return report_error(created.error());
  if (given().json) return print_json(Json{{"created", *created}});
  print(created->empty() ? "schema is up to date\n" : *created + " created\n");
  return kSuccess;
}

}  // namespace

void add_migrate(CLI::App& app, int* exit) {
  CLI::App& c = add_command(
      app, "migrate", "Creates the tables and views",
      "Examples:\n"
      "  rung migrate -c rung.yaml\n"
      "Safe to repeat and to run concurrently. `rung run` migrates on its own unless store.migrate is false.",
      Takes::json);
  c.callback([exit] { *exit = migrate(); });
}

}  // namespace rung::cli
