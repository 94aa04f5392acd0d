// Two instances on one database, one of them paused for longer than its lease, or killed: the other takes
// over, and a paused one does no harm when it resumes.
#include <csignal>

#include "tests/faults/outage/fixture.h"

namespace rung::test {
namespace {

constexpr std::size_t kMessages = 150;

class TwoInstances : public OutageTest {
 protected:
  // The first goes through the proxies, the second straight to the servers.
  void start_both() {
    start();
    SidecarConfig straight = config;
    straight.node = "node-2";
    straight.broker_url = amqp_url();
    straight.store_url = db.url();
    other = std::make_unique<Sidecar>(straight);
    other->start();
    ASSERT_TRUE(other->wait_ready(kBound, 2));
    ASSERT_TRUE(shared()) << held("node-1") << " and " << held("node-2");
    queue = attached();
    consumer = std::make_unique<FailingConsumer>(queue, failed(), FailingConsumer::How::reject);
  }
  std::int64_t held(const std::string& node) {
    return number(
        "SELECT COUNT(*) FROM {}.rung_shards s JOIN {}.rung_nodes n ON n.id = s.owner WHERE n.name = '" +
        node + "' AND s.expires_at > UTC_TIMESTAMP(3)");
  }
  bool shared() {
    return eventually([&] { return held("node-1") == 32 && held("node-2") == 32; }, kBound);
  }
  void TearDown() override {
    if (other && HasFailure())
      std::fprintf(stderr, "--- the log of node-2:\n%s---\n", other->log_tail().c_str());
    other.reset();
  }

  std::string queue;
  std::unique_ptr<FailingConsumer> consumer;
  std::unique_ptr<Sidecar> other;
};

TEST_F(TwoInstances, OneIsPausedForLongerThanItsLease) {
  start_both();
  publish_failed(queue, kMessages, "first");
  ASSERT_TRUE(eventually([&] { return consumer->count() >= kMessages / 4; }, kBound));
  // Resumed while the other does the work that was taken over.
  rung().signal(SIGSTOP);
  EXPECT_TRUE(eventually([&] { return held("node-2") == 64; }, kBound));
  rung().signal(SIGCONT);
  all_ended(queue, *consumer, kMessages);
  EXPECT_TRUE(shared()) << "it goes on as a member";
  // Paused until the other has done everything.
  publish_failed(queue, kMessages, "second");
  ASSERT_TRUE(eventually([&] { return consumer->count() >= kMessages * 3 + kMessages / 4; }, kBound));
  rung().signal(SIGSTOP);
  all_ended(queue, *consumer, kMessages * 2);
  rung().signal(SIGCONT);
  EXPECT_TRUE(shared());
  EXPECT_TRUE(rung().running());
  publish_failed(queue, kMessages, "third");
  all_ended(queue, *consumer, kMessages * 3);
}

// A pause within a transaction: what it has locked in the database must not keep the other from taking over.
// (A network that swallows one instance's packets looks the same.)
TEST_F(TwoInstances, OneIsPausedWithinATransaction) {
  start_both();
  publish_failed(queue, kMessages);
  const auto open_transactions = [&] {
    return look(
        "SELECT t.trx_id FROM information_schema.innodb_trx t JOIN " + db.processlist() +
        " p "
        "ON p.id = t.trx_mysql_thread_id WHERE t.trx_rows_locked > 0 AND p.command = 'Sleep' AND p.db = '" +
        db.name() + "'");
  };
  // While it is paused, only its own tasks do not move.
  const auto within = [&] {
    rung().signal(SIGSTOP);
    std::set<std::string> first;
    for (const auto& row : open_transactions()) first.insert(row[0]);
    if (!first.empty()) {
      last(Ms{150});
      for (const auto& row : open_transactions()) {
        if (first.contains(row[0])) return true;
      }
    }
    rung().signal(SIGCONT);
    return false;
  };
  std::size_t published = kMessages;
  int batch = 0;
  ASSERT_TRUE(eventually(
      [&] {
        if (within()) return true;
        if (consumer->count() >= published * 2) {
          publish_failed(queue, kMessages, "more" + std::to_string(++batch));
          published += kMessages;
        }
        return false;
      },
      kBound));
  EXPECT_TRUE(eventually([&] { return held("node-2") == 64; }, kBound))
      << held("node-2") << " of 64 taken over: the paused one's locks are in the way";
  all_ended(queue, *consumer, published);
  rung().signal(SIGCONT);
  EXPECT_TRUE(shared());
}

TEST_F(TwoInstances, OneIsKilled) {
  start_both();
  publish_failed(queue, kMessages);
  ASSERT_TRUE(eventually([&] { return consumer->count() >= kMessages / 4; }, kBound));
  rung().kill9();
  const std::int64_t from = wall_ms();
  EXPECT_TRUE(eventually([&] { return held("node-2") == 64; }, kBound));
  std::printf("taken over after %ld ms\n", static_cast<long>(wall_ms() - from));
  all_ended(queue, *consumer, kMessages);
}

// What the dead one was publishing never left its machine.
TEST_F(TwoInstances, OneIsKilledWhileItPublishes) {
  start_both();
  rabbit.stall_to_server();
  publish_failed(queue, kMessages);
  // Its share of the intake: claimed, and stuck on the way.
  const auto stuck = [&] {
    return number("SELECT COUNT(*) FROM {}.retry_current WHERE state = 'publishing' AND node = 'node-1'");
  };
  ASSERT_TRUE(eventually([&] { return stuck() > 0; }, kBound)) << "nothing was stuck";
  rung().kill9();
  const std::int64_t from = wall_ms();
  EXPECT_TRUE(eventually([&] { return stuck() == 0; }, kBound));
  std::printf("gone on after %ld ms\n", static_cast<long>(wall_ms() - from));
  all_ended(queue, *consumer, kMessages);
}

}  // namespace
}  // namespace rung::test
