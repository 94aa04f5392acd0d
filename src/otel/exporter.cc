#include "src/otel/exporter.h"

#include <utility>

#include "src/otel/export_thread.h"

namespace rung::otel {

struct Exporter::Impl {
  explicit Impl(ExporterOptions options) : thread(std::move(options)) {}
  ExportThread thread;
};

Exporter::Exporter(ExporterOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Exporter::~Exporter() = default;
void Exporter::add(Span span) { impl_->thread.add(std::move(span)); }
Exporter::Counts Exporter::counts() const { return impl_->thread.counts(); }

}  // namespace rung::otel
