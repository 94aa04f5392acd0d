// MySQL is unavailable while messages fail: refused, cut, killed, stalled. Intake waits without acking,
// within the prefetch; nothing is lost, no attempt is repeated under a new number, and the log reports it
// once.
#include "tests/faults/outage/fixture.h"

namespace rung::test {
namespace {

constexpr std::size_t kBefore = 60, kMeanwhile = 40, kPrefetch = 10;

class MysqlAway : public OutageTest {
 protected:
  void SetUp() override {
    config.broker += "  prefetch: " + std::to_string(kPrefetch) + "\n";
    start();
    queue = attached();
    consumer = std::make_unique<FailingConsumer>(queue, failed(), FailingConsumer::How::reject);
    publish_failed(queue, kBefore, "before");
    // In the middle of it: some attempts have been made, most not yet.
    ASSERT_TRUE(eventually([&] { return consumer->count() >= kBefore / 2; }, kBound));
  }
  // Fails messages while MySQL is away: what exceeds the prefetch stays in the broker, and nothing is acked.
  void fail_meanwhile() {
    publish_failed(queue, kMeanwhile, "meanwhile");
    ASSERT_TRUE(
        eventually([&] { return amqp.depth(failed()).value_or(0) >= kMeanwhile - kPrefetch; }, kBound));
    last(kOutage);
    EXPECT_GE(amqp.depth(failed()), kMeanwhile - kPrefetch) << "acked without a row";
  }
  void once() {
    EXPECT_EQ(times("database unavailable"), 1);
    // A lane without messages may wait for its next try while the others already work.
    EXPECT_TRUE(rung().logged("database available again", kBound));
    EXPECT_EQ(times("database available again"), 1);
    EXPECT_EQ(times("broker unavailable"), 0);
  }

  std::string queue;
  std::unique_ptr<FailingConsumer> consumer;
};

TEST_F(MysqlAway, Cut) {
  mysql.refuse();
  mysql.cut();
  ASSERT_TRUE(rung().logged("database unavailable"));
  fail_meanwhile();
  mysql.refuse(false);
  EXPECT_EQ(all_ended(queue, *consumer, kBefore + kMeanwhile), 0U);
  once();
}

// Each statement may be the one that is cut, a commit too: its outcome is then unknown.
TEST_F(MysqlAway, CutAgainAndAgain) {
  for (int i = 0; i < 12; ++i) {
    mysql.cut();
    const std::size_t before = mysql.accepted();
    ASSERT_TRUE(eventually([&] { return mysql.accepted() > before; }, kBound));
    last(Ms{250});
  }
  EXPECT_EQ(all_ended(queue, *consumer, kBefore), 0U);
}

TEST_F(MysqlAway, Killed) {
  own_servers("kill-db");
  ASSERT_TRUE(rung().logged("database unavailable"));
  fail_meanwhile();
  own_servers("start-db");
  EXPECT_EQ(all_ended(queue, *consumer, kBefore + kMeanwhile), 0U);
  once();
}

// As after a failover to a replica that is not promoted yet: it answers, reads, and refuses to write.
class MysqlReadOnly : public MysqlAway {
 protected:
  void SetUp() override {
    config.store_url = with_port(db.plain_user_url(), mysql.port());  // root may always write
    MysqlAway::SetUp();
  }
  ~MysqlReadOnly() override { db.exec("SET GLOBAL read_only = 0"); }
};

TEST_F(MysqlReadOnly, WaitsUntilItIsPromoted) {
  db.exec("SET GLOBAL read_only = 1");
  mysql.cut();
  ASSERT_TRUE(rung().logged("read-only option")) << rung().log_tail();
  fail_meanwhile();
  db.exec("SET GLOBAL read_only = 0");
  EXPECT_EQ(all_ended(queue, *consumer, kBefore + kMeanwhile), 0U);
  once();
}

// Longer than the lease, and without any error.
TEST_F(MysqlAway, Stalled) {
  mysql.stall();
  fail_meanwhile();
  EXPECT_EQ(times("database unavailable"), 1);
  mysql.stall(false);
  EXPECT_EQ(all_ended(queue, *consumer, kBefore + kMeanwhile), 0U);
  once();
}

TEST_F(MysqlAway, HalfOpen) {
  const std::size_t connections = mysql.connections();
  mysql.half_close();
  ASSERT_TRUE(rung().logged("database unavailable"));
  EXPECT_EQ(all_ended(queue, *consumer, kBefore), 0U);
  // Each connection finds its own end dead, and when they do so apart, each is an outage of its own.
  EXPECT_LE(times("database unavailable"), connections);
  EXPECT_TRUE(
      eventually([&] { return times("database unavailable") == times("database available again"); }, kBound));
}

// The database ends a session that is idle for two thirds of a lease: idle threads must have closed it
// before. Retention has something to do every 10 s.
class Idle : public OutageTest {};

TEST_F(Idle, NoConnectionIsCutByItsOwnTimeout) {
  config.more += "retention: 1h\n";  // the lease is 2 s: it would be cut after one
  start();
  ASSERT_TRUE(rung().logged("shards acquired"));
  const auto aborted = [&] {
    return std::stoll(db.query("SHOW GLOBAL STATUS LIKE 'Aborted_clients'").at(0).at(1));
  };
  // The server counts the killed sidecars of other tests, too, once it has noticed.
  const std::string others =
      "SELECT COUNT(*) FROM " + db.processlist() + " WHERE db LIKE 'rung%' AND db <> '" + db.name() + "'";
  ASSERT_TRUE(eventually([&] { return db.value(others) == "0"; }, kBound)) << db.value(others);
  const auto before = aborted();
  last(Ms{8000});
  // 9 where connections are left to the server. One or two: with a lease of 2 s half a second without the
  // processor is enough.
  EXPECT_LE(aborted(), before + 2);
  EXPECT_EQ(times("database unavailable"), 0);
}

// Rows in `publishing` when the lease runs out, their publishes stuck on the way: taken again under a new
// epoch, they go on, as the same attempts.
class Stranded : public OutageTest {};

TEST_F(Stranded, ByAStallOfMysqlLongerThanTheLease) {
  constexpr std::size_t kStuck = 12;  // within the first window of a queue (BrokerLimits::first_window)
  config.broker = "  heartbeat: 2s\n";
  start();
  const std::string queue = attached();
  FailingConsumer consumer(queue, failed(), FailingConsumer::How::reject);
  rabbit.stall_to_server();
  {  // the intake's acks are stuck as well: the rows tell
    publish_failed(queue, kStuck);
    ASSERT_TRUE(until_in_state(queue, "publishing", kStuck)) << in_state(queue, "publishing");
  }
  mysql.stall();
  last(Ms{5000});
  rabbit.stall_to_server(false);
  rabbit.cut();
  mysql.stall(false);
  all_ended(queue, consumer, kStuck);
  EXPECT_NE(rung().log().find("shards acquired"), std::string::npos);
}

// A claim whose commit got no answer is tried again for as long as the connection's time-out; meanwhile the
// lease was lost and taken again, and its rows, in hand still, were looked at as a former owner's. The answer
// then is that the fence is an old one.
TEST_F(Stranded, ByAClaimWithoutAnAnswerAcrossANewLease) {
  config.store = "  timeout: 8s\n";  // longer than what follows
  start();
  const std::string queue = attached();
  FailingConsumer consumer(queue, failed(), FailingConsumer::How::reject);
  mysql.deafen("INTO rung_attempts", "COMMIT");
  publish_failed(queue, 1);
  ASSERT_TRUE(eventually([&] { return mysql.deafened(); }, kBound));
  mysql.stall();
  last(Ms{3000});
  mysql.stall(false);
  ASSERT_TRUE(rung().logged("leases lost"));
  // Well below the minute after which a claim counts as forgotten.
  EXPECT_TRUE(until_in_state(queue, "parked", 1, Ms{30'000}));
  EXPECT_EQ(all_ended(queue, consumer, 1), 0U);
  EXPECT_EQ(times("untracked claims"), 0);
}

}  // namespace
}  // namespace rung::test
