// Spans for tests.
#pragma once

#include <string>

#include "src/core/base/hex.h"
#include "src/otel/span.h"

namespace rung::otel {

inline Span a_span(std::uint8_t number = 1, std::string name = "retry") {
  Span span;
  span.context = {to_hex(std::string(16, static_cast<char>(number))),
                  to_hex(std::string(8, static_cast<char>(number)))};
  span.name = std::move(name);
  span.start = span.end = EpochMs{1'790'000'000'000};
  return span;
}

}  // namespace rung::otel
