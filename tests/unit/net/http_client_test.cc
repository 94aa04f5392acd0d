#include "src/net/http_client.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/support/http_script.h"

namespace rung::net {
namespace {

using test::HttpScript;

HttpClientOptions options_for(const HttpScript& server) {
  return {
      .base = server.url(), .connecting = std::chrono::seconds{10}, .answering = std::chrono::seconds{60}};
}

const HttpScript::Answer kFine{.body = "yes"};

TEST(HttpClient, SendsBytesWithContentTypeAndHeaders) {
  HttpScript server(kFine);
  HttpClientOptions options = options_for(server);
  options.content_type = "application/json";
  options.headers = {{"Authorization", "Bearer x"}, {"X-Empty", ""}};
  HttpClient client(options);
  const std::string bytes("\0\xff\n\0", 4);
  const HttpReply reply = client.send("POST", "/v1/traces", bytes);
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, "yes");
  ASSERT_EQ(server.requests().size(), 1u);
  auto request = server.requests()[0];
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.target, "/v1/traces");
  EXPECT_EQ(request.body, bytes);
  EXPECT_EQ(request.headers["content-type"], "application/json");
  EXPECT_EQ(request.headers["authorization"], "Bearer x");
  EXPECT_TRUE(request.headers.contains("x-empty"));
}

TEST(HttpClient, SendsBasicCredentials) {
  HttpScript server(kFine);
  HttpClientOptions options = options_for(server);
  options.user = "guest";
  options.password = "secret";
  HttpClient(options).send("GET", "/");
  EXPECT_EQ(server.requests().at(0).headers["authorization"], "Basic Z3Vlc3Q6c2VjcmV0");
}

TEST(HttpClient, DoesNotAskBeforeItSendsALargeBody) {
  HttpScript server(kFine);
  HttpClient client(options_for(server));
  const std::string large(4u << 20, 'x');
  EXPECT_EQ(client.send("POST", "/", large).status, 200);
  EXPECT_FALSE(server.requests().at(0).headers.contains("expect"));
  EXPECT_EQ(server.requests().at(0).body, large);
}

TEST(HttpClient, ReadsRetryAfter) {
  HttpScript server([](const HttpScript::Request& request, std::size_t) -> HttpScript::Answer {
    if (request.target == "/seconds") return {.status = 503, .headers = {{"Retry-After", "7"}}};
    if (request.target == "/past")
      return {.status = 503, .headers = {{"Retry-After", "Fri, 07 Nov 2014 23:59:59 GMT"}}};
    if (request.target == "/far")
      return {.status = 503, .headers = {{"Retry-After", "Fri, 07 Nov 2098 23:59:59 GMT"}}};
    return {.status = 503};
  });
  HttpClient client(options_for(server));
  EXPECT_EQ(client.send("GET", "/seconds").retry_after, std::chrono::seconds{7});
  EXPECT_EQ(client.send("GET", "/past").retry_after, Ms{0});
  EXPECT_EQ(client.send("GET", "/far").retry_after, std::chrono::hours{24});
  EXPECT_EQ(client.send("GET", "/none").retry_after, Ms{0});
}

TEST(HttpClient, InterruptEndsACallThatIsNotAnswered) {
  HttpScript server({.status = HttpScript::kSilent});
  HttpClient client(options_for(server));
  std::thread interrupter([&] {
    server.wait_for(1);
    client.interrupt();
  });
  const HttpReply reply = client.send("GET", "/");
  interrupter.join();
  EXPECT_EQ(reply.status, 0);
  EXPECT_EQ(reply.error, "does not answer in time");
  EXPECT_EQ(client.send("GET", "/").status, 0);  // nor any later one
  EXPECT_EQ(server.requests().size(), 1u);
}

// A peer that sends for ever takes no memory: what exceeds the limit ends the call.
TEST(HttpClient, AnAnswerIsBoundedInBytes) {
  HttpScript server([](const HttpScript::Request& request, std::size_t) -> HttpScript::Answer {
    if (request.target == "/body") return {.status = HttpScript::kEndlessBody};
    if (request.target == "/headers") return {.status = HttpScript::kEndlessHeaders};
    return {.status = 200, .body = std::string(request.target == "/fits" ? 60'000 : 70'000, 'x')};
  });
  HttpClient client(options_for(server));
  for (const auto* path : {"/body", "/headers", "/known-length"}) {
    const HttpReply reply = client.send("GET", path);
    EXPECT_EQ(reply.status, 0) << path;
    EXPECT_EQ(reply.error, "answers with more than 64 KB") << path;
    EXPECT_EQ(reply.body, "") << path;
  }
  EXPECT_EQ(client.send("GET", "/fits").body.size(), 60'000U) << "and the next call works";
}

TEST(HttpClient, SaysThatNobodyListens) {
  int port = 0;
  {
    const HttpScript gone(kFine);
    port = gone.port();
  }
  HttpClient client({.base = "http://127.0.0.1:" + std::to_string(port),
                     .connecting = Ms{10'000},
                     .answering = Ms{10'000}});
  EXPECT_EQ(client.send("GET", "/").error, "is not reachable");
}

}  // namespace
}  // namespace rung::net
