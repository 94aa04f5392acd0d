// Checks the collector of traces.
#include "src/cli/doctor/doctor.h"
#include "src/cli/run/run_parts.h"
#include "src/net/http_client.h"
#include "src/otel/span.h"

namespace rung::cli {

Findings check_collector(const Config& config) {
  const OtelOptions& otel = config.otel;
  const std::string name = "otel.endpoint";
  if (otel.endpoint.empty()) return {};
  constexpr Ms kTimeout{2000};
  net::HttpClient client({.base = otel.endpoint,
                          .headers = otel.headers,
                          .content_type = "application/json",
                          .ca = otel.ca,
                          .verify = otel.verify,
                          .connecting = kTimeout,
                          .answering = kTimeout});
  // No spans: nothing appears in the traces. Some collectors refuse that as a bad request.
  const net::HttpReply reply =
      client.send("POST", "/v1/traces", otel::encode({}, exporter_options(config).resource));
  const std::string collector = "the collector at " + otel.endpoint;
  constexpr int kBadRequest = 400, kUnauthorized = 401, kForbidden = 403;
  if (reply.status / 100 == 2 || reply.status == kBadRequest) return {good(name, collector + " answers")};
  if (reply.status == 0)
    return {
        warning(name, collector + " " + reply.error + ": spans are dropped, messages are not affected",
                "start the collector, or correct otel.endpoint: its port for OTLP over HTTP, usually 4318")};
  const std::string what = collector + " answers with status " + std::to_string(reply.status);
  if (reply.status == kUnauthorized || reply.status == kForbidden)
    return {warning(name, what, "correct the credentials in otel.headers")};
  return {warning(name, what, "correct otel.endpoint: its port for OTLP over HTTP, usually 4318")};
}

}  // namespace rung::cli
