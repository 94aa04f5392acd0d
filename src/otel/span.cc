#include "src/otel/span.h"

#include <algorithm>

namespace rung::otel {

// version "-" trace-id "-" parent-id "-" flags: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
std::optional<SpanContext> parse_traceparent(std::string_view text) {
  constexpr std::size_t kLength = 55;
  if (text.size() < kLength) return std::nullopt;
  const std::string_view version = text.substr(0, 2), trace = text.substr(3, 32), span = text.substr(36, 16),
                         flags = text.substr(53, 2), more = text.substr(kLength);
  const auto is_hex = [](std::string_view part) {
    return part.find_first_not_of("0123456789abcdef") == std::string_view::npos;
  };
  const auto is_zero = [](std::string_view id) {
    return id.find_first_not_of('0') == std::string_view::npos;
  };
  const bool dashes = text[2] == '-' && text[35] == '-' && text[52] == '-';
  if (!dashes || !is_hex(version) || !is_hex(trace) || !is_hex(span) || !is_hex(flags) || is_zero(trace) ||
      is_zero(span) || version == "ff")
    return std::nullopt;
  if (!more.empty() && (version == "00" || !more.starts_with('-'))) return std::nullopt;
  return SpanContext{std::string(trace), std::string(span)};
}

std::optional<SpanContext> origin_of(const Message& message) {
  const Value* parent = find(message.headers, "traceparent");
  const std::string* text = parent != nullptr ? parent->as_text() : nullptr;
  if (text == nullptr) return std::nullopt;
  auto origin = parse_traceparent(*text);
  if (!origin) return std::nullopt;
  const Value* state = find(message.headers, "tracestate");
  const std::string* entries = state != nullptr ? state->as_text() : nullptr;
  const bool valid = entries != nullptr && entries->size() <= kTracestateBytes &&
                     std::ranges::all_of(*entries, [](char c) { return c >= ' ' && c <= '~'; });
  if (valid) origin->state = *entries;
  return origin;
}

}  // namespace rung::otel
