// Any instance answers for any task; and an instance that ends answers what it has begun.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "tests/integration/http/fixture.h"

namespace rung::test {
namespace {

// A request in pieces.
class SlowClient {
 public:
  explicit SlowClient(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    const timeval most{20, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
  }
  ~SlowClient() { close(fd_); }
  SlowClient(const SlowClient&) = delete;
  SlowClient& operator=(const SlowClient&) = delete;
  void send(const std::string& text) const {
    EXPECT_EQ(::send(fd_, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  // Until the other side ends.
  std::string rest() const {
    std::string out;
    char piece[4096];
    for (ssize_t n = 0; (n = recv(fd_, piece, sizeof piece, 0)) > 0;)
      out.append(piece, static_cast<std::size_t>(n));
    return out;
  }

 private:
  const int fd_;
};

class HttpInstances : public HttpTest {
 protected:
  HttpInstances() : other_port_(free_port()) {
    other_keys = "lease: 3s\n";
    listen("");
  }
  void both_up() {
    up();
    SidecarConfig second = config;
    second.node = "node-2";
    second.more = "http: { listen: \"127.0.0.1:" + std::to_string(other_port_) + "\" }\n" + other_keys;
    other_ = std::make_unique<Sidecar>(second);
    other_->start();
    ASSERT_TRUE(other_->wait_ready(kBound, 2));
    other_client_.emplace(other_port_);
    ASSERT_TRUE(ready(*other_client_));
    rows("SELECT 1");
    ASSERT_TRUE(eventually(
        [&] {
          return db.value(
                     "SELECT COUNT(*) FROM (SELECT owner FROM rung_shards WHERE owner > 0 GROUP BY owner "
                     "HAVING COUNT(*) = 32) x") == "2";
        },
        kBound));
  }
  HttpAnswer other(const std::string& method, const std::string& path,
                   const std::optional<std::string>& body = {}) {
    return checked(method, path, other_client_->call(method, path, body));
  }

  const int other_port_;
  std::unique_ptr<Sidecar> other_;
  std::optional<HttpClient> other_client_;
};

TEST_F(HttpInstances, AChangeOfAnothersTaskTakesEffectWithinASecond) {
  both_up();
  const std::string queue = new_name();
  amqp.declare(queue);
  for (int i = 0; i < 4; ++i) {
    const std::string id = submit({{"queue", queue}, {"delay", "1h"}});  // into a shard of the first
    EXPECT_EQ(other("GET", "/v1/tasks/" + id).json().at("node"), "node-1");
    const std::int64_t fired = wall_ms();
    ASSERT_EQ(other("POST", "/v1/tasks/" + id + "/fire").status, 200);
    const Received got = delivery(queue, Ms{5000});
    EXPECT_EQ(retry_id(got), id);
    EXPECT_LT(wall_ms() - fired, 1000) << "fired by the one that doesn't own it";
    amqp.ack(got);
  }
  const std::string id = submit({{"queue", queue}, {"delay", "1h"}});
  const std::int64_t now = wall_ms();
  ASSERT_EQ(other("POST", "/v1/tasks/" + id + "/reschedule", R"({"delay": "500ms"})").status, 200);
  EXPECT_EQ(retry_id(delivery(queue, Ms{5000})), id);
  EXPECT_GE(wall_ms(), now + 500);
  EXPECT_LT(wall_ms() - now, 1600);
}

TEST_F(HttpInstances, ACancelByAnotherIsKept) {
  both_up();
  const std::string queue = new_name();
  amqp.declare(queue);
  const std::string id = submit({{"queue", queue}, {"delay", "1200ms"}});
  EXPECT_EQ(other("POST", "/v1/tasks/" + id + "/cancel").status, 200);
  EXPECT_FALSE(amqp.get_within(queue, Ms{2500}));
  EXPECT_EQ(task(id).at("state"), "cancelled");
  // The same message-id at another instance is the same task.
  const json one = {{"queue", queue}, {"delay", "1h"}, {"message_id", "once"}};
  const std::string first = submit(one);
  const HttpAnswer again = other("POST", "/v1/tasks", one.dump());
  EXPECT_EQ(again.status, 200);
  EXPECT_EQ(again.json().at("retry_id"), first);
}

TEST_F(HttpInstances, AnotherGoesOnWithTheBulkOfADeadOne) {
  both_up();
  json tasks = json::array();
  for (int i = 0; i < 200; ++i) tasks.push_back({{"queue", "q"}, {"delay", "1h"}});
  ASSERT_EQ(post("/v1/tasks", tasks).status, 201);
  const HttpAnswer made =
      post("/v1/bulk", {{"action", "cancel"}, {"filter", {{"queue", "q"}}}, {"rate", 40}});
  ASSERT_EQ(made.status, 202);
  const std::string path = "/v1/bulk/" + made.json().at("id").dump();
  json bulk;
  ASSERT_TRUE(eventually(
      [&] {
        bulk = get(path).json();
        return bulk.at("done") > 10 && !bulk.at("runner").is_null();
      },
      kBound));
  const bool first_runs = bulk.at("runner").get<std::string>().find("node-1") != std::string::npos;
  (first_runs ? rung() : *other_).kill9();
  const auto ask = [&] { return first_runs ? other("GET", path).json() : get(path).json(); };
  EXPECT_TRUE(eventually([&] { return (bulk = ask()).at("state") == "done"; }, Ms{60'000})) << bulk.dump();
  EXPECT_EQ(bulk.at("applied"), 200);
  EXPECT_EQ(db.value("SELECT COUNT(*) FROM retry_audit"), "200");
}

TEST_F(HttpInstances, ADrainAnswersWhatItHasTaken) {
  other_keys.clear();
  listen("");
  up();
  // Many at once, and SIGTERM in their midst: what was answered 201 is there, what wasn't says so.
  std::atomic<int> created{0}, later{0}, none{0}, odd{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      HttpClient mine(port);
      for (int i = 0; i < 400; ++i) {
        const HttpAnswer answer = mine.call(
            "POST", "/v1/tasks",
            json{{"queue", "q"}, {"delay", "1h"}, {"message_id", std::to_string(t * 1000 + i)}}.dump());
        (answer.status == 201 ? created : answer.status == 503 ? later : answer.status == 0 ? none : odd)++;
        if (answer.status != 201) return;
      }
    });
  }
  ASSERT_TRUE(eventually([&] { return created > 100; }, kBound));
  rung().signal(SIGTERM);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(rung().wait_exit(), 0);
  EXPECT_EQ(odd, 0);
  rows("SELECT 1");
  EXPECT_EQ(db.value("SELECT COUNT(*) FROM retry_current"), std::to_string(created))
      << "201: " << created << ", 503: " << later << ", no answer: " << none;
}

TEST_F(HttpInstances, ADrainWaitsForARequestThatHasBegun) {
  other_keys.clear();
  listen("");
  up();
  const std::string task = R"({"queue": "q", "delay": "1h"})";
  const std::string head =
      "POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
      std::to_string(task.size()) + "\r\n\r\n";
  SlowClient writes(port), asks(port);
  writes.send(head + task.substr(0, 5));
  asks.send("GET /healthz HTTP/1.1\r\nHost: loc");
  // Both have been taken by a thread: a request after them is answered.
  EXPECT_EQ(HttpClient(port).call("GET", "/healthz").status, 200);
  rung().signal(SIGTERM);
  ASSERT_TRUE(rung().logged("draining"));
  ASSERT_TRUE(eventually(
      [&] { return db.value("SELECT COUNT(*) FROM `" + db.name() + "`.rung_shards WHERE owner > 0") == "0"; },
      kBound))
      << "idle, it has given its shards back";
  writes.send(task.substr(5));
  asks.send("alhost\r\n\r\n");
  EXPECT_THAT(writes.rest(), HasSubstr("HTTP/1.1 503"));
  EXPECT_THAT(asks.rest(), HasSubstr("HTTP/1.1 200"));
  EXPECT_EQ(rung().wait_exit(), 0);
  EXPECT_THAT(rung().log(), testing::Not(HasSubstr("a call that hangs")));
}

}  // namespace
}  // namespace rung::test
