// Tokens, TLS, limits, and attacks by a browser or a broken client.
#include <memory>

#include "tests/integration/http/fixture.h"
#include "tests/integration/http/slow_client.h"

namespace rung::test {
namespace {

class HttpSecurity : public HttpTest {
 protected:
  static std::string env(const char* name) {
    const char* value = std::getenv(name);
    if (value == nullptr)
      throw std::runtime_error(std::string(name) + " is not set: run the tests by tests/run");
    return value;
  }
  static HttpClient::Headers bearer(const std::string& token) {
    return {{"Authorization", "Bearer " + token}};
  }
  std::string raw(const std::string& bytes, Ms within = kBound) { return send_raw(port, bytes, within); }
  static std::string request(const std::string& line, const std::string& headers = "",
                             const std::string& body = "") {
    return line + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + headers + "\r\n" + body;
  }
};

const std::string kTask = R"({"queue": "q", "delay": "1h"})";

TEST_F(HttpSecurity, TokensFullAndReading) {
  listen(", token_file: " + yaml(file("full", "full-token-1\n")) +
         ", read_token_file: " + yaml(file("read", "read-token-2\n")));
  up();
  const std::string id =
      call("POST", "/v1/tasks", kTask, bearer("full-token-1")).json().value("retry_id", "0");
  EXPECT_NE(id, "0");
  EXPECT_EQ(call("GET", "/v1/tasks/" + id, {}, bearer("full-token-1")).status, 200);
  EXPECT_EQ(call("GET", "/v1/tasks/" + id, {}, bearer("read-token-2")).status, 200);
  EXPECT_EQ(call("GET", "/metrics", {}, bearer("read-token-2")).status, 200);
  for (const auto* path : {"/v1/tasks", "/v1/bulks", "/v1/bulks/1/abort"})
    EXPECT_THAT(refused(call("POST", path, kTask, bearer("read-token-2")), 403), HasSubstr("read-only"))
        << path;
  for (const auto* what : {"cancel", "fire", "redrive", "finish", "reschedule"})
    EXPECT_EQ(call("POST", "/v1/tasks/" + id + "/" + what, {}, bearer("read-token-2")).status, 403) << what;

  for (const auto* method : {"GET", "POST"}) {
    const HttpAnswer none = call(method, "/v1/tasks");
    EXPECT_THAT(refused(none, 401), HasSubstr("a token is required"));
    EXPECT_EQ(none.header("www-authenticate"), "Bearer realm=\"rung\"");
  }
  for (const auto* token : {"", "x", "full-token-", "full-token-12", "full-token-1 x", "FULL-TOKEN-1"}) {
    EXPECT_EQ(call("POST", "/v1/tasks", kTask, bearer(token)).status, 401) << token;
    EXPECT_EQ(call("GET", "/v1/nothing", {}, bearer(token)).status, 401) << token;
  }
  EXPECT_EQ(call("GET", "/v1/tasks", {}, {{"Authorization", "Basic full-token-1"}}).status, 401);
  EXPECT_EQ(call("GET", "/v1/tasks?token=full-token-1").status, 401);
  for (const auto* path : {"/healthz", "/readyz", "/openapi.json"}) EXPECT_EQ(get(path).status, 200) << path;

  ASSERT_EQ(call("POST", "/v1/tasks/" + id + "/cancel", {}, bearer("full-token-1")).status, 200);
  EXPECT_EQ(
      call("GET", "/v1/tasks/" + id + "/audit", {}, bearer("read-token-2")).json().at("changes")[0].at("who"),
      "token full, 127.0.0.1 (http)");
  EXPECT_THAT(rung().log(), testing::Not(HasSubstr("full-token-1")));
  EXPECT_THAT(rung().log(), testing::Not(HasSubstr("read-token-2")));
}

TEST_F(HttpSecurity, WithoutATokenNoForeignPageReachesIt) {
  up();
  EXPECT_EQ(call("GET", "/v1/tasks", {}, {{"Host", "localhost:1"}}).status, 200);
  EXPECT_EQ(call("GET", "/v1/tasks", {}, {{"Host", "[::1]:1"}}).status, 200);
  for (const auto* host : {"evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "[::2]"})
    EXPECT_THAT(refused(call("GET", "/v1/tasks", {}, {{"Host", host}}), 403), HasSubstr("the Host must be"))
        << host;
  EXPECT_THAT(refused(call("POST", "/v1/tasks", kTask, {{"Origin", "http://evil.example"}}), 403),
              HasSubstr("another origin"));
  EXPECT_EQ(call("POST", "/v1/tasks", kTask, {{"Origin", "null"}}).status, 403);
  // A form on a web page can send these without a preflight request.
  for (const auto* type :
       {"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"})
    EXPECT_THAT(refused(call("POST", "/v1/tasks", kTask, {{"Content-Type", type}}), 415),
                HasSubstr("application/json"));
  EXPECT_EQ(call("POST", "/v1/tasks", kTask, {{"Content-Type", "application/json; charset=utf-8"}}).status,
            201);
  EXPECT_EQ(call("POST", "/v1/tasks", kTask, {{"Content-Encoding", "gzip"}}).status, 415);
}

TEST_F(HttpSecurity, Tls) {
  const std::string folder = env("RUNG_TEST_DIR") + "/tls/";
  std::string cert;
  for (const auto* name : {"server.pem", "broker.pem", "server-cert.pem"}) {
    if (std::filesystem::exists(folder + name)) cert = folder + name;
  }
  ASSERT_FALSE(cert.empty()) << folder;
  std::string key = cert.substr(0, cert.size() - 3) + "key";
  listen(", cert: " + yaml(cert) + ", key: " + yaml(key));
  start();
  HttpClient tls(port, "localhost", env("RUNG_TEST_CA"));
  ASSERT_TRUE(ready(tls));
  EXPECT_EQ(checked("POST", "/v1/tasks", tls.call("POST", "/v1/tasks", kTask)).status, 201);
  EXPECT_EQ(checked("GET", "/v1/tasks", tls.call("GET", "/v1/tasks")).status, 200);
  // Larger than a TLS record, both ways.
  json many = json::array();
  for (int i = 0; i < 500; ++i)
    many.push_back({{"queue", "q"}, {"delay", "1h"}, {"body", std::string(200, 'b')}});
  EXPECT_EQ(checked("POST", "/v1/tasks", tls.call("POST", "/v1/tasks", many.dump())).status, 201);
  EXPECT_EQ(raw(request("GET /healthz")).find("HTTP/1.1 200"), std::string::npos) << "plain at a TLS port";
  // Authenticated encryption and forward secrecy only.
  const auto handshake = [&](const std::string& options) {
    return run_shell("openssl s_client -connect 127.0.0.1:" + std::to_string(port) + " -CAfile " +
                     env("RUNG_TEST_CA") + " " + options + " </dev/null 2>&1")
        .code;
  };
  EXPECT_EQ(handshake("-tls1_3"), 0);
  for (const auto* suite : {"ECDHE+AESGCM", "ECDHE+CHACHA20"})
    EXPECT_EQ(handshake("-tls1_2 -cipher " + std::string(suite)), 0) << suite;
  for (const auto* suite : {"ECDHE-RSA-AES256-SHA384:ECDHE-ECDSA-AES256-SHA384",
                            "ECDHE-RSA-AES128-SHA:ECDHE-ECDSA-AES128-SHA", "AES128-GCM-SHA256", "AES128-SHA"})
    EXPECT_NE(handshake("-tls1_2 -cipher " + std::string(suite) + ":@SECLEVEL=0"), 0) << suite;
  EXPECT_NE(handshake("-tls1_1 -cipher ALL:@SECLEVEL=0"), 0);
  EXPECT_EQ(checked("GET", "/v1/tasks", tls.call("GET", "/v1/tasks")).status, 200);
}

TEST_F(HttpSecurity, AKeyThatDoesNotFitIsTold) {
  const std::string wrong = file("wrong.pem", "no certificate\n");
  listen(", cert: " + yaml(wrong) + ", key: " + yaml(wrong));
  sidecar_ = std::make_unique<Sidecar>(config);
  rung().start();
  EXPECT_EQ(rung().wait_exit(), 1);
  EXPECT_THAT(rung().log(), HasSubstr("http.cert: "));
}

TEST_F(HttpSecurity, APortThatIsTakenIsTold) {
  up();
  SidecarConfig second = config;
  second.node = "node-2";
  Sidecar other(second);
  other.start();
  EXPECT_EQ(other.wait_exit(), 1);
  EXPECT_THAT(other.log(), HasSubstr("cannot listen on 127.0.0.1:" + std::to_string(port)));
}

TEST_F(HttpSecurity, LimitsOfBodyAndHeader) {
  listen(", max_body: 1");
  up();
  const std::string large(1'100'000, 'x');
  EXPECT_THAT(refused(call("POST", "/v1/tasks", large), 413), HasSubstr("http.max_body"));
  EXPECT_EQ(call("POST", "/v1/tasks", "\"" + std::string(1'000'000, 'x') + "\"").status, 400)
      << "no task, but taken";
  // Announced by chunks, its size is not known before.
  std::string chunks;
  for (int i = 0; i < 40; ++i) chunks += "10000\r\n" + std::string(0x10000, 'x') + "\r\n";
  EXPECT_THAT(raw(request("POST /v1/tasks",
                          "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n", chunks)),
              HasSubstr("HTTP/1.1 413"));
  const std::string small = "1d\r\n" + kTask + "\r\n0\r\n\r\n";
  ASSERT_EQ(kTask.size(), 0x1dU);
  EXPECT_THAT(raw(request("POST /v1/tasks",
                          "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n", small)),
              HasSubstr("HTTP/1.1 201"));

  // Its frame leaves no room for more than is allowed.
  const auto chunk = [](std::size_t size) {
    char digits[20];
    std::snprintf(digits, sizeof digits, "%zx", size);
    return digits + ("\r\n" + std::string(size, 'x')) + "\r\n0\r\n\r\n";
  };
  const std::string by_chunks = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n";
  EXPECT_THAT(raw(request("POST /v1/tasks", by_chunks, chunk((1 << 20) + 1))), HasSubstr("HTTP/1.1 413"));
  EXPECT_THAT(raw(request("POST /v1/tasks", by_chunks, chunk(1 << 20))), HasSubstr("HTTP/1.1 400"));

  EXPECT_THAT(raw(request("GET /healthz", "X: " + std::string(9'000, 'h') + "\r\n")),
              HasSubstr("HTTP/1.1 200"));
  EXPECT_THAT(raw(request("GET /healthz", "X: " + std::string(20'000, 'h') + "\r\n")),
              HasSubstr("HTTP/1.1 431"));
  std::string lines;
  for (int i = 0; i < 200; ++i) lines += "A" + std::to_string(i) + ": b\r\n";
  EXPECT_THAT(raw(request("GET /healthz", lines)), HasSubstr("HTTP/1.1 431"));
  EXPECT_THAT(raw(request("GET /" + std::string(5000, 'a'))), HasSubstr("HTTP/1.1 404"));
}

TEST_F(HttpSecurity, WhoIsSlowIsToldSoAndDoesNotStay) {
  listen(", timeout: 1s");
  up();
  EXPECT_THAT(raw("GET /healthz HTTP/1.1\r\nHost: loc"), HasSubstr("HTTP/1.1 408"));
  EXPECT_THAT(
      raw(request("POST /v1/tasks", "Content-Type: application/json\r\nContent-Length: 50\r\n", "{\"qu")),
      HasSubstr("HTTP/1.1 408"));
  EXPECT_EQ(get("/healthz").status, 200);
}

TEST_F(HttpSecurity, WhatIsNoProperRequest) {
  up();
  const std::string json_type = "Content-Type: application/json\r\n";
  EXPECT_THAT(raw("nonsense\r\n\r\n"), HasSubstr("HTTP/1.1 400"));
  EXPECT_THAT(raw("GET / HTTP/3.0\r\n\r\n"), HasSubstr("HTTP/1.1 400"));
  EXPECT_THAT(raw(request("POST /v1/tasks", json_type + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
                          "0\r\n\r\n")),
              HasSubstr("HTTP/1.1 400"));
  EXPECT_THAT(
      raw(request("POST /v1/tasks", json_type + "Content-Length: 5\r\nContent-Length: 6\r\n", "12345")),
      HasSubstr("HTTP/1.1 400"));
  EXPECT_THAT(raw(request("POST /v1/tasks", json_type + "Content-Length: -5\r\n")),
              HasSubstr("HTTP/1.1 400"));
  EXPECT_THAT(raw(request("POST /v1/tasks", json_type + "Content-Length: 1e3\r\n")),
              HasSubstr("HTTP/1.1 400"));
  EXPECT_THAT(raw(request("POST /v1/tasks", json_type + "Transfer-Encoding: gzip\r\n", "x")),
              HasSubstr("HTTP/1.1 501"));
  EXPECT_THAT(raw(request("GET /v1/tasks", "Content-Length: 2\r\n", "{}")),
              HasSubstr("GET must not have a body"));
  EXPECT_THAT(raw(request("TRACE /v1/tasks")), HasSubstr("HTTP/1.1 405"));
  EXPECT_THAT(raw(request("GET /healthz", "Range: bytes=0-3\r\nAccept-Encoding: br\r\n")),
              HasSubstr("{\"status\":\"ok\"}"));
  EXPECT_THAT(raw(request("GET /v1/../healthz")), HasSubstr("HTTP/1.1 404"));
  EXPECT_THAT(raw(request("GET /v1/tasks/%00%0d%0a")), HasSubstr("HTTP/1.1 404"));
  // A refused body is not parsed as the next request.
  const std::string hidden = "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const std::string answers =
      raw("POST /v1/nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(hidden.size()) +
          "\r\n\r\n" + hidden);
  EXPECT_THAT(answers, HasSubstr("HTTP/1.1 404"));
  EXPECT_EQ(answers.find("openapi\":"), std::string::npos);
  // Two on one connection, sent at once: two answers in their order.
  const std::string both = raw("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" + request("GET /v1/bulks"));
  EXPECT_LT(both.find("{\"status\":\"ok\"}"), both.find("\"bulks\""));
  EXPECT_NE(both.find("\"bulks\""), std::string::npos);
  EXPECT_EQ(get("/healthz").status, 200);
}

TEST_F(HttpSecurity, ATokenIsTakenAsItStands) {
  listen(", token_file: " + yaml(file("t", "a%41+b%\n")));
  up();
  EXPECT_EQ(call("GET", "/v1/tasks", {}, {{"Authorization", "bearer a%41+b%"}}).status, 200);
  EXPECT_EQ(call("GET", "/v1/tasks", {}, bearer("aA+b%")).status, 401);
}

TEST_F(HttpSecurity, AKeyWithAPasswordIsNotAskedFor) {
  ASSERT_EQ(run_shell("openssl req -x509 -newkey rsa:2048 -keyout " + file("k.pem", "") + " -out " +
                      file("c.pem", "") + " -passout pass:secret -subj /CN=x 2>&1")
                .code,
            0);
  listen(", cert: " + yaml(file_path("c.pem")) + ", key: " + yaml(file_path("k.pem")));
  sidecar_ = std::make_unique<Sidecar>(config);
  rung().start();
  EXPECT_EQ(rung().wait_exit(), 1);
  EXPECT_THAT(rung().log(), HasSubstr("without a password"));
}

TEST_F(HttpSecurity, ConnectionsAreBounded) {
  listen(", connections: 4, connections_per_address: 4, timeout: 2m");
  up();
  // Idle connections are closed to make room for a new one.
  std::vector<HttpClient> idle;
  for (int i = 0; i < 8; ++i) {
    idle.emplace_back(port);
    EXPECT_EQ(idle.back().call("GET", "/healthz").status, 200) << i;
  }
  // Those that are at one don't: the next is told to come again, but whoever asks whether it lives: it does.
  std::vector<std::unique_ptr<SlowClient>> busy(4);
  const auto says = [&](const char* path, const char* what) {
    return raw(request(std::string("GET ") + path)).find(what) != std::string::npos;
  };
  const auto saturated = [&] {
    // One that came while another connection was just ending was taken as a spare: it is told that it is too
    // slow, or turned away, and tries again.
    for (auto& one : busy) {
      if (one != nullptr && !one->heard()) continue;
      one = std::make_unique<SlowClient>(port);
      one->send("POST /v1/tasks HTTP/1.1\r\nHost: a\r\n");
    }
    return says("/v1/tasks", "HTTP/1.1 503") && says("/healthz", "HTTP/1.1 200") &&
           says("/readyz", "HTTP/1.1 200") && says("/metrics", "HTTP/1.1 200") &&
           says("/v1/bulks", "http.connections");
  };
  EXPECT_TRUE(eventually(saturated, kBound));
  busy.clear();
  EXPECT_TRUE(eventually([&] { return HttpClient(port).call("GET", "/v1/tasks").status == 200; }, kBound));
}

TEST_F(HttpSecurity, ProbesAreAnsweredWhileHalfSentRequestsTakeAllConnections) {
  listen(", timeout: 2m");
  up();
  std::vector<std::unique_ptr<SlowClient>> half_sent(100);
  const auto attack = [&] {
    for (auto& one : half_sent) {
      if (one != nullptr && !one->heard()) continue;
      one = std::make_unique<SlowClient>(port);
      one->send("POST /v1/tasks HTTP/1.1\r\nHost: a\r\n");
    }
  };
  for (int i = 0; i < 100; ++i) {
    attack();  // all of them again, also those that were ended for a probe
    const std::string path = i % 10 == 1 ? "/metrics" : i % 10 == 2 ? "/readyz" : "/healthz";
    ASSERT_THAT(raw(request("GET " + path)), HasSubstr("HTTP/1.1 200")) << path << ", try " << i;
  }
  EXPECT_THAT(raw(request("GET /v1/tasks")), HasSubstr("HTTP/1.1 503")) << "the attack was one";
}

}  // namespace
}  // namespace rung::test
