// MySQL is unavailable while messages fail: cut, killed, read-only, stalled. Intake waits without acking,
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
    some_tries(mysql);
    EXPECT_GE(amqp.depth(failed()), kMeanwhile - kPrefetch) << "acked without a row";
  }
  void once() {
    EXPECT_EQ(times("database unavailable"), 1);
    // A lane without messages may wait for its next try while the others already work.
    EXPECT_TRUE(rung().logged("database available again", kBound));
    EXPECT_EQ(times("database available again"), 1);
    EXPECT_EQ(times("broker unavailable"), 0);
  }
  // Where some lanes find it away and others do not: on a busy machine, or where reads work.
  void ended_as_often_as_it_began() {
    EXPECT_TRUE(eventually([&] { return times("database unavailable") == times("database available again"); },
                           kBound));
  }

  std::string queue;
  std::unique_ptr<FailingConsumer> consumer;
};

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
  ended_as_often_as_it_began();
}

class MysqlSilent : public MysqlAway {
 protected:
  MysqlSilent() { notices_silence(); }
};

// Longer than the lease, and without any error.
TEST_F(MysqlSilent, Stalled) {
  mysql.stall();
  ASSERT_TRUE(rung().logged("database unavailable"));
  fail_meanwhile();
  leases_run_out();
  mysql.stall(false);
  all_ended(queue, *consumer, kBefore + kMeanwhile);
  ended_as_often_as_it_began();
}

// A claim whose commit got no answer is tried again for as long as the connection's time-out; meanwhile the
// lease was lost and taken again, and its rows, in hand still, were looked at as a former owner's. The answer
// then is that the fence is an old one.
class Stranded : public OutageTest {};

TEST_F(Stranded, ByAClaimWithoutAnAnswerAcrossANewLease) {
  notices_silence();
  config.store = "  timeout: 8s\n";  // longer than a lease
  start();
  const std::string queue = attached();
  FailingConsumer consumer(queue, failed(), FailingConsumer::How::reject);
  mysql.deafen("INTO rung_attempts", "COMMIT");
  publish_failed(queue, 1);
  ASSERT_TRUE(eventually([&] { return mysql.deafened(); }, kBound));
  mysql.stall();
  leases_run_out();
  mysql.stall(false);
  ASSERT_TRUE(rung().logged("leases lost"));
  all_ended(queue, consumer, 1);
  EXPECT_EQ(times("untracked claims"), 0) << "found after a minute, as one that nobody has in hand";
}

}  // namespace
}  // namespace rung::test
