// A span as OTLP has it (opentelemetry.io/docs/specs/otlp). Plain data, no I/O.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "src/core/base/time.h"

namespace rung::otel {

using TraceId = std::array<std::uint8_t, 16>;
using SpanId = std::array<std::uint8_t, 8>;

struct SpanContext {
  TraceId trace{};
  SpanId span{};
  std::string state = {};  // tracestate, "" = none
};

using Attribute = std::pair<std::string, std::variant<std::string, std::int64_t>>;

struct Link {
  SpanContext to;
  std::vector<Attribute> attributes = {};
};

enum class SpanKind { internal, producer, consumer };

struct Span {
  SpanContext context;
  std::optional<SpanId> parent = {};
  std::string name;
  SpanKind kind = SpanKind::internal;
  EpochMs start, end;
  std::vector<Attribute> attributes = {};
  std::vector<Link> links = {};
  std::optional<std::string> error = {};  // the status is an error with this text
};

}  // namespace rung::otel
