#include "src/otel/span.h"

#include <re2/re2.h>

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
  static const RE2 form("(?s)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?", RE2::Latin1);
  std::string version, more;
  SpanContext found;
  const auto is_zero = [](const std::string& id) { return id.find_first_not_of('0') == std::string::npos; };
  if (!RE2::FullMatch({text.data(), text.size()}, form, &version, &found.trace, &found.span, &more) ||
      is_zero(found.trace) || is_zero(found.span) || version == "ff" || (version == "00" && !more.empty()))
    return std::nullopt;
  return found;
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
