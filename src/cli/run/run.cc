// rung run, healthcheck, migrate.
#include <CLI/App.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "levels/duration.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/options.h"
#include "src/cli/shared/task_text.h"
#include "src/core/base/time.h"
#include "src/net/http_client.h"
#include "src/sidecar/parts.h"
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
    if (path.empty()) load(ConfigFor::sidecar);  // reports where it looked
    *exit = sidecar::run(path, group_choice());
  });
}

// rung healthcheck: asks this machine's sidecar over HTTP whether it is ready. For a container's HEALTHCHECK:
// the image has neither a shell nor curl.
namespace {

constexpr int kOk = 200;

// What the answer says besides "not ready: ...": one line per problem.
void report_problems(const nlohmann::json& answer) {
  if (!answer.is_object() || !answer.contains("problems") || !answer["problems"].is_array()) return;
  for (const auto& p : answer["problems"]) {
    if (p.is_object()) report_error(kUserError, p.value("name", "?") + ": " + p.value("detail", ""));
  }
}

int healthcheck(bool live, Ms timeout) {
  const Config config = load(ConfigFor::health);
  if (config.http.listen.empty())
    throw Failed(kUserError,
                 "http.listen is not set: without it the sidecar cannot be asked, e.g. "
                 "http: { listen: \"127.0.0.1:8025\" }");
  // Not verified: the certificate names the host as others see it. No secret is sent, and the answer decides
  // nothing beyond this exit code.
  const Ms half = std::max(timeout / 2, Ms{1});  // 0 would mean: no limit
  net::HttpClient client(
      {.base = sidecar::own_url(config.http), .verify = false, .connecting = half, .answering = half});
  const net::HttpReply reply = client.send("GET", live ? "/healthz" : "/readyz");
  if (reply.status == 0) throw Failed(kUnreachable, sidecar::own_url(config.http) + " " + reply.error);
  const auto answer = nlohmann::json::parse(reply.body, nullptr, false);
  if (given().json) print(reply.body + "\n");
  if (reply.status == kOk) {
    if (!given().json) print(live ? "live\n" : "ready\n");
    return kSuccess;
  }
  const std::string detail = answer.is_object() ? answer.value("detail", "") : "";
  report_error(kUserError, detail.empty() ? "status " + std::to_string(reply.status) : detail);
  report_problems(answer);
  return kUserError;
}

}  // namespace

void add_healthcheck(CLI::App& app, int* exit) {
  static constexpr Field kTimeout{"timeout", Is::duration, "DURATION",
                                  "Give up after this long (default: 3s)"};
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
  add_flag(c, "--live", "Ask /healthz instead of /readyz");
  add_fields(c, {&kTimeout, 1});
  c.callback([exit, &c] {
    const auto timeout = levels::parse_duration(value_of(c, "--timeout"));
    *exit = healthcheck(is_on(c, "--live"), timeout.value_or(Ms{3000}));
  });
}

namespace {

int migrate() {
  Config config = load(ConfigFor::database);
  config.store.migrate = true;  // store.migrate only concerns `rung run`
  const SystemClock clock;
  const auto created = need(need(open_mysql_store(config.store, clock))->migrate());
  return print_answer({{"created", created}}, [&](const Json&) {
    return created.empty() ? "schema is up to date\n" : created + " created\n";
  });
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
