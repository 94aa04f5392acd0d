// Any instance answers for any task; and an instance that stops answers the requests that it has begun.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <mutex>
#include <thread>

#include "tests/integration/http/fixture.h"
#include "tests/integration/http/slow_client.h"

namespace rung::test {
namespace {

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
  std::vector<std::int64_t> took;
  for (int i = 0; i < 5; ++i) {
    const std::string id = submit({{"queue", queue}, {"delay", "1h"}});  // into a shard of the first
    EXPECT_EQ(other("GET", "/v1/tasks/" + id).json().at("node"), "node-1");
    const std::int64_t fired = wall_ms();
    ASSERT_EQ(other("POST", "/v1/tasks/" + id + "/fire").status, 200);
    const Received got = delivery(queue);
    took.push_back(wall_ms() - fired);
    EXPECT_EQ(retry_id(got), id);
    amqp.ack(got);
  }
  // As a rule: a busy machine may stand still for one of them, or two.
  std::ranges::sort(took);
  EXPECT_LT(took[took.size() / 2], 1000) << "fired by the one that doesn't own it";
  const std::string id = submit({{"queue", queue}, {"delay", "1h"}});
  const std::int64_t now = wall_ms();
  ASSERT_EQ(other("POST", "/v1/tasks/" + id + "/reschedule", R"({"delay": "500ms"})").status, 200);
  EXPECT_EQ(retry_id(delivery(queue)), id);
  EXPECT_GE(wall_ms(), now + 500);
}

// In its last 100 ms a task is claimed, and its message held back until it is due. Neither a person, at any
// instance, nor a consumer's word may make it `scheduled` then: a cancel would be answered, and the message
// would go out.
TEST_F(HttpInstances, NothingGoesOutAfterAnAnsweredCancelOfWhatWasHeldBack) {
  config.ladder = "[1h]";  // a failed task does not come a second time
  both_up();
  const std::string queue = new_name();
  amqp.declare(queue);
  int in_time = 0;
  for (int i = 0; i < 200 && in_time < 30; ++i) {
    const std::string id = submit({{"queue", queue}, {"delay", "400ms"}});
    while (task(id).at("state") == "scheduled") {
    }
    const bool by_word = i % 4 == 3;
    HttpAnswer finished;
    if (by_word) {
      Message word;
      word.headers = {{"retry-id", id}, {"retry-result", std::string("failed")}};
      amqp.publish("", results(), word);
    } else {
      const std::string path = "/v1/tasks/" + id + "/finish";
      const std::string body = json{{"result", i % 4 == 2 ? "succeeded" : "failed"}}.dump();
      finished = i % 2 == 0 ? other("POST", path, body) : call("POST", path, body);
      if (finished.status == 409) {
        ++in_time;
        EXPECT_THAT(refused(finished, 409), HasSubstr("nothing has been delivered yet"));
        EXPECT_EQ(finished.json().at("state"), "publishing");
      }
    }
    const HttpAnswer cancelled = call("POST", "/v1/tasks/" + id + "/cancel");
    const auto at_answer = amqp.depth(queue).value_or(0);
    if (finished.status == 409) {
      EXPECT_EQ(cancelled.status, 409) << cancelled.body;
    }
    const auto got = amqp.get_within(queue, Ms{cancelled.status == 200 && at_answer == 0 ? 600 : 10'000});
    if (cancelled.status == 200 && at_answer == 0) {
      EXPECT_FALSE(got) << "published after a cancel that was answered: " << id;
    } else {
      EXPECT_TRUE(got) << id;
    }
    if (got) amqp.ack(*got);
    EXPECT_EQ(amqp.depth(queue), 0U);
  }
  EXPECT_GE(in_time, 30) << "too few were claimed and not due";
}

TEST_F(HttpInstances, ACancelByAnotherIsKept) {
  both_up();
  const std::string queue = new_name();
  amqp.declare(queue);
  // On a busy machine it may be due before it is cancelled: once more then, with more time.
  std::string id;
  for (Ms delay{1200}; delay < kBound; delay *= 2) {
    id = submit({{"queue", queue}, {"delay", std::to_string(delay.count()) + "ms"}});
    const std::int64_t due = wall_ms() + delay.count();
    if (other("POST", "/v1/tasks/" + id + "/cancel").status == 200) {
      expect_nothing(queue, Ms{std::max<std::int64_t>(due - wall_ms(), 0)} + Ms{100});
      break;
    }
    amqp.ack(delivery(queue));
  }
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
      post("/v1/bulks", {{"action", "cancel"}, {"filter", {{"queue", "q"}}}, {"rate", 40}});
  ASSERT_EQ(made.status, 202);
  const std::string path = "/v1/bulks/" + made.json().at("id").get<std::string>();
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
  EXPECT_EQ(db.value("SELECT COUNT(*) FROM retry_audit WHERE retry_id > 0"), "200");
}

TEST_F(HttpInstances, ADrainAnswersWhatItHasTaken) {
  other_keys.clear();
  listen("");
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
  ASSERT_TRUE(eventually([&] { return created > 100; }, kBound));
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
TEST_F(HttpInstances, ADrainTakesNoArrivingRequestForAnIdleConnection) {
  other_keys.clear();
  listen("");
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

TEST_F(HttpInstances, ADrainWaitsForARequestThatHasBegun) {
  other_keys.clear();
  listen("");
  up();
  SlowClient writes(port), asks(port);
  writes.send(kSlowHead + kSlowTask.substr(0, 5));
  asks.send("GET /healthz HTTP/1.1\r\nHost: loc");
  // Both connections have been taken: a request after them is answered.
  EXPECT_EQ(HttpClient(port).call("GET", "/healthz").status, 200);
  rung().signal(SIGTERM);
  ASSERT_TRUE(rung().logged("draining"));
  ASSERT_TRUE(eventually(
      [&] { return db.value("SELECT COUNT(*) FROM `" + db.name() + "`.rung_shards WHERE owner > 0") == "0"; },
      kBound))
      << "idle, it has given its shards back";
  writes.send(kSlowTask.substr(5));
  asks.send("alhost\r\n\r\n");
  EXPECT_THAT(writes.rest(), HasSubstr("HTTP/1.1 503"));
  EXPECT_THAT(asks.rest(), HasSubstr("HTTP/1.1 200"));
  EXPECT_EQ(rung().wait_exit(), 0);
  EXPECT_THAT(rung().log(), testing::Not(HasSubstr("a blocked call")));
}

}  // namespace
}  // namespace rung::test
