#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "src/otel/exporter.h"
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

using Kind = ExportResult::Kind;

std::string partial(const nlohmann::json& rejected, const std::string& message) {
  return nlohmann::json{{"partialSuccess", {{"rejectedSpans", rejected}, {"errorMessage", message}}}}.dump();
}

ExportResult reply(int status, std::string body = {}) {
  net::HttpReply answer;
  answer.status = status;
  answer.body = std::move(body);
  return read_reply(answer, 10);
}

TEST(Reply, AFullSuccess) {
  for (const std::string body :
       {"", "{}", "\xFF\xFF", "[]", "7", R"({"partialSuccess": null})",
        R"({"partialSuccess": [1]})"}) {  // the status decides, whatever the body holds
    EXPECT_EQ(reply(200, body).kind, Kind::accepted);
    EXPECT_EQ(reply(200, body).rejected, 0);
  }
  EXPECT_EQ(reply(202).kind, Kind::accepted);
}

// OTLP's JSON writes 64 bits as text; some collectors write a number.
TEST(Reply, APartialSuccess) {
  for (const nlohmann::json& rejected : {nlohmann::json("3"), nlohmann::json(3)}) {
    const ExportResult result = reply(200, partial(rejected, "too old"));
    EXPECT_EQ(result.kind, Kind::accepted);
    EXPECT_EQ(result.rejected, 3);
    EXPECT_EQ(result.reason, "answers 200: too old");
  }
  for (const nlohmann::json& unreadable :
       {nlohmann::json("three"), nlohmann::json(nullptr), nlohmann::json(true)})
    EXPECT_EQ(reply(200, partial(unreadable, "too old")).rejected, 0);
}

// As large as the client lets an answer be: reading it must not need a stack as deep.
TEST(Reply, ADeeplyNestedBodyIsRead) {
  const std::size_t depth = net::HttpClientOptions{}.max_answer / 2;
  const std::string nested = std::string(depth, '[') + std::string(depth, ']');
  EXPECT_EQ(reply(200, nested).kind, Kind::accepted);
  EXPECT_EQ(reply(200, R"({"partialSuccess":)" + nested + "}").rejected, 0);
  EXPECT_EQ(reply(400, R"({"message":)" + nested + "}").reason, "answers 400");
}

TEST(Reply, RejectedIsNeverMoreThanWasSentNorLessThanNothing) {
  EXPECT_EQ(reply(200, partial(11, "")).rejected, 10);
  EXPECT_EQ(reply(200, partial(-1, "")).rejected, 0);
}

// A google.rpc.Status.
TEST(Reply, AFailuresTextIsTheReason) {
  const std::string status = R"({"code": 3, "message": "bad\nid", "details": [{}]})";
  EXPECT_EQ(reply(400, status).reason, "answers 400: bad\\nid");
  EXPECT_EQ(reply(503, status).reason, "answers 503: bad\\nid");
  EXPECT_EQ(reply(404, "<html>not here</html>").reason, "answers 404");
}

TEST(Reply, AFailuresTextIsCut) {
  const ExportResult result = reply(200, partial(1, std::string(5000, 'x')));
  EXPECT_EQ(result.reason, "answers 200: " + std::string(200, 'x'));
}

// ---- traceparent and tracestate, by the rules of the W3C.

const std::string kValid = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

std::string with(std::size_t at, const std::string& part) {
  std::string text = kValid;
  return text.replace(at, part.size(), part);
}

Message message(Table headers) { return {{}, std::move(headers), "body"}; }

TEST(Traceparent, Valid) {
  const auto parsed = parse_traceparent(kValid);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->trace, "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(parsed->span, "b7ad6b7169203331");
  EXPECT_TRUE(parse_traceparent(with(53, "00"))) << "not sampled is still an origin";
  EXPECT_TRUE(parse_traceparent(with(0, "cc"))) << "a later version";
  EXPECT_TRUE(parse_traceparent(with(0, "cc") + "-more"));
}

TEST(Traceparent, Invalid) {
  for (const std::string& text :
       {std::string(), kValid.substr(0, 54), kValid + "-", kValid + "0", with(0, "ff"), with(0, "cc") + "x",
        with(0, "0g"), with(2, "_"), with(35, "_"), with(52, "_"), with(53, "0A"), with(3, "0A"),
        with(3, std::string(32, '0')), with(36, std::string(16, '0')), with(36, " "), " " + kValid,
        kValid.substr(0, 54) + "\0"})
    EXPECT_FALSE(parse_traceparent(text)) << text;
}

TEST(OriginOfAMessage, FromItsHeaders) {
  EXPECT_FALSE(origin_of({{}, std::nullopt, "body"}));
  EXPECT_FALSE(origin_of(message({{"tracestate", "a=1"}}))) << "a state without a parent";
  EXPECT_FALSE(origin_of(message({{"traceparent", std::int32_t{7}}})));
  EXPECT_FALSE(origin_of(message({{"traceparent", "nonsense"}, {"tracestate", "a=1"}})));
  const auto plain = origin_of(message({{"x", "y"}, {"traceparent", kValid}}));
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->state, "");
  const auto stateful = origin_of(message({{"traceparent", Bytes{kValid}}, {"tracestate", "a=1,b@c=2"}}));
  ASSERT_TRUE(stateful);
  EXPECT_EQ(stateful->state, "a=1,b@c=2");
}

TEST(OriginOfAMessage, AnInvalidStateIsLeftOut) {
  for (const Value& state : {Value("a=\xff"), Value("a=1\n"), Value(std::string(513, 'a')), Value(true)}) {
    const auto origin = origin_of(message({{"traceparent", kValid}, {"tracestate", state}}));
    ASSERT_TRUE(origin);
    EXPECT_EQ(origin->state, "");
  }
}

}  // namespace
}  // namespace rung::otel
