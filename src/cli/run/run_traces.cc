#include "src/cli/run/run_traces.h"

#include <cmath>
#include <utility>

#include "src/core/base/url.h"
#include "src/io/log.h"

namespace rung::cli {
namespace {

otel::TraceOptions trace_options(const Config& config) {
  otel::TraceOptions options{config.otel.service, config.broker.prefix, config.otel.sample, "", 0};
  const auto url = parse_url(config.broker.url);
  // Of several addresses it is not known here which one is in use.
  if (url && config.broker.other_urls.empty()) {
    constexpr int kPlain = 5672, kTls = 5671;
    options.server = url->host;
    options.port = url->port != 0 ? url->port : url->scheme == "amqps" ? kTls : kPlain;
  }
  return options;
}

}  // namespace

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

Traces::Traces(const Config& config, const Clock& clock) {
  if (config.otel.endpoint.empty()) return;
  otel::ExporterOptions options = exporter_options(config);
  options.clock = &clock;
  exporter_ = std::make_unique<otel::Exporter>(std::move(options));
  traces_ = std::make_unique<otel::TaskTraces>(
      trace_options(config),
      [exporter = exporter_.get()](otel::Span span) { exporter->add(std::move(span)); });
  log::info("traces", {{"endpoint", config.otel.endpoint},
                       {"service", config.otel.service},
                       {"sample_percent", std::llround(config.otel.sample * 100)}});
}

bridge::SpanCounts Traces::counts() const {
  if (exporter_ == nullptr) return {};
  const otel::Exporter::Counts counts = exporter_->counts();
  return {counts.exported, counts.dropped};
}

}  // namespace rung::cli
