// Traces, seen from outside: the spans that a collector gets, and the messages that stay as they were. What a
// span has, and its links: TracesOfTasks in tests/unit/otel.
#include <gmock/gmock.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tests/integration/sidecar/messages.h"
#include "tests/support/http_client.h"
#include "tests/support/http_script.h"

namespace rung::test {
namespace {

using testing::SizeIs;
using Json = nlohmann::json;

constexpr const char* kOriginTrace = "0af7651916cd43dd8448eb211c80319c";
constexpr const char* kOriginSpan = "b7ad6b7169203331";

// Of a span, a link or a resource in OTLP's JSON: {name: text, or number as text}.
std::map<std::string, std::string> attributes(const Json& of) {
  std::map<std::string, std::string> out;
  for (const Json& one : of.at("attributes"))
    out[one.at("key").get<std::string>()] =
        one.at("value").value("stringValue", one.at("value").value("intValue", ""));
  return out;
}

class Traces : public SidecarTest {
 protected:
  Traces() : port(free_port()) {
    config.ladder = "[200ms, 300ms]";
    config.more = "otel: { endpoint: \"http://127.0.0.1:" + std::to_string(port) +
                  "\", service: shop, headers: { authorization: \"Bearer ${RUNG_TEST_TRACE_TOKEN}\" } }\n";
    setenv("RUNG_TEST_TRACE_TOKEN", "open-sesame", 1);
  }

  // All that the collector got, each with its group's resource.
  static std::vector<Json> spans(const HttpScript& collector) {
    std::vector<Json> all;
    for (const HttpScript::Request& request : collector.requests()) {
      EXPECT_EQ(request.headers.at("authorization"), "Bearer open-sesame");
      const Json body = Json::parse(request.body);
      for (const Json& group : body.at("resourceSpans")) {
        for (Json span : group.at("scopeSpans").at(0).at("spans")) {
          span["resource"] = group.at("resource");
          all.push_back(std::move(span));
        }
      }
    }
    return all;
  }
  static Message traced() {
    Message message = order();
    message.properties.correlation_id = "c-1";
    message.headers->emplace_back("traceparent",
                                  "00-" + std::string(kOriginTrace) + "-" + kOriginSpan + "-01");
    message.headers->emplace_back("tracestate", "vendor=1,other@x=2");
    return message;
  }
  // The only span with that operation and attempt; an empty one, and a failure, if there is none.
  static Json one(const std::vector<Json>& all, const std::string& operation, int attempt) {
    std::vector<Json> found;
    for (const Json& span : all) {
      auto its = attributes(span);
      if (its["messaging.operation.name"] == operation && its["rung.attempt"] == std::to_string(attempt))
        found.push_back(span);
    }
    EXPECT_THAT(found, SizeIs(1)) << operation << " " << attempt;
    return found.empty() ? Json() : found[0];
  }
  static std::string ids(const Json& of) {
    return of.at("traceId").get<std::string>() + of.at("spanId").get<std::string>();
  }
  // As docs/traces.md says: anybody can compute it.
  std::string first_ids(const std::string& id, int attempt) const {
    const Ran ran = run_shell("printf %s 'shop/" + config.prefix + "/" + id + "/" + std::to_string(attempt) +
                              "' | sha256sum");
    return ran.out.substr(0, 48);
  }

  const int port;
};

TEST_F(Traces, TwoFailuresAndASuccess) {
  const HttpScript collector([](const HttpScript::Request&, std::size_t) { return HttpScript::Answer{}; },
                             port);
  const std::string queue = attached("orders");
  start();
  const Message sent = traced();
  fail(queue, sent);
  Received back = delivery(queue);
  const std::string id = retry_id(back);
  expect_same(sent, back.message);
  amqp.reject(back);
  back = delivery(queue);
  EXPECT_EQ(int_header(back.message, "retry-attempt"), 2);
  expect_same(sent, back.message);
  EXPECT_EQ(text_header(back.message, "tracestate"), "vendor=1,other@x=2");
  report(back, "succeeded");
  amqp.ack(back);
  wait_state(queue, "succeeded");

  EXPECT_TRUE(eventually([&] { return spans(collector).size() >= 5; }));
  const auto all = spans(collector);
  ASSERT_THAT(all, SizeIs(5)) << "receive, and publish and settle of two attempts";
  const Json received = one(all, "receive", 0), published = one(all, "publish", 1),
             failed = one(all, "settle", 1), ended = one(all, "settle", 2);
  EXPECT_EQ(ids(received), first_ids(id, 0));
  EXPECT_EQ(ids(published), first_ids(id, 1));
  EXPECT_EQ(attributes(published).count("server.address"), 1U);
  EXPECT_EQ(failed.at("parentSpanId"), published.at("spanId"));
  EXPECT_EQ(attributes(failed).at("rung.outcome"), "failed");
  EXPECT_EQ(attributes(ended).at("rung.outcome"), "succeeded");
  EXPECT_EQ(attributes(ended.at("resource")).at("service.name"), "shop");
  EXPECT_EQ(rung().log().find("open-sesame"), std::string::npos);
}

}  // namespace
}  // namespace rung::test
