// rung run, migrate, healthcheck.
#include <CLI/App.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "levels/duration.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/text.h"
#include "src/core/base/time.h"
#include "src/sidecar/sidecar.h"
#include "src/store/mysql/mysql_store.h"

namespace rung::cli {

namespace {

// rung healthcheck: asks this machine's sidecar over HTTP whether it is ready. For a container's HEALTHCHECK:
// the image has neither a shell nor curl.
constexpr int kOk = 200;

int healthcheck(const CLI::App& c) {
  const bool live = is_on(c, "--live");
  const Ms timeout = levels::parse_duration(value_of(c, "--timeout")).value_or(Ms{3000});
  const Config config = load(ConfigFor::health);
  if (!config.http.listen)
    throw Failed(kUserError,
                 "http.listen is not set: without it the sidecar cannot be asked, e.g. "
                 "http: { listen: \"127.0.0.1:8025\" }");
  const net::HttpReply reply = sidecar::ask_own(config.http, live ? "/healthz" : "/readyz", timeout);
  if (reply.status == 0) throw Failed(kUnreachable, sidecar::own_url(config.http) + " " + reply.error);
  const Json answer = Json::parse(reply.body, nullptr, false);
  if (given().json) print(reply.body + "\n");
  if (reply.status == kOk) {
    if (!given().json) print(live ? "live\n" : "ready\n");
    return kSuccess;
  }
  const std::string detail = text_of(answer, "detail");
  report_error(kUserError, detail.empty() ? "status " + std::to_string(reply.status) : detail);
  for (const Json& one : part_of(answer, "problems"))
    report_error(kUserError, text_of(one, "name") + ": " + text_of(one, "detail"));
  return kUserError;
}

int migrate(const CLI::App&) {
  Config config = load(ConfigFor::database);
  config.store.migrate = true;  // store.migrate only concerns `rung run`
  const SystemClock clock;
  const std::string created = open_mysql_store(config.store, clock)->migrate();
  return print_answer({{"created", created}}, [&](const Json&) {
    return created.empty() ? "schema is up to date\n" : created + " created\n";
  });
}

}  // namespace

void add_run(CLI::App& app) {
  add_command(
      app, "run", "Runs the sidecar in the foreground",
      "Examples:\n"
      "  rung run -c rung.yaml\n"
      "  rung run --group eu              for one of the groups in the config\n"
      "SIGTERM and SIGINT: drain, then exit 0. SIGHUP: reload ladders and queues.",
      [](const CLI::App&) {
        const std::string path = find_config();
        if (path.empty()) load(ConfigFor::sidecar);  // reports where it looked
        return sidecar::run(path, group_choice());
      },
      Takes::config);
  add_command(
      app, "migrate", "Creates the tables and views",
      "Examples:\n"
      "  rung migrate -c rung.yaml\n"
      "Safe to repeat and to run concurrently. `rung run` migrates on its own unless store.migrate is false.",
      migrate, Takes::json);

  static constexpr Field kTimeout{"timeout", Is::duration, "DURATION",
                                  "Give up after this long (default: 3s)"};
  CLI::App& c =
      add_command(app, "healthcheck", "Asks the sidecar on this machine over HTTP whether it is ready",
                  "Examples:\n"
                  "  rung healthcheck           exit code 0: it takes messages in and publishes them\n"
                  "  rung healthcheck --live    exit code 0: the process responds, whatever its servers do\n"
                  "Needs http.listen in the config. Exit code 1 if the sidecar is not ready (each reason is\n"
                  "a line on stderr), 2 if nothing answers. For all sidecars of a database: rung stats.",
                  healthcheck, Takes::json);
  add_flag(c, "--live", "Ask /healthz instead of /readyz");
  add_fields(c, {&kTimeout, 1});
}

}  // namespace rung::cli
