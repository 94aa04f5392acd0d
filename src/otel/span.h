// A span, its form in OTLP (opentelemetry.io/docs/specs/otlp), and the W3C trace context of a message. Plain
// data and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "src/core/base/time.h"
#include "src/core/message/message.h"

namespace rung::otel {

struct SpanContext {
  std::string trace, span;  // ids: 32 and 16 lower-case hexadecimal digits
  std::string state = {};   // tracestate, "" = none
};

using Attribute = std::pair<std::string, std::variant<std::string, std::int64_t>>;

struct Link {
  SpanContext to;
  std::vector<Attribute> attributes = {};
};

enum class SpanKind { internal = 1, producer = 4, consumer = 5 };  // OTLP's numbers

struct Span {
  SpanContext context;
  std::optional<std::string> parent = {};
  std::string name;
  SpanKind kind = SpanKind::internal;
  EpochMs start, end;
  std::vector<Attribute> attributes = {};
  std::vector<Link> links = {};
  std::optional<std::string> error = {};  // the status is an error with this text
};

// The header traceparent. None unless it is valid: lower-case hex, ids that are not all zero, version 00
// without anything after it; a later version may have more.
std::optional<SpanContext> parse_traceparent(std::string_view text);

// Where the message comes from; none if it has no valid traceparent. A tracestate that is longer than
// kTracestateBytes, or not printable ASCII, is left out.
inline constexpr std::size_t kTracestateBytes = 512;
std::optional<SpanContext> origin_of(const Message& message);

// An ExportTraceServiceRequest with all `spans`. Text that is not UTF-8 gets U+FFFD in place of its invalid
// bytes: a collector refuses the whole request otherwise. A span that ends before it starts ends when it
// starts.
std::string encode(const std::vector<Span>& spans, const std::vector<Attribute>& resource);

}  // namespace rung::otel
