#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "src/otel/span.h"
#include "tests/unit/otel/spans.h"

namespace rung::otel {
namespace {

using nlohmann::json;

json decoded(const std::vector<Span>& spans, const std::vector<Attribute>& resource = {}) {
  return json::parse(encode(spans, resource));
}

json decoded(const Span& span) {
  const json request = decoded(std::vector<Span>{span});
  return request.at("resourceSpans").at(0).at("scopeSpans").at(0).at("spans").at(0);
}

TEST(Encode, EveryFieldOfASpan) {
  Span span;
  span.context = {"f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff", "0001020304050607", "vendor=a"};
  span.parent = "0807060504030201";
  span.name = "orders retry";
  span.kind = SpanKind::producer;
  span.start = EpochMs{1'790'000'000'123};
  span.end = EpochMs{1'790'000'009'456};
  span.attributes = {{"queue", std::string("orders")},
                     {"attempt", std::int64_t{-3}},
                     {"most", std::numeric_limits<std::int64_t>::max()}};
  span.error = "timed out";
  EXPECT_EQ(decoded(span), json::parse(R"({
    "traceId": "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff",
    "spanId": "0001020304050607",
    "traceState": "vendor=a",
    "parentSpanId": "0807060504030201",
    "name": "orders retry",
    "kind": 4,
    "startTimeUnixNano": "1790000000123000000",
    "endTimeUnixNano": "1790000009456000000",
    "attributes": [
      {"key": "queue", "value": {"stringValue": "orders"}},
      {"key": "attempt", "value": {"intValue": "-3"}},
      {"key": "most", "value": {"intValue": "9223372036854775807"}}
    ],
    "status": {"code": 2, "message": "timed out"}
  })"));
}

TEST(Encode, Links) {
  Span span = a_span();
  Link first{.to = {"01020000000000000000000000000000", "0304000000000000", "a=b"}, .attributes = {}};
  first.attributes = {{"reason", std::string("group")}};
  const Link second{.to = {"05000000000000000000000000000000", "0600000000000000"}};
  span.links = {first, second};
  EXPECT_EQ(decoded(span).at("links"), json::parse(R"([
    {"traceId": "01020000000000000000000000000000", "spanId": "0304000000000000", "traceState": "a=b",
     "attributes": [{"key": "reason", "value": {"stringValue": "group"}}]},
    {"traceId": "05000000000000000000000000000000", "spanId": "0600000000000000"}
  ])"));
}

TEST(Encode, SpansShareOneResourceAndScope) {
  const json request = decoded({a_span(1, "a"), a_span(2, "b")},
                               {{"service.name", std::string("rung")}, {"process.pid", std::int64_t{7}}});
  ASSERT_EQ(request.at("resourceSpans").size(), 1U);
  const json& group = request.at("resourceSpans").at(0);
  EXPECT_EQ(group.at("resource").at("attributes"), json::parse(R"([
    {"key": "service.name", "value": {"stringValue": "rung"}}, {"key": "process.pid", "value": {"intValue": "7"}}
  ])"));
  ASSERT_EQ(group.at("scopeSpans").size(), 1U);
  const json& scope = group.at("scopeSpans").at(0);
  EXPECT_EQ(scope.at("scope").at("name"), "rung");
  ASSERT_EQ(scope.at("spans").size(), 2U);
  EXPECT_EQ(scope.at("spans").at(1).at("name"), "b");
}

// A collector refuses a request with one invalid string, and with it all other spans.
TEST(Encode, TextIsValidUtf8) {
  Span span = a_span(1, "caf\xE9");
  span.context.state = "a=\xFF";
  span.error = "\xC3";
  span.attributes = {{"k\xFE", std::string("v\xFE")}};
  const json got = decoded(span);
  EXPECT_EQ(got.at("name"), "caf\xEF\xBF\xBD");
  EXPECT_EQ(got.at("traceState"), "a=\xEF\xBF\xBD");
  EXPECT_EQ(got.at("status").at("message"), "\xEF\xBF\xBD");
  EXPECT_EQ(got.at("attributes").at(0).at("key"), "k\xEF\xBF\xBD");
  EXPECT_EQ(got.at("attributes").at(0).at("value").at("stringValue"), "v\xEF\xBF\xBD");
}

// The database's clock may be set back while a task waits.
TEST(Encode, ASpanDoesNotEndBeforeItStarts) {
  Span span = a_span();
  span.end = span.start - Ms{5};
  const json got = decoded(span);
  EXPECT_EQ(got.at("endTimeUnixNano"), got.at("startTimeUnixNano"));
}

}  // namespace
}  // namespace rung::otel
