#include "src/otel/encode.h"

#include <gtest/gtest.h>
#include <opentelemetry/proto/collector/trace/v1/trace_service.pb.h>

#include <limits>

#include "tests/unit/otel/spans.h"

namespace rung::otel {
namespace {

namespace proto = opentelemetry::proto;
using Export = proto::collector::trace::v1::ExportTraceServiceRequest;

Export decoded(const std::vector<Span>& spans, const std::vector<Attribute>& resource = {}) {
  Export request;
  EXPECT_TRUE(request.ParseFromString(encode(spans, resource)));
  return request;
}

proto::trace::v1::Span decoded(const Span& span) {
  return decoded(std::vector<Span>{span}).resource_spans(0).scope_spans(0).spans(0);
}

TEST(Encode, EveryFieldOfASpan) {
  Span span;
  for (std::uint8_t i = 0; i < 16; ++i) span.context.trace[i] = static_cast<std::uint8_t>(0xF0 + i);
  for (std::uint8_t i = 0; i < 8; ++i) span.context.span[i] = i;  // begins with a zero byte
  span.context.state = "vendor=a";
  span.parent = SpanId{8, 7, 6, 5, 4, 3, 2, 1};
  span.name = "orders retry";
  span.kind = SpanKind::producer;
  span.start = EpochMs{1'790'000'000'123};
  span.end = EpochMs{1'790'000'009'456};
  span.attributes = {{"queue", std::string("orders")},
                     {"attempt", std::int64_t{-3}},
                     {"most", std::numeric_limits<std::int64_t>::max()}};
  span.error = "timed out";
  const auto got = decoded(span);
  EXPECT_EQ(got.trace_id(), "\xF0\xF1\xF2\xF3\xF4\xF5\xF6\xF7\xF8\xF9\xFA\xFB\xFC\xFD\xFE\xFF");
  EXPECT_EQ(got.span_id(), std::string("\0\1\2\3\4\5\6\7", 8));
  EXPECT_EQ(got.trace_state(), "vendor=a");
  EXPECT_EQ(got.parent_span_id(), "\x8\x7\x6\x5\x4\x3\x2\x1");
  EXPECT_EQ(got.name(), "orders retry");
  EXPECT_EQ(got.kind(), proto::trace::v1::Span::SPAN_KIND_PRODUCER);
  EXPECT_EQ(got.start_time_unix_nano(), 1'790'000'000'123'000'000u);
  EXPECT_EQ(got.end_time_unix_nano(), 1'790'000'009'456'000'000u);
  ASSERT_EQ(got.attributes_size(), 3);
  EXPECT_EQ(got.attributes(0).key(), "queue");
  EXPECT_EQ(got.attributes(0).value().string_value(), "orders");
  EXPECT_EQ(got.attributes(1).key(), "attempt");
  EXPECT_EQ(got.attributes(1).value().int_value(), -3);
  EXPECT_EQ(got.attributes(2).value().int_value(), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(got.status().code(), proto::trace::v1::Status::STATUS_CODE_ERROR);
  EXPECT_EQ(got.status().message(), "timed out");
  EXPECT_EQ(got.links_size(), 0);
}

TEST(Encode, Links) {
  Span span = a_span();
  Link first{.to = {.trace = {1, 2}, .span = {3, 4}, .state = "a=b"}, .attributes = {}};
  first.attributes = {{"reason", std::string("group")}};
  const Link second{.to = {.trace = {5}, .span = {6}}};
  span.links = {first, second};
  const auto got = decoded(span);
  ASSERT_EQ(got.links_size(), 2);
  EXPECT_EQ(got.links(0).trace_id(), "\1\2" + std::string(14, '\0'));
  EXPECT_EQ(got.links(0).span_id(), "\3\4" + std::string(6, '\0'));
  EXPECT_EQ(got.links(0).trace_state(), "a=b");
  ASSERT_EQ(got.links(0).attributes_size(), 1);
  EXPECT_EQ(got.links(0).attributes(0).key(), "reason");
  EXPECT_EQ(got.links(0).attributes(0).value().string_value(), "group");
  EXPECT_EQ(got.links(1).span_id(), "\6" + std::string(7, '\0'));
}

TEST(Encode, WhatASpanDoesNotHaveIsNotSent) {
  const auto got = decoded(a_span());
  EXPECT_EQ(got.parent_span_id(), "");
  EXPECT_EQ(got.trace_state(), "");
  EXPECT_FALSE(got.has_status());
  EXPECT_EQ(got.attributes_size(), 0);
}

TEST(Encode, AnErrorWithoutTextIsAnError) {
  Span span = a_span();
  span.error = "";
  EXPECT_EQ(decoded(span).status().code(), proto::trace::v1::Status::STATUS_CODE_ERROR);
}

TEST(Encode, Kinds) {
  Span span = a_span();
  EXPECT_EQ(decoded(span).kind(), proto::trace::v1::Span::SPAN_KIND_INTERNAL);
  span.kind = SpanKind::consumer;
  EXPECT_EQ(decoded(span).kind(), proto::trace::v1::Span::SPAN_KIND_CONSUMER);
}

TEST(Encode, SpansShareOneResourceAndScope) {
  const Export request = decoded({a_span(1, "a"), a_span(2, "b")},
                                 {{"service.name", std::string("rung")}, {"process.pid", std::int64_t{7}}});
  ASSERT_EQ(request.resource_spans_size(), 1);
  const auto& group = request.resource_spans(0);
  ASSERT_EQ(group.resource().attributes_size(), 2);
  EXPECT_EQ(group.resource().attributes(0).key(), "service.name");
  EXPECT_EQ(group.resource().attributes(0).value().string_value(), "rung");
  EXPECT_EQ(group.resource().attributes(1).value().int_value(), 7);
  ASSERT_EQ(group.scope_spans_size(), 1);
  EXPECT_EQ(group.scope_spans(0).scope().name(), "rung");
  ASSERT_EQ(group.scope_spans(0).spans_size(), 2);
  EXPECT_EQ(group.scope_spans(0).spans(1).name(), "b");
}

// A collector refuses a request with one invalid string, and with it all other spans.
TEST(Encode, TextIsValidUtf8) {
  Span span = a_span(1, "caf\xE9");
  span.context.state = "a=\xFF";
  span.error = "\xC3";
  span.attributes = {{"k\xFE", std::string("v\xFE")}};
  const auto got = decoded(span);
  EXPECT_EQ(got.name(), "caf\xEF\xBF\xBD");
  EXPECT_EQ(got.trace_state(), "a=\xEF\xBF\xBD");
  EXPECT_EQ(got.status().message(), "\xEF\xBF\xBD");
  EXPECT_EQ(got.attributes(0).key(), "k\xEF\xBF\xBD");
  EXPECT_EQ(got.attributes(0).value().string_value(), "v\xEF\xBF\xBD");
}

// The database's clock may be set back while a task waits.
TEST(Encode, ASpanDoesNotEndBeforeItStarts) {
  Span span = a_span();
  span.end = span.start - Ms{5};
  const auto got = decoded(span);
  EXPECT_EQ(got.end_time_unix_nano(), got.start_time_unix_nano());
}

}  // namespace
}  // namespace rung::otel
