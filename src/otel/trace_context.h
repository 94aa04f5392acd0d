// The W3C trace context of a message: its headers traceparent and tracestate. Thread: pure functions.
#pragma once

#include <optional>
#include <string_view>

#include "src/core/message/message.h"
#include "src/otel/span.h"

namespace rung::otel {

inline constexpr std::size_t kTracestateBytes = 512;

// None unless it is valid: lower-case hex, ids that are not all zero, version 00 without anything after it; a
// later version may have more.
std::optional<SpanContext> parse_traceparent(std::string_view text);

// Where the message comes from; none if it has no valid traceparent. A tracestate that is longer than
// kTracestateBytes, or not printable ASCII, is left out.
std::optional<SpanContext> origin_of(const Message& message);

}  // namespace rung::otel
