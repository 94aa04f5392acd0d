#include "src/otel/encode.h"

#include <google/protobuf/arena.h>
#include <opentelemetry/proto/collector/trace/v1/trace_service.pb.h>

#include <algorithm>

#include "src/core/utf8.h"

namespace rung::otel {
namespace {

namespace proto = opentelemetry::proto;

constexpr std::int64_t kNsPerMs = 1'000'000;

std::string text(const std::string& from) {
  return is_utf8(from) ? from : clean_utf8(from, std::string::npos);
}

template <std::size_t N>
std::string bytes(const std::array<std::uint8_t, N>& id) {
  return {id.begin(), id.end()};
}

std::uint64_t nanoseconds(EpochMs time) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(time.ms, 0) * kNsPerMs);
}

// `to`: a message with the field `attributes`.
template <typename Message>
void put(const std::vector<Attribute>& attributes, Message& to) {
  for (const auto& [key, value] : attributes) {
    proto::common::v1::KeyValue& made = *to.add_attributes();
    made.set_key(text(key));
    if (const auto* number = std::get_if<std::int64_t>(&value)) {
      made.mutable_value()->set_int_value(*number);
    } else {
      made.mutable_value()->set_string_value(text(std::get<std::string>(value)));
    }
  }
}

// `to`: a message with the fields trace_id, span_id and trace_state.
template <typename Message>
void put(const SpanContext& context, Message& to) {
  to.set_trace_id(bytes(context.trace));
  to.set_span_id(bytes(context.span));
  to.set_trace_state(text(context.state));
}

proto::trace::v1::Span::SpanKind kind_of(SpanKind kind) {
  switch (kind) {
    case SpanKind::internal:
      return proto::trace::v1::Span::SPAN_KIND_INTERNAL;
    case SpanKind::producer:
      return proto::trace::v1::Span::SPAN_KIND_PRODUCER;
    case SpanKind::consumer:
      return proto::trace::v1::Span::SPAN_KIND_CONSUMER;
  }
  return proto::trace::v1::Span::SPAN_KIND_INTERNAL;
}

void put(const Span& span, proto::trace::v1::Span& to) {
  put(span.context, to);
  if (span.parent) to.set_parent_span_id(bytes(*span.parent));
  to.set_name(text(span.name));
  to.set_kind(kind_of(span.kind));
  to.set_start_time_unix_nano(nanoseconds(span.start));
  to.set_end_time_unix_nano(nanoseconds(std::max(span.start, span.end)));
  put(span.attributes, to);
  for (const Link& link : span.links) {
    proto::trace::v1::Span::Link& made = *to.add_links();
    put(link.to, made);
    put(link.attributes, made);
  }
  if (span.error) {
    to.mutable_status()->set_code(proto::trace::v1::Status::STATUS_CODE_ERROR);
    to.mutable_status()->set_message(text(*span.error));
  }
}

}  // namespace

std::string encode(const std::vector<Span>& spans, const std::vector<Attribute>& resource) {
  google::protobuf::Arena arena;  // one allocation instead of several per span
  auto& request =
      *google::protobuf::Arena::CreateMessage<proto::collector::trace::v1::ExportTraceServiceRequest>(&arena);
  proto::trace::v1::ResourceSpans& group = *request.add_resource_spans();
  put(resource, *group.mutable_resource());
  proto::trace::v1::ScopeSpans& scope = *group.add_scope_spans();
  scope.mutable_scope()->set_name("rung");
  for (const Span& span : spans) put(span, *scope.add_spans());
  return request.SerializeAsString();
}

}  // namespace rung::otel
