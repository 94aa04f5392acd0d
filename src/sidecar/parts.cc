#include "src/sidecar/parts.h"

#include <memory>
#include <thread>
#include <utility>

#include "src/core/base/utf8.h"

namespace rung::sidecar {

std::string status_line(const bridge::Vitals& vitals, const bridge::StartState& start) {
  if (!start.refusal.empty()) return escape_controls(start.refusal);
  const bool broker = vitals.broker_consuming && vitals.broker_publishing;
  if (!broker && !vitals.database) return "waiting for the broker and the database";
  if (!broker) return "waiting for the broker";
  if (!vitals.database) return "waiting for the database";
  std::string line = "serving, holds " + std::to_string(vitals.shards) + " shards";
  for (std::size_t i = 0; i < vitals.problems.size(); ++i)
    line += (i == 0 ? "; problems: " : ", ") + vitals.problems[i].name;
  return line;
}

void ConfigReader::request() {
  again_ = since_.has_value();
  if (again_) return;
  since_ = loop_.clock().boot();
  std::thread([this] {
    auto loaded = std::make_shared<LoadedConfig>(read_());
    loop_.post([this, loaded = std::move(loaded)] {
      since_.reset();
      // What changed since the read began is read before `done` says that all is read.
      if (std::exchange(again_, false)) request();
      done_(*loaded);
    });
  }).detach();
}

std::string own_url(const HttpOptions& http) {
  // These addresses mean "all of this machine's"; a client cannot connect to them everywhere.
  std::string host = http.host;
  if (host == "0.0.0.0") host = "127.0.0.1";
  if (host == "::") host = "::1";
  if (host.find(':') != std::string::npos) host = "[" + host + "]";
  return (http.cert.empty() ? "http://" : "https://") + host + ":" + std::to_string(http.port);
}

otel::ExporterOptions exporter_options(const Config& config) {
  otel::ExporterOptions options;
  options.endpoint = config.otel.endpoint;
  options.headers = config.otel.headers;
  options.ca = config.otel.ca;
  options.verify = config.otel.verify;
  options.resource = {{"service.name", config.otel.service},
                      {"service.version", std::string(RUNG_VERSION)},
                      {"service.instance.id", config.node},
                      {"rung.prefix", config.broker.prefix}};
  if (!config.groups.own.empty()) options.resource.emplace_back("rung.group", config.groups.own);
  return options;
}

}  // namespace rung::sidecar
