#include "src/otel/trace_context.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

namespace rung::otel {
namespace {

// -1: not a lower-case hex digit, which is all that the standard allows.
int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// REQUIRES: text has two digits for each byte of `out`.
template <std::size_t kSize>
bool read_hex(std::string_view text, std::array<std::uint8_t, kSize>& out) {
  for (std::size_t i = 0; i < kSize; ++i) {
    const int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    out[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return true;
}

template <std::size_t kSize>
bool is_zero(const std::array<std::uint8_t, kSize>& id) {
  return std::ranges::all_of(id, [](std::uint8_t byte) { return byte == 0; });
}

}  // namespace

// version "-" trace-id "-" parent-id "-" flags: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
std::optional<SpanContext> parse_traceparent(std::string_view text) {
  constexpr std::size_t kLength = 55, kTraceAt = 3, kSpanAt = 36, kFlagsAt = 53;
  constexpr std::uint8_t kNoVersion = 0xff;
  if (text.size() < kLength || text[kTraceAt - 1] != '-' || text[kSpanAt - 1] != '-' ||
      text[kFlagsAt - 1] != '-')
    return std::nullopt;
  std::array<std::uint8_t, 1> version{}, flags{};
  SpanContext out;
  if (!read_hex(text, version) || !read_hex(text.substr(kTraceAt), out.trace) ||
      !read_hex(text.substr(kSpanAt), out.span) || !read_hex(text.substr(kFlagsAt), flags))
    return std::nullopt;
  const bool longer = text.size() > kLength;
  if (version[0] == kNoVersion || (longer && (version[0] == 0 || text[kLength] != '-'))) return std::nullopt;
  if (is_zero(out.trace) || is_zero(out.span)) return std::nullopt;
  return out;
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
