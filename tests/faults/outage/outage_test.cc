// With servers of this binary's own and a proxy in front of each: settings of a server that reach all who use
// it, a queue that answers nothing, and SIGTERM whatever is away. Services that are cut, stalled or killed:
// the torture run and the simulator.
#include <csignal>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "src/core/base/url.h"
#include "tests/support/failing_consumer.h"
#include "tests/support/own_servers.h"
#include "tests/support/proxy.h"
#include "tests/support/sidecar.h"

namespace rung::test {
namespace {

int port_of(const std::string& url, int otherwise) {
  const auto parsed = parse_url(url);
  if (!parsed) throw std::runtime_error(parsed.error().message);
  return parsed->port == 0 ? otherwise : parsed->port;
}

// Other tests must not see them die.
class ServersOfThisBinary : public ::testing::Environment {
 public:
  void SetUp() override {
    servers_.emplace();
    for (const char* name : {"RUNG_TEST_AMQP", "RUNG_TEST_MYSQL", "RUNG_TEST_RABBITMQCTL"})
      setenv(name, servers_->variable(name).c_str(), 1);
  }
  void TearDown() override { servers_.reset(); }

 private:
  std::optional<OwnServers> servers_;
};

const ::testing::Environment* const kServers = ::testing::AddGlobalTestEnvironment(new ServersOfThisBinary);

class OutageTest : public SidecarTest {
 protected:
  static constexpr int kLevels = 3;

  // Leases, heartbeats and time-outs are longer than any test: on a busy machine none runs out by itself.
  OutageTest() : rabbit("127.0.0.1", port_of(amqp_url(), 5672)), mysql("127.0.0.1", port_of(db.url(), 3306)) {
    config.broker_url = with_port(amqp_url(), rabbit.port());
    config.store_url = with_port(db.url(), mysql.port());
    config.broker = "  heartbeat: 300s\n";
    config.store = "  timeout: 600s\n";
    config.ladder = "[500ms, 1s, 1500ms]";
    config.more = "lease: 10m\ndrain: 3s\n";
  }
  void start_unready() {  // starts the sidecar without waiting for it
    sidecar_ = std::make_unique<Sidecar>(config);
    sidecar_->start();
    ASSERT_TRUE(sidecar_->logged("rung starting"));
  }

  // Queries past the proxy. "{}" stands for the schema; nothing and -1 if it does not exist yet.
  std::vector<std::vector<std::string>> look(std::string sql) {
    try {
      if (!eyes_) eyes_ = std::make_unique<MysqlSchema>();
      for (std::size_t at; (at = sql.find("{}")) != std::string::npos;)
        sql.replace(at, 2, "`" + db.name() + "`");
      return eyes_->query(sql);
    } catch (const std::exception&) {
      eyes_.reset();
      return {};
    }
  }
  std::int64_t number(const std::string& sql) {
    const auto rows = look(sql);
    return rows.empty() || rows[0][0] == "NULL" ? -1 : std::stoll(rows[0][0]);
  }
  bool until_in_state(const std::string& queue, const std::string& state, std::size_t count) {
    const std::string in_state =
        "SELECT COUNT(*) FROM {}.retry_current WHERE queue = '" + queue + "' AND state = '" + state + "'";
    return eventually([&] { return number(in_state) == static_cast<std::int64_t>(count); });
  }

  // Checks that every message of `queue` climbed the whole ladder and is parked: one row each, attempts 1 to
  // kLevels each once in the history and delivered at least once, repeats with the same attempt number, never
  // early. Returns the number of repeated deliveries.
  std::size_t all_ended(const std::string& queue, const FailingConsumer& consumer, std::size_t count) {
    EXPECT_TRUE(until_in_state(queue, "parked", count)) << [&] {
      std::string states = "what ended and what did not:";
      for (const auto& row :
           look("SELECT state, COUNT(*) FROM {}.retry_current WHERE queue = '" + queue + "' GROUP BY state"))
        states += " " + row[0] + "=" + row[1];
      return states;
    }();
    EXPECT_EQ(number("SELECT COUNT(*) FROM {}.retry_current WHERE queue = '" + queue + "'"),
              static_cast<std::int64_t>(count));
    std::map<std::string, std::map<std::int64_t, std::int64_t>> due;  // id -> attempt -> due
    for (const auto& row : look("SELECT retry_id, attempt, due_at FROM {}.retry_history WHERE queue = '" +
                                queue + "' ORDER BY retry_id, attempt"))
      due[row[0]][std::stoll(row[1])] = ms_of(row[2]);
    EXPECT_EQ(due.size(), count);
    std::set<std::int64_t> whole;
    for (int i = 1; i <= kLevels; ++i) whole.insert(i);
    for (const auto& [id, attempts] : due) {
      std::set<std::int64_t> numbers;
      for (const auto& [attempt, at] : attempts) numbers.insert(attempt);
      EXPECT_EQ(numbers, whole) << id << ": an outage of ours must neither eat nor multiply attempts";
    }
    std::map<std::string, std::set<std::string>> ids;
    std::map<std::string, std::map<std::int64_t, int>> deliveries;
    std::size_t repeats = 0;
    for (const auto& seen : consumer.seen()) {
      if (seen.attempt == 0) continue;
      ids[seen.body].insert(seen.id);
      if (++deliveries[seen.id][seen.attempt] > 1) ++repeats;
      EXPECT_GE(seen.at, due[seen.id][seen.attempt]) << seen.id << "/" << seen.attempt << " came early";
    }
    EXPECT_EQ(ids.size(), count) << "messages are lost";
    for (const auto& [body, names] : ids) EXPECT_EQ(names.size(), 1U) << body << " is two tasks";
    for (const auto& [id, attempts] : deliveries)
      EXPECT_EQ(attempts.size(), whole.size()) << id << ": an attempt never reached the consumer";
    if (repeats > 0) std::printf("%zu deliveries came twice, under the same name\n", repeats);
    return repeats;
  }

  TcpProxy rabbit, mysql;

 private:
  std::unique_ptr<MysqlSchema> eyes_;
};

class StartWarns : public OutageTest {};

TEST_F(StartWarns, ADatabaseThatTakesEncryptedConnectionsOnly) {
  db.exec("SET GLOBAL require_secure_transport = ON");
  start_unready();
  EXPECT_TRUE(rung().logged("set store.tls: verify")) << rung().log_tail();
  EXPECT_TRUE(rung().running());
  db.exec("SET GLOBAL require_secure_transport = OFF");
  EXPECT_TRUE(rung().logged("database available again"));
  const std::string queue = attached();
  fail(queue, Message{.properties = {}, .headers = {}, .body = "hello"});
  EXPECT_EQ(int_header(delivery(queue).message, "retry-attempt"), 1);
}

TEST_F(StartWarns, OfWhatTheServersSettingsPutAtRisk) {
  db.exec("SET GLOBAL innodb_flush_log_at_trx_commit = 2");
  start();
  EXPECT_TRUE(rung().logged("check=database.flush")) << rung().log_tail();
  db.exec("SET GLOBAL innodb_flush_log_at_trx_commit = 1");
  EXPECT_EQ(rung().log().find("check=database.wsrep"), std::string::npos);
}

// `drain` is shorter than any time-out.
class Sigterm : public OutageTest {
 protected:
  void stall_both() {
    for (TcpProxy* proxy : {&rabbit, &mysql}) proxy->stall();
  }
  void ends() {
    rung().signal(SIGTERM);
    EXPECT_EQ(rung().wait_exit(), 0);
  }
};

TEST_F(Sigterm, UnderLoadWhileNothingAnswers) {
  constexpr std::size_t kMessages = 60;
  start();
  const std::string queue = attached();
  auto consumer = std::make_unique<FailingConsumer>(queue, failed(), FailingConsumer::How::reject);
  publish_failed(queue, kMessages);
  ASSERT_TRUE(eventually([&] { return consumer->count() >= kMessages / 4; }));
  stall_both();
  ends();
  // Nothing is lost.
  for (TcpProxy* proxy : {&rabbit, &mysql}) {
    proxy->stall(false);
    proxy->cut();
  }
  start();
  all_ended(queue, *consumer, kMessages);
}

TEST_F(Sigterm, AtAStartThatNothingAnswers) {
  stall_both();
  start_unready();
  ends();
}

// Under load, without faults: work under way is completed, other work is not begun; nothing is left half
// done.
TEST_F(Sigterm, LeavesNothingInDoubt) {
  constexpr std::size_t kMessages = 300;
  config.more = "lease: 10m\ndrain: 10m\n";
  start();
  const std::string queue = attached();
  auto consumer = std::make_unique<FailingConsumer>(queue, failed(), FailingConsumer::How::publish);
  publish_failed(queue, kMessages);
  ASSERT_TRUE(eventually([&] { return consumer->count() >= kMessages / 3; }));
  ends();
  EXPECT_EQ(number("SELECT COUNT(*) FROM {}.rung_shards WHERE owner IS NOT NULL"), 0) << "a lease was kept";
  EXPECT_EQ(number("SELECT COUNT(*) FROM {}.retry_current WHERE state = 'publishing'"), 0)
      << "sent, and its answer not waited for, or claimed and not sent\n"
      << rung().log_tail();
  start();
  EXPECT_EQ(all_ended(queue, *consumer, kMessages), 0U) << "an orderly end repeats nothing";
}

// Stops a queue's process in the broker: it takes messages and answers nothing.
void queue_process(const std::string& queue, const std::string& what) {
  const std::string program = "[sys:" + what +
                              "(amqqueue:get_pid(Q)) || Q <- rabbit_amqqueue:list(), element(4, " +
                              "amqqueue:get_name(Q)) =:= <<\"" + queue + "\">>].";
  const Ran ran = run_shell(std::string(std::getenv("RUNG_TEST_RABBITMQCTL")) + " eval '" + program + "'");
  ASSERT_EQ(ran.code, 0) << ran.out;
  ASSERT_NE(ran.out.find("ok"), std::string::npos) << ran.out;
}

class SlowTarget : public OutageTest {};

TEST_F(SlowTarget, HoldsUpNoOther) {
  constexpr std::size_t kFirst = 100, kStuck = 400, kLive = 60;
  config.ladder = "[2s, 1h]";
  start();
  const std::string stuck = new_name("stuck"), live = attached("live");
  amqp.declare(stuck);
  remove_at_end(stuck);
  // Before it is stuck its window is wide.
  publish_failed(stuck, kFirst, "first");
  ASSERT_TRUE(eventually([&] { return amqp.depth(stuck).value_or(0) == kFirst; }));
  queue_process(stuck, "suspend");
  publish_failed(stuck, kStuck, "stuck");
  publish_failed(live, kLive, "live");
  EXPECT_TRUE(eventually([&] { return amqp.depth(live).value_or(0) >= kLive; })) << rung().log_tail();
  // Also what comes later, while it is still stuck.
  publish_failed(live, kLive, "more");
  EXPECT_TRUE(eventually([&] { return amqp.depth(live).value_or(0) >= 2 * kLive; })) << rung().log_tail();
  EXPECT_TRUE(rung().logged("queue does not answer publishes"));
  queue_process(stuck, "resume");
  EXPECT_TRUE(until_in_state(stuck, "awaiting", kFirst + kStuck)) << rung().log_tail();
  EXPECT_TRUE(until_in_state(live, "awaiting", 2 * kLive));
  // Waiting for an hour without an answer does not count as another attempt.
  EXPECT_EQ(number("SELECT COUNT(*) FROM {}.retry_history WHERE attempt > 1"), 0);
}

// A claim whose commit got no answer is tried again for as long as the connection's time-out; meanwhile the
// lease was lost and taken again, and its rows, in hand still, were looked at as a former owner's. The answer
// then is that the fence is an old one.
class Stranded : public OutageTest {};

TEST_F(Stranded, ByAClaimWithoutAnAnswerAcrossANewLease) {
  config.broker = "  heartbeat: 1s\n";
  config.store = "  timeout: 8s\n";  // longer than a lease
  config.more = "lease: 2s\ndrain: 3s\n";
  start();
  const std::string queue = attached();
  FailingConsumer consumer(queue, failed(), FailingConsumer::How::reject);
  mysql.deafen("INTO rung_attempts", "COMMIT");
  publish_failed(queue, 1);
  ASSERT_TRUE(eventually([&] { return mysql.deafened(); }));
  mysql.stall();
  const char* held = "SELECT COUNT(*) FROM {}.rung_shards WHERE expires_at > UTC_TIMESTAMP(3)";
  ASSERT_TRUE(eventually([&] { return number(held) == 0; }));
  mysql.stall(false);
  ASSERT_TRUE(rung().logged("leases lost"));
  all_ended(queue, consumer, 1);
  EXPECT_EQ(rung().log().find("untracked claims"), std::string::npos)
      << "found after a minute, as one that nobody has in hand";
}

}  // namespace
}  // namespace rung::test
