// An instance that stops answers the requests that it has begun.
#include <atomic>
#include <csignal>
#include <memory>
#include <mutex>
#include <thread>

#include "tests/integration/http/fixture.h"
#include "tests/integration/http/slow_client.h"

namespace rung::test {
namespace {

class HttpDrain : public HttpTest {
 protected:
  HttpDrain() {
    other_keys = "drain: 10m\n";
    listen("");
  }
};

TEST_F(HttpDrain, AnswersWhatItHasTaken) {
  up();
  // Many requests at once, and SIGTERM among them: tasks answered with 201 exist; all other requests get an
  // error.
  std::atomic<int> created{0}, later{0}, none{0};
  std::mutex mutex;
  std::vector<std::string> odd;  // guarded by mutex
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      HttpClient mine(port);
      for (int i = 0; i < 400; ++i) {
        const HttpAnswer answer = mine.call(
            "POST", "/v1/tasks",
            json{{"queue", "q"}, {"delay", "1h"}, {"message_id", std::to_string(t * 1000 + i)}}.dump());
        if (answer.status == 201) {
          ++created;
          continue;
        }
        if (answer.status == 503 || answer.status == 0) {
          ++(answer.status == 503 ? later : none);
        } else {
          const std::lock_guard lock(mutex);
          odd.push_back(std::to_string(answer.status) + " " + answer.body);
        }
        return;
      }
    });
  }
  ASSERT_TRUE(eventually([&] { return created > 100; }));
  rung().signal(SIGTERM);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(rung().wait_exit(), 0);
  EXPECT_THAT(odd, testing::IsEmpty());
  rows("SELECT 1");
  EXPECT_EQ(db.value("SELECT COUNT(*) FROM retry_current"), std::to_string(created))
      << "201: " << created << ", 503: " << later << ", no answer: " << none;
}

const std::string kSlowTask = R"({"queue": "q", "delay": "1h"})";
const std::string kSlowHead =
    "POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
    std::to_string(kSlowTask.size()) + "\r\n\r\n";

// At the signal, each request's header has arrived but no thread has taken it; its body comes afterwards.
TEST_F(HttpDrain, TakesNoArrivingRequestForAnIdleConnection) {
  up();
  std::vector<std::unique_ptr<SlowClient>> clients;
  for (int i = 0; i < 40; ++i) {
    clients.push_back(std::make_unique<SlowClient>(port));
    clients.back()->send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    ASSERT_THAT(clients.back()->rest("\"ok\"}"), HasSubstr("HTTP/1.1 200"));
  }
  rung().signal(SIGSTOP);
  for (const auto& client : clients) client->send(kSlowHead);
  rung().signal(SIGTERM);
  rung().signal(SIGCONT);
  ASSERT_TRUE(rung().logged("draining"));
  for (const auto& client : clients) client->send(kSlowTask);
  for (const auto& client : clients)
    EXPECT_THAT(client->rest(), testing::AnyOf(HasSubstr("HTTP/1.1 503"), HasSubstr("HTTP/1.1 201")));
  EXPECT_EQ(rung().wait_exit(), 0);
}

TEST_F(HttpDrain, WaitsForARequestThatHasBegun) {
  up();
  SlowClient writes(port), asks(port);
  writes.send(kSlowHead + kSlowTask.substr(0, 5));
  asks.send("GET /healthz HTTP/1.1\r\nHost: loc");
  // Both connections have been taken: a request after them is answered.
  EXPECT_EQ(HttpClient(port).call("GET", "/healthz").status, 200);
  rung().signal(SIGTERM);
  ASSERT_TRUE(rung().logged("draining"));
  ASSERT_TRUE(eventually([&] {
    return db.value("SELECT COUNT(*) FROM `" + db.name() + "`.rung_shards WHERE owner > 0") == "0";
  })) << "idle, it has given its shards back";
  writes.send(kSlowTask.substr(5));
  asks.send("alhost\r\n\r\n");
  EXPECT_THAT(writes.rest(), HasSubstr("HTTP/1.1 503"));
  EXPECT_THAT(asks.rest(), HasSubstr("HTTP/1.1 200"));
  EXPECT_EQ(rung().wait_exit(), 0);
  EXPECT_THAT(rung().log(), testing::Not(HasSubstr("a blocked call")));
}

// ---- The memory limit for large bodies of all requests together.

class HttpMemory : public HttpTest {
 protected:
  static constexpr std::size_t kBody = 8 << 20;
};

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
  EXPECT_TRUE(eventually([&] { return get(path + "message").status == 200; }))
      << "what was held is given back";
}

}  // namespace
}  // namespace rung::test
