// Sends spans to a collector by OTLP over HTTP, as JSON. Its own thread sends; a collector that is slow or
// away costs spans, never messages.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/core/base/clock.h"
#include "src/otel/span.h"

namespace rung::otel {

struct ExporterOptions {
  std::string endpoint;  // "http://collector:4318"; "/v1/traces" is appended
  std::vector<std::pair<std::string, std::string>> headers =
      {};                                // sent with each request, such as authorization
  std::string ca = {};                   // PEM file; "" = the system's
  bool verify = true;                    // the server's certificate and its name
  std::vector<Attribute> resource = {};  // service.name and others
  // Limits warnings to one a minute; nullptr = one per change.
  const Clock* clock = nullptr;
};

class Exporter {
 public:
  explicit Exporter(ExporterOptions options);
  // Sends what is queued, within 1 s in all; drops the rest.
  ~Exporter();
  Exporter(const Exporter&) = delete;
  Exporter& operator=(const Exporter&) = delete;

  // Any thread; never blocks. Drops the span, and counts it, if 10,000 are queued.
  void add(Span span);

  struct Counts {
    std::int64_t exported = 0;  // accepted by the collector
    std::int64_t dropped = 0;   // queue full, refused, or no answer after the retries
  };
  Counts counts() const;  // any thread

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace rung::otel
