// Spans as the body of an OTLP request. Pure.
#pragma once

#include <string>
#include <vector>

#include "src/otel/span.h"

namespace rung::otel {

// An ExportTraceServiceRequest with all `spans`. Text that is not UTF-8 gets U+FFFD in place of its invalid
// bytes: a collector refuses the whole request otherwise. A span that ends before it starts ends when it
// starts.
std::string encode(const std::vector<Span>& spans, const std::vector<Attribute>& resource);

}  // namespace rung::otel
