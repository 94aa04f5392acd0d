#include "src/otel/encode.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace rung::otel {
namespace {

using nlohmann::json;

constexpr std::int64_t kNsPerMs = 1'000'000;

// OTLP's numbers, of the enumerations SpanKind and StatusCode.
constexpr int kInternal = 1, kProducer = 4, kConsumer = 5;
constexpr int kError = 2;

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

int kind_of(SpanKind kind) {
  switch (kind) {
    case SpanKind::internal:
      return kInternal;
    case SpanKind::producer:
      return kProducer;
    case SpanKind::consumer:
      return kConsumer;
  }
  return kInternal;
}

json span_json(const Span& span) {
  json made = context_json(span.context);
  if (span.parent) made["parentSpanId"] = *span.parent;
  made["name"] = span.name;
  made["kind"] = kind_of(span.kind);
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
