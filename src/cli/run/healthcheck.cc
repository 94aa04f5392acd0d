// rung healthcheck: asks this machine's sidecar over HTTP whether it is ready. For a container's HEALTHCHECK:
// the image has neither a shell nor curl.
#include "src/cli/run/healthcheck.h"

#include <CLI/App.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "levels/duration.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/commands.h"
#include "src/net/http_client.h"

namespace rung::cli {

std::string own_url(const HttpOptions& http) {
  // These addresses mean "all of this machine's"; a client cannot connect to them everywhere.
  std::string host = http.host;
  if (host == "0.0.0.0") host = "127.0.0.1";
  if (host == "::") host = "::1";
  if (host.find(':') != std::string::npos) host = "[" + host + "]";
  return (http.cert.empty() ? "http://" : "https://") + host + ":" + std::to_string(http.port);
}

namespace {

struct HealthcheckOptions {
  Common common;
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

int run(const HealthcheckOptions& options) {
  const auto timeout = levels::parse_duration(options.timeout);
  if (!timeout) return report_error(kUserError, "--timeout: " + timeout.error());
  Config config;
  if (const int code = load(options.common, config, ConfigFor::health); code != kSuccess) return code;
  if (config.http.listen.empty())
    return report_error(kUserError,
                        "http.listen is not set: without it the sidecar cannot be asked, e.g. "
                        "http: { listen: \"127.0.0.1:8025\" }");
  // Not verified: the certificate names the host as others see it. No secret is sent, and the answer decides
  // nothing beyond this exit code.
  const Ms half = std::max(*timeout / 2, Ms{1});  // 0 would mean: no limit
  net::HttpClient client(
      {.base = own_url(config.http), .verify = false, .connecting = half, .answering = half});
  const net::HttpReply reply = client.send("GET", options.live ? "/healthz" : "/readyz");
  if (reply.status == 0) return report_error(kUnreachable, own_url(config.http) + " " + reply.error);
  const auto answer = nlohmann::json::parse(reply.body, nullptr, false);
  if (options.common.json) print(reply.body + "\n");
  if (reply.status == kOk) {
    if (!options.common.json) print(options.live ? "live\n" : "ready\n");
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
                  o->common);
  c.add_flag("--live", o->live, "Ask /healthz instead of /readyz");
  c.add_option("--timeout", o->timeout, "Give up after this long")
      ->type_name("DURATION")
      ->capture_default_str();
  c.callback([o, exit] { *exit = run(*o); });
}

}  // namespace rung::cli
