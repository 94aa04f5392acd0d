// rung healthcheck: exit codes and output, against a server that answers as a sidecar does.
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "src/sidecar/sidecar.h"
#include "tests/support/http_script.h"
#include "tests/support/program.h"
#include "tests/support/silent.h"

namespace rung::cli {
namespace {

using test::HttpScript;

std::string url_for(const std::string& host, int port, const std::string& cert = "") {
  HttpOptions http;
  http.listen.emplace().host = host;
  http.listen->port = port;
  http.cert = cert;
  return sidecar::own_url(http);
}

TEST(OwnUrl, NamesAnAddressThatAClientCanConnectTo) {
  EXPECT_EQ(url_for("127.0.0.1", 8025), "http://127.0.0.1:8025");
  EXPECT_EQ(url_for("0.0.0.0", 8025), "http://127.0.0.1:8025");
  EXPECT_EQ(url_for("::", 8025), "http://[::1]:8025");
  EXPECT_EQ(url_for("10.1.2.3", 80, "http.pem"), "https://10.1.2.3:80");
}

class Healthcheck : public ::testing::Test {
 protected:
  Healthcheck() {
    char folder[] = "/tmp/rung-cli-XXXXXX";
    folder_ = mkdtemp(folder);
    unsetenv("RUNG_GROUP");
  }
  ~Healthcheck() override { std::filesystem::remove_all(folder_); }

  // The variables of the servers' URLs are not set: a check of the sidecar's health needs no password.
  Ran check(const std::string& http, const std::vector<std::string>& more = {},
            const std::string& servers =
                "broker: { url: \"${RUNG_NOT_SET}\" }\n"
                "store: { url: \"${RUNG_NOT_SET}\", password_file: /no/such }\n") {
    std::ofstream(folder_ / "rung.yaml") << servers << http << "\n";
    std::vector<std::string> words = {RUNG_TEST_PROGRAM, "healthcheck", "-c", folder_ / "rung.yaml"};
    words.insert(words.end(), more.begin(), more.end());
    return run_program(words);
  }
  static std::string listen(int port) {
    return "http: { listen: \"127.0.0.1:" + std::to_string(port) + "\" }";
  }

  std::filesystem::path folder_;
};

TEST_F(Healthcheck, AReadySidecarIsExit0) {
  HttpScript server({.body = R"({"status":"ready"})"});
  const Ran ready = check(listen(server.port()));
  EXPECT_EQ(ready.exit, 0) << ready.err;
  EXPECT_EQ(ready.out, "ready\n");
  EXPECT_EQ(check(listen(server.port()), {"--live"}).out, "live\n");
  EXPECT_EQ(check(listen(server.port()), {"--json"}).out, "{\"status\":\"ready\"}\n");
  const auto requests = server.requests();
  ASSERT_EQ(requests.size(), 3U);
  EXPECT_EQ(requests[0].target, "/readyz");
  EXPECT_EQ(requests[1].target, "/healthz");
  EXPECT_FALSE(requests[0].headers.contains("authorization"));
}

TEST_F(Healthcheck, ANotReadySidecarSaysWhyAndIsExit1) {
  HttpScript server({.status = 503, .body = R"({"detail":"not ready: database",
      "problems":[{"name":"database","detail":"does not answer","since":"2026-01-01T00:00:00Z"}]})"});
  const Ran ran = check(listen(server.port()));
  EXPECT_EQ(ran.exit, 1);
  EXPECT_EQ(ran.out, "");
  EXPECT_EQ(ran.err, "rung: not ready: database\nrung: database: does not answer\n");
  HttpScript another({.status = 404, .body = "[not json"});
  const Ran strange = check(listen(another.port()));
  EXPECT_EQ(strange.exit, 1);
  EXPECT_EQ(strange.err, "rung: status 404\n");
}

TEST_F(Healthcheck, NoAnswerIsExit2) {
  const Ran away = check(listen(1));
  EXPECT_EQ(away.exit, 2);
  EXPECT_EQ(away.err, "rung: http://127.0.0.1:1 is not reachable\n");
  const test::SilentPort silent;
  const Ran hung = check(listen(silent.port()), {"--timeout", "200ms"});
  EXPECT_EQ(hung.exit, 2);
  EXPECT_THAT(hung.err, ::testing::HasSubstr("does not answer in time"));
  EXPECT_EQ(check(listen(silent.port()), {"--timeout", "1ms"}).exit, 2) << "the shortest, not: no limit";
}

TEST_F(Healthcheck, NeedsAnAddressAndAGroup) {
  const Ran nowhere = check("");
  EXPECT_EQ(nowhere.exit, 1);
  EXPECT_THAT(nowhere.err, ::testing::HasSubstr("http.listen is not set"));
  const std::string groups =
      "broker: { url: \"${RUNG_NOT_SET}\" }\n"
      "groups:\n"
      "  eu: { queues: [a], store: { url: \"${RUNG_NOT_SET}\" }, http: { listen: \"127.0.0.1:1\" } }\n"
      "  us: { queues: [b], store: { url: \"${RUNG_NOT_SET}\" } }\n";
  const Ran unnamed = check(listen(2), {}, groups);
  EXPECT_EQ(unnamed.exit, 1);
  EXPECT_THAT(unnamed.err, ::testing::HasSubstr("eu, us"));
  EXPECT_EQ(check(listen(2), {"--group", "eu"}, groups).err, "rung: http://127.0.0.1:1 is not reachable\n");
  EXPECT_EQ(check(listen(2), {"--group", "us"}, groups).err, "rung: http://127.0.0.1:2 is not reachable\n");
}

}  // namespace
}  // namespace rung::cli
