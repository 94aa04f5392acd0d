// The traces of `rung run`: none without otel.endpoint. Its destructor sends the last spans, within 1 s.
// Thread: main's; tracer() is for the loop's.
#pragma once

#include <memory>

#include "src/bridge/vitals.h"
#include "src/config/config.h"
#include "src/core/base/clock.h"
#include "src/otel/exporter.h"
#include "src/otel/task_traces.h"

namespace rung::cli {

class Traces {
 public:
  // REQUIRES: `clock` outlives it.
  Traces(const Config& config, const Clock& clock);

  bridge::Tracer* tracer() { return traces_.get(); }  // nullptr: traces are off
  bridge::SpanCounts counts() const;

 private:
  std::unique_ptr<otel::Exporter> exporter_;
  std::unique_ptr<otel::TaskTraces> traces_;
};

// For the exporter, and for `rung doctor`.
otel::ExporterOptions exporter_options(const Config& config);

}  // namespace rung::cli
