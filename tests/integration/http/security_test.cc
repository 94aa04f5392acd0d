// TLS, and attacks by a browser or a slow client. Malformed and large requests: RequestReader in
// tests/unit/http; tokens: Access there, and HttpPeople.
#include <memory>
#include <sstream>

#include "tests/integration/http/fixture.h"
#include "tests/integration/http/slow_client.h"
#include "tests/support/snapshot.h"

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
  std::string raw(const std::string& bytes, Ms within = kBound) { return send_raw(port, bytes, within); }
  static std::string request(const std::string& line, const std::string& headers = "",
                             const std::string& body = "") {
    return line + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + headers + "\r\n" + body;
  }
};

const std::string kTask = R"({"queue": "q", "delay": "1h"})";

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

TEST_F(HttpSecurity, APortThatIsTakenIsTold) {
  up();
  SidecarConfig second = config;
  second.node = "node-2";
  Sidecar other(second);
  other.start();
  EXPECT_EQ(other.wait_exit(), 1);
  EXPECT_THAT(other.log(), HasSubstr("cannot listen on 127.0.0.1:" + std::to_string(port)));
}

TEST_F(HttpSecurity, WhoIsSlowIsToldSoAndDoesNotStay) {
  listen(", timeout: 1s");
  up();
  EXPECT_THAT(raw("GET /healthz HTTP/1.1\r\nHost: loc"), HasSubstr("HTTP/1.1 408"));
  EXPECT_THAT(
      raw(request("POST /v1/tasks", "Content-Type: application/json\r\nContent-Length: 50\r\n", "{\"qu")),
      HasSubstr("HTTP/1.1 408"));
  EXPECT_TRUE(eventually([&] { return get("/healthz").status == 200; }));
}

TEST_F(HttpSecurity, ProbesAreAnsweredWhileHalfSentRequestsTakeAllConnections) {
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

// ---- What the API says to wrong requests: refusals.txt has each request, and the status and the detail of
// its answer.

class HttpRefusals : public HttpTest {};

TEST_F(HttpRefusals, SayWhatIsWrongAndWhatWouldBeRight) {
  config.ladders = "  slow: [1h]\n";
  up();
  std::istringstream lines(text_of_file(RUNG_REFUSALS));
  std::string said;
  for (std::string line; std::getline(lines, line); std::getline(lines, line), std::getline(lines, line)) {
    std::string method, path, body, actual = line;
    replace_all(actual, "PREFIX", config.prefix);
    std::istringstream words(actual);
    words >> method >> path >> std::ws;
    std::getline(words, body);
    const HttpAnswer answer = call(method, path, body.empty() ? std::nullopt : std::optional(body));
    std::string detail = refused(answer, answer.status);
    replace_all(detail, config.prefix, "PREFIX");
    said += (said.empty() ? "" : "\n") + line + "\n" + std::to_string(answer.status) + " " + detail + "\n";
  }
  expect_snapshot(RUNG_REFUSALS, said);
  EXPECT_EQ(db.value("SELECT COUNT(*) FROM retry_current"), "0") << "nothing was done";
  EXPECT_EQ(db.value("SELECT COUNT(*) FROM retry_audit"), "0");
}

}  // namespace
}  // namespace rung::test
