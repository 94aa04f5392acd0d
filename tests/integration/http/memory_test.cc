// The memory limit for large bodies of all requests together.
#include <memory>

#include "tests/integration/http/fixture.h"
#include "tests/integration/http/slow_client.h"

namespace rung::test {
namespace {

class HttpMemory : public HttpTest {
 protected:
  static constexpr std::size_t kBody = 8 << 20;
  static constexpr int kRequests = 24;

  static std::string head(std::size_t length) {
    return "POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: "
           "application/json\r\n"
           "Expect: 100-continue\r\nContent-Length: " +
           std::to_string(length) + "\r\n\r\n";
  }
};

TEST_F(HttpMemory, BodiesBeyondTheBudgetAreRefusedBeforeTheyAreSent) {
  up();
  std::vector<std::unique_ptr<SlowClient>> clients;
  int admitted = 0, refused = 0;
  for (int i = 0; i < kRequests; ++i) {
    clients.push_back(std::make_unique<SlowClient>(port));
    clients.back()->send(head(kBody));
    const std::string answer = clients.back()->rest("\r\n\r\n");
    admitted += answer.starts_with("HTTP/1.1 100 ") ? 1 : 0;
    const bool no =
        answer.starts_with("HTTP/1.1 503 ") && answer.find("Retry-After: 1\r\n") != std::string::npos;
    refused += no ? 1 : 0;
  }
  EXPECT_EQ(admitted, 8) << "64 MB of 8 MB each";
  EXPECT_EQ(refused, kRequests - 8);
  EXPECT_EQ(call("POST", "/v1/tasks", R"({"queue": "q", "delay": "1h"})").status, 201)
      << "a small one always";
  // Bodies without a length count as they come.
  const SlowClient chunked(port);
  chunked.send(
      "POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: chunked\r\n\r\n40000\r\n" +
      std::string(0x40000, 'x'));
  EXPECT_THAT(chunked.rest(), HasSubstr("HTTP/1.1 503"));
  clients.clear();
  const auto room = [&] {
    const SlowClient next(port);
    next.send(head(kBody));
    return next.rest("\r\n\r\n").starts_with("HTTP/1.1 100 ");
  };
  EXPECT_TRUE(eventually(room, kBound)) << "what was held is given back";
}

// Nobody reads them, and none is late: how many are answered follows from their sizes alone.
TEST_F(HttpMemory, ResponsesBeyondTheBudgetAreRefused) {
  up();
  const std::string id = submit({{"queue", "q"}, {"delay", "1h"}, {"body", std::string(kBody, 'x')}});
  const std::string path = "/v1/tasks/" + id + "/";
  std::vector<std::unique_ptr<SlowClient>> clients;
  const auto status_of = [&](const std::string& what) {
    clients.push_back(std::make_unique<SlowClient>(port));
    clients.back()->send("GET " + path + what + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    return clients.back()->rest("\r\n\r\n").substr(9, 3);
  };
  // 11 MB each, in base64.
  for (int i = 0; i < 5; ++i) EXPECT_EQ(status_of("message"), "200") << i;
  EXPECT_EQ(status_of("message"), "503");
  EXPECT_EQ(status_of("body"), "200") << "8 MB: 64 in all";
  EXPECT_EQ(status_of("body"), "503");
  EXPECT_EQ(get("/v1/tasks/" + id).status, 200) << "a small one always";
  json tasks = json::array();
  for (int i = 0; i < 200; ++i) tasks.push_back({{"queue", "q"}, {"delay", "1h"}});
  const HttpAnswer made = post("/v1/tasks", tasks);
  EXPECT_EQ(made.status, 201) << "what was done is said";
  EXPECT_GT(made.body.size(), 64U << 10);
  clients.clear();
  EXPECT_TRUE(eventually([&] { return get(path + "message").status == 200; }, kBound))
      << "what was held is given back";
}

}  // namespace
}  // namespace rung::test
