// Traces, seen from outside: the spans that a collector gets, and the messages that stay as they were.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/integration/sidecar/messages.h"
#include "tests/support/http_client.h"

namespace rung::test {
namespace {

using testing::SizeIs;
using Json = nlohmann::json;

constexpr const char* kOriginTrace = "0af7651916cd43dd8448eb211c80319c";
constexpr const char* kOriginSpan = "b7ad6b7169203331";

// tests/support/otlp_recorder.py.
class Recorder {
 public:
  Recorder(int port, std::string file) : file_(std::move(file)) {
    pid_ = fork();
    if (pid_ != 0) return;
    const std::string script = std::string(RUNG_SOURCE_DIR) + "/tests/support/otlp_recorder.py";
    const std::string number = std::to_string(port), out = file_ + ".log";
    const int log = open(out.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    dup2(log, 1);
    dup2(log, 2);
    execl("/usr/bin/python3", "python3", script.c_str(), "--port", number.c_str(), "--file", file_.c_str(),
          nullptr);
    _exit(127);
  }
  ~Recorder() {
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
  }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  bool listens() const {
    return eventually(
        [&] {
          std::ifstream log(file_ + ".log");
          std::string line;
          return std::getline(log, line) && line.starts_with("listening");
        },
        kBound);
  }

 private:
  const std::string file_;
  pid_t pid_ = -1;
};

class Traces : public SidecarTest {
 protected:
  Traces() : port(free_port()), file_(::testing::TempDir() + unique_name("spans")) {
    config.ladder = "[200ms, 300ms]";
    config.more = "otel: { endpoint: \"http://127.0.0.1:" + std::to_string(port) +
                  "\", service: shop, headers: { authorization: \"Bearer ${RUNG_TEST_TRACE_TOKEN}\" } }\n";
    setenv("RUNG_TEST_TRACE_TOKEN", "open-sesame", 1);
  }
  ~Traces() override {
    recorder.reset();
    for (const std::string end : {"", ".log"}) std::remove((file_ + end).c_str());
  }

  void record() {
    recorder = std::make_unique<Recorder>(port, file_);
    ASSERT_TRUE(recorder->listens());
  }
  std::vector<Json> spans() const {
    std::vector<Json> all;
    std::ifstream in(file_);
    for (std::string line; std::getline(in, line);) {
      const Json span = Json::parse(line, nullptr, false);
      if (span.is_discarded()) break;  // being written
      EXPECT_FALSE(span.contains("violation")) << line;
      all.push_back(span);
    }
    return all;
  }
  std::vector<Json> wait_spans(std::size_t count) const {
    EXPECT_TRUE(eventually([&] { return spans().size() >= count; }, kBound)) << spans().size() << " spans";
    return spans();
  }
  static Message traced() {
    Message message = order();
    message.properties.correlation_id = "c-1";
    message.headers->emplace_back("traceparent",
                                  "00-" + std::string(kOriginTrace) + "-" + kOriginSpan + "-01");
    message.headers->emplace_back("tracestate", "vendor=1,other@x=2");
    return message;
  }
  // The only span with that name and attempt; an empty one, and a failure, if there is none.
  static Json one(const std::vector<Json>& all, const std::string& operation, int attempt) {
    std::vector<Json> found;
    for (const Json& span : all) {
      const Json& attributes = span.at("attributes");
      if (attributes.at("messaging.operation.name") == operation && attributes.at("rung.attempt") == attempt)
        found.push_back(span);
    }
    EXPECT_THAT(found, SizeIs(1)) << operation << " " << attempt;
    return found.empty() ? Json() : found[0];
  }
  static Json link(const Json& span, const std::string& what) {
    for (const Json& link : span.at("links")) {
      if (link.at("attributes").at("rung.link") == what) return link;
    }
    return {};
  }
  // As docs/traces.md says: anybody can compute it.
  std::string first_ids(const std::string& id, int attempt) const {
    const Ran ran = run_shell("printf %s 'shop/" + config.prefix + "/" + id + "/" + std::to_string(attempt) +
                              "' | sha256sum");
    return ran.out.substr(0, 48);
  }
  void expect_chain(const std::vector<Json>& all, const std::string& id, int attempts) const {
    for (int attempt = 0; attempt <= attempts; ++attempt) {
      const Json span = one(all, attempt == 0 ? "receive" : "publish", attempt);
      ASSERT_TRUE(span.is_object());
      EXPECT_EQ(span.at("trace_id").get<std::string>() + span.at("span_id").get<std::string>(),
                first_ids(id, attempt));
      EXPECT_EQ(span.at("attributes").at("rung.retry_id"), id);
      const Json origin = link(span, "origin");
      ASSERT_TRUE(origin.is_object());
      EXPECT_EQ(origin.at("trace_id"), kOriginTrace);
      EXPECT_EQ(origin.at("span_id"), kOriginSpan);
      EXPECT_EQ(origin.at("trace_state"), "vendor=1,other@x=2");
      if (attempt == 0) continue;
      const Json previous = link(span, "previous");
      ASSERT_TRUE(previous.is_object());
      EXPECT_EQ(previous.at("trace_id").get<std::string>() + previous.at("span_id").get<std::string>(),
                first_ids(id, attempt - 1));
      const Json settled = one(all, "settle", attempt);
      ASSERT_TRUE(settled.is_object());
      EXPECT_EQ(settled.at("trace_id"), span.at("trace_id"));
      EXPECT_EQ(settled.at("parent_span_id"), span.at("span_id"));
    }
  }

  const int port;
  std::unique_ptr<Recorder> recorder;

 private:
  const std::string file_;
};

TEST_F(Traces, TwoFailuresAndASuccess) {
  record();
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

  const auto all = wait_spans(5);
  ASSERT_THAT(all, SizeIs(5)) << "receive, and publish and settle of two attempts";
  expect_chain(all, id, 2);
  const Json received = one(all, "receive", 0), failed = one(all, "settle", 1), ended = one(all, "settle", 2);
  EXPECT_EQ(received.at("kind"), "CONSUMER");
  EXPECT_EQ(received.at("name"), "receive " + config.prefix + ".failed");
  const Json published = one(all, "publish", 1);
  EXPECT_EQ(published.at("kind"), "PRODUCER");
  EXPECT_EQ(published.at("name"), "publish " + queue);
  EXPECT_EQ(published.at("attributes").at("messaging.system"), "rabbitmq");
  EXPECT_EQ(published.at("attributes").at("messaging.destination.name"), queue);
  EXPECT_EQ(published.at("attributes").at("messaging.message.id"), *sent.properties.message_id);
  EXPECT_EQ(published.at("attributes").at("messaging.message.conversation_id"), "c-1");
  EXPECT_EQ(published.at("attributes").count("server.address"), 1U);
  EXPECT_EQ(failed.at("attributes").at("rung.outcome"), "failed");
  EXPECT_EQ(failed.at("attributes").at("rung.state"), "scheduled");
  EXPECT_EQ(failed.at("status").at("code"), "ERROR");
  EXPECT_EQ(ended.at("attributes").at("rung.outcome"), "succeeded");
  EXPECT_EQ(ended.at("attributes").at("rung.state"), "succeeded");
  EXPECT_NE(ended.at("status").at("code"), "ERROR");
  EXPECT_EQ(ended.at("resource").at("service.name"), "shop");
  EXPECT_EQ(ended.at("headers").at("authorization"), "Bearer open-sesame");
  EXPECT_EQ(rung().log().find("open-sesame"), std::string::npos);
}

// The collector is away: nobody listens on its port.
TEST_F(Traces, WithoutACollectorOnlySpansAreLost) {
  const int http = free_port();
  config.more += "http: { listen: \"127.0.0.1:" + std::to_string(http) + "\" }\ndrain: 3s\n";
  const std::string queue = attached("orders");
  start();
  fail(queue, traced());
  const Received back = delivery(queue);
  report(back, "succeeded");
  amqp.ack(back);
  wait_state(queue, "succeeded");
  const std::string metrics = HttpClient(http).call("GET", "/metrics").body;
  EXPECT_NE(metrics.find("rung_otel_spans_exported_total 0"), std::string::npos) << metrics;
  EXPECT_NE(metrics.find("rung_otel_spans_dropped_total"), std::string::npos);
  EXPECT_NE(run_shell(rung_program() + " doctor -c " + rung().config_path()).out.find("otel.endpoint"),
            std::string::npos);
  rung().signal(SIGTERM);
  EXPECT_EQ(rung().wait_exit(), 0);
}

}  // namespace
}  // namespace rung::test
