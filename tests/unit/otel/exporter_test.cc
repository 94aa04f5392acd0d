#include "src/otel/exporter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/support/clock.h"
#include "tests/support/http_script.h"
#include "tests/unit/otel/spans.h"

namespace rung::otel {
namespace {

using test::HttpScript;
using Answer = HttpScript::Answer;
using Request = HttpScript::Request;

// Nothing happens by itself unless a test says so: batches wait for a full one, and pauses for stop().
constexpr Ms kForever = std::chrono::hours{1};

ExportLimits limits(std::size_t batch = 2) {
  ExportLimits limits;
  limits.batch = batch;
  limits.linger = kForever;
  limits.first_pause = limits.most_pause = Ms{1};
  limits.stopping = std::chrono::seconds{60};
  return limits;
}

ExporterOptions to(const HttpScript& collector) { return {.endpoint = collector.url()}; }

int spans_in(const std::string& body) {
  const auto request = nlohmann::json::parse(body);
  return static_cast<int>(request.at("resourceSpans").at(0).at("scopeSpans").at(0).at("spans").size());
}

void add(Exporter& thread, int spans) {
  for (int i = 0; i < spans; ++i) thread.add(a_span(static_cast<std::uint8_t>(i % 255 + 1)));
}

const Answer kAccepts;

// A collector that answers the first request so, and accepts all later ones.
HttpScript::Script first(Answer answer) {
  return [answer = std::move(answer)](const Request&, std::size_t number) {
    return number == 1 ? answer : Answer{};
  };
}

TEST(Exporter, PostsToTheEndpointsPath) {
  HttpScript collector(kAccepts);
  for (const char* end : {"", "/", "/base", "/base/"}) {
    ExporterOptions options = to(collector);
    options.endpoint += end;
    options.headers = {{"authorization", "Bearer token"}};
    options.resource = {{"service.name", std::string("rung")}};
    Exporter thread(options, limits());
    add(thread, 1);
    thread.stop();
  }
  auto requests = collector.requests();
  ASSERT_EQ(requests.size(), 4u);
  EXPECT_EQ(requests[0].method, "POST");
  EXPECT_EQ(requests[0].target, "/v1/traces");
  EXPECT_EQ(requests[1].target, "/v1/traces");
  EXPECT_EQ(requests[2].target, "/base/v1/traces");
  EXPECT_EQ(requests[3].target, "/base/v1/traces");
  EXPECT_EQ(requests[0].headers["content-type"], "application/json");
  EXPECT_EQ(requests[0].headers["authorization"], "Bearer token");
  EXPECT_NE(requests[0].body.find("service.name"), std::string::npos);
}

TEST(Exporter, AnIncompleteBatchGoesWhenItsTimeIsOver) {
  HttpScript collector(kAccepts);
  ExportLimits some = limits(100);
  some.linger = Ms{1};
  Exporter thread(to(collector), some);
  add(thread, 1);
  EXPECT_TRUE(collector.wait_for(1));
}

TEST(Exporter, DropsAndCountsWhatIsTooMuch) {
  HttpScript collector(kAccepts);
  ExportLimits some = limits(100);  // which do not come
  some.queue = 4;
  Exporter thread(to(collector), some);
  add(thread, 7);
  EXPECT_EQ(thread.counts().dropped, 3);
  thread.stop();
  EXPECT_EQ(thread.counts().exported, 4);
  add(thread, 1);
  EXPECT_EQ(thread.counts().dropped, 4) << "it has stopped";
}

TEST(Exporter, SendsAgainWhatWasNotAccepted) {
  for (const int status : {429, 502, 503, 504, HttpScript::kCut}) {
    HttpScript collector(first({.status = status}));
    Exporter thread(to(collector), limits());
    add(thread, 2);
    ASSERT_TRUE(collector.wait_for(2)) << status;
    thread.stop();
    const auto requests = collector.requests();
    ASSERT_EQ(requests.size(), 2u) << status;
    EXPECT_EQ(requests[0].body, requests[1].body);
    EXPECT_EQ(thread.counts().exported, 2);
    EXPECT_EQ(thread.counts().dropped, 0);
  }
}

TEST(Exporter, DropsWhatIsRefused) {
  for (const int status : {301, 400, 401, 404, 413, 500}) {
    HttpScript collector(first({.status = status}));
    Exporter thread(to(collector), limits());
    add(thread, 4);
    ASSERT_TRUE(collector.wait_for(2));
    thread.stop();
    EXPECT_EQ(collector.requests().size(), 2u) << status;  // the second batch, not the first again
    EXPECT_EQ(thread.counts().exported, 2);
    EXPECT_EQ(thread.counts().dropped, 2);
  }
}

TEST(Exporter, StopGivesUpWhenTheCollectorIsAway) {
  HttpScript collector({.status = 503});
  ExportLimits some = limits();
  some.first_pause = some.most_pause = kForever;
  Exporter thread(to(collector), some);
  add(thread, 9);
  ASSERT_TRUE(collector.wait_for(1));
  thread.stop();
  EXPECT_LE(collector.requests().size(), 2u);
  EXPECT_EQ(thread.counts().exported, 0);
  EXPECT_EQ(thread.counts().dropped, 9);
}

TEST(Exporter, WaitsAsLongAsTheCollectorAsksWithinABound) {
  HttpScript collector(first({.status = 503, .headers = {{"Retry-After", "86400"}}}));
  ExportLimits some = limits();
  some.first_pause = some.most_pause = kForever;
  some.most_asked = Ms{1};
  Exporter thread(to(collector), some);
  add(thread, 2);
  ASSERT_TRUE(collector.wait_for(2));
  thread.stop();
  EXPECT_EQ(thread.counts().exported, 2);
}

TEST(Exporter, DropsABatchAfterTheLastTry) {
  HttpScript collector(
      [](const Request&, std::size_t number) { return Answer{.status = number <= 3 ? 503 : 200}; });
  ExportLimits some = limits();
  some.tries = 3;
  Exporter thread(to(collector), some);
  add(thread, 4);
  ASSERT_TRUE(collector.wait_for(4));
  thread.stop();
  const auto requests = collector.requests();
  ASSERT_EQ(requests.size(), 4u);
  EXPECT_EQ(requests[0].body, requests[2].body);
  EXPECT_NE(requests[2].body, requests[3].body);
  EXPECT_EQ(thread.counts().exported, 2);
  EXPECT_EQ(thread.counts().dropped, 2);
}

// The test's own limit of time is what would fail.
TEST(Exporter, StopEndsARequestThatIsNotAnswered) {
  HttpScript collector({.status = HttpScript::kSilent});
  ExportLimits some = limits();
  some.connecting = some.answering = kForever;
  some.stopping = Ms{20};
  Exporter thread(to(collector), some);
  add(thread, 7);
  ASSERT_TRUE(collector.wait_for(1));
  thread.stop();
  EXPECT_EQ(collector.requests().size(), 1u);
  EXPECT_EQ(thread.counts().exported, 0);
  EXPECT_EQ(thread.counts().dropped, 7);
}

TEST(Exporter, SpansOfSeveralThreadsArriveOnceEach) {
  HttpScript collector(kAccepts);
  constexpr int kThreads = 4, kEach = 1000;
  Exporter thread(to(collector), limits(64));
  std::vector<std::thread> adding;
  for (int i = 0; i < kThreads; ++i) adding.emplace_back([&] { add(thread, kEach); });
  for (std::thread& one : adding) one.join();
  thread.stop();
  int arrived = 0;
  for (const Request& request : collector.requests()) arrived += spans_in(request.body);
  EXPECT_EQ(arrived, kThreads * kEach);
  EXPECT_EQ(thread.counts().exported, kThreads * kEach);
}

constexpr std::string_view kAway = "collector away", kRefuses = "collector refuses";

std::string written(const std::function<void()>& log) {
  testing::internal::CaptureStderr();
  log();
  return testing::internal::GetCapturedStderr();
}

std::ptrdiff_t lines(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

TEST(CollectorLog, OneWarningAndOneLineWhenItIsBack) {
  HandClock clock;
  CollectorLog log("http://collector:4318", &clock);
  const std::string text = written([&] {
    log.accepting(0);
    for (int i = 0; i < 100; ++i) {
      log.failing(kAway, "is not reachable", i);
      clock.advance(Ms{10'000});
    }
    log.accepting(120);
    log.accepting(120);
  });
  EXPECT_EQ(lines(text), 2) << text;
  EXPECT_NE(
      text.find(
          "warn  collector away collector=http://collector:4318 reason=\"is not reachable\" dropped=0\n"),
      std::string::npos)
      << text;
  EXPECT_NE(
      text.find("info  trace collector accepts spans again collector=http://collector:4318 dropped=120\n"),
      std::string::npos)
      << text;
}

TEST(CollectorLog, ACollectorThatComesAndGoesIsAWarningAMinute) {
  HandClock clock;
  CollectorLog log("http://collector:4318", &clock);
  const std::string text = written([&] {
    for (int second = 0; second < 120; ++second) {
      log.failing(second % 4 == 0 ? kAway : kRefuses, "answers 503", 0);
      if (second % 2 == 0) log.accepting(0);
      clock.advance(Ms{1000});
    }
  });
  EXPECT_EQ(lines(text), 4) << text;  // a warning and its end, in each of two minutes
}

TEST(CollectorLog, NoPassword) {
  CollectorLog log("http://me:secret@collector:4318", nullptr);
  const std::string text = written([&] { log.failing(kAway, "", 0); });
  EXPECT_EQ(text.find("secret"), std::string::npos) << text;
  EXPECT_NE(text.find("collector:4318"), std::string::npos) << text;
}

}  // namespace
}  // namespace rung::otel
