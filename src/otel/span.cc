#include "src/otel/span.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace rung::otel {
namespace {

using nlohmann::json;

constexpr std::int64_t kNsPerMs = 1'000'000;

constexpr int kError = 2;  // OTLP's number, of the enumeration StatusCode

// 64 bits are text: a JSON number need not carry them.
std::string nanoseconds(EpochMs time) {
  return std::to_string(std::max<std::int64_t>(time.ms, 0) * kNsPerMs);
}

// Objects are filled field by field: from nested braces nlohmann::json first makes an array of each pair.
json attributes_json(const std::vector<Attribute>& attributes) {
  json list = json::array();
  for (const auto& [key, value] : attributes) {
    json& made = list.emplace_back();
    made["key"] = key;
    if (const auto* number = std::get_if<std::int64_t>(&value)) {
      made["value"]["intValue"] = std::to_string(*number);
    } else {
      made["value"]["stringValue"] = std::get<std::string>(value);
    }
  }
  return list;
}

json context_json(const SpanContext& context) {
  json made;
  made["traceId"] = context.trace;
  made["spanId"] = context.span;
  if (!context.state.empty()) made["traceState"] = context.state;
  return made;
}

json span_json(const Span& span) {
  json made = context_json(span.context);
  if (span.parent) made["parentSpanId"] = *span.parent;
  made["name"] = span.name;
  made["kind"] = static_cast<int>(span.kind);
  made["startTimeUnixNano"] = nanoseconds(span.start);
  made["endTimeUnixNano"] = nanoseconds(std::max(span.start, span.end));
  if (!span.attributes.empty()) made["attributes"] = attributes_json(span.attributes);
  for (const Link& link : span.links) {
    json one = context_json(link.to);
    if (!link.attributes.empty()) one["attributes"] = attributes_json(link.attributes);
    made["links"].push_back(std::move(one));
  }
  if (span.error) {
    json& status = made["status"];
    status["code"] = kError;
    status["message"] = *span.error;
  }
  return made;
}

}  // namespace

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

std::string encode(const std::vector<Span>& spans, const std::vector<Attribute>& resource) {
  json scope;
  scope["scope"]["name"] = "rung";
  json& list = scope["spans"] = json::array();
  for (const Span& span : spans) list.push_back(span_json(span));
  json group;
  group["resource"]["attributes"] = attributes_json(resource);
  group["scopeSpans"].push_back(std::move(scope));
  json request;
  request["resourceSpans"].push_back(std::move(group));
  return request.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace rung::otel
