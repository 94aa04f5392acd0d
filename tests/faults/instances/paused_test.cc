// One of two instances is stopped for longer than its lease, at a chosen step of its work, and resumes when
// the other has done that work. It must not touch what it lost, and must continue as a member.
#include <csignal>

#include "src/core/base/url.h"
#include "tests/faults/instances/fixture.h"
#include "tests/support/proxy.h"

namespace rung::test {
namespace {

class Paused : public InstancesTest {
 protected:
  Paused() : rabbit(parse_url(amqp_url())->host, port()) {}
  static int port() {
    const int given = parse_url(amqp_url())->port;
    return given == 0 ? 5672 : given;
  }
  void start_both() {
    start_node(1, with_port(amqp_url(), rabbit.port()));
    start_node(2);
    for (const int i : {1, 2}) ASSERT_TRUE(node(i).wait_ready(kBound, 2));
    until_balanced({1, 2}, kLease * 2);
  }
  void pause() {
    node(1).signal(SIGSTOP);
    paused_at = wall_ms();
  }
  void wait_heir() {
    EXPECT_TRUE(eventually([&] { return balanced({2}); }, kBound));
    std::printf("taken over after %ld ms\n", static_cast<long>(wall_ms() - paused_at));
  }
  // It has its share, also by its own count; and it delivers.
  void wake_and_belong() {
    node(1).signal(SIGCONT);
    until_balanced({1, 2}, kLease * 2);
    EXPECT_TRUE(node(1).running());
    ASSERT_TRUE(node(1).wait_ready(kBound, 2));
    const std::int64_t before = delivered()["n-1"];
    const std::size_t some = 60;
    total += some;
    publish_failed(some, "after");
    repeats = all_ended(total);
    EXPECT_GT(delivered()["n-1"], before) << "it is a member that does nothing";
  }

  TcpProxy rabbit;
  std::int64_t paused_at = 0;
  std::size_t total = 0, repeats = 0;
};

// Its timers fire when it resumes, and each of its claims would be a second one.
TEST_F(Paused, ClaimsNothing) {
  config.ladder = "[5s, 5s, 5s]";
  start_both();
  total = 120;
  publish_failed(total, "m");
  ASSERT_TRUE(eventually(
      [&] { return number("SELECT COUNT(*) FROM retry_current WHERE state = 'scheduled'") == 120; }, kBound));
  EXPECT_GT(
      number("SELECT COUNT(*) FROM retry_current t JOIN rung_shards s ON s.id = t.shard JOIN rung_nodes n "
             "ON n.id = s.owner WHERE n.name = 'n-1'"),
      10);
  pause();
  wait_heir();
  const auto taken_over = [&] {
    return rows("SELECT DISTINCT node, subject FROM retry_events WHERE kind = 'shards_taken_over'");
  };
  EXPECT_TRUE(eventually([&] { return !taken_over().empty(); }, kBound));
  EXPECT_EQ(taken_over(), (std::vector<Row>{{{"node", "n-2"}, {"subject", "n-1"}}}));
  ASSERT_TRUE(eventually([&] { return consumer->count() >= total; }, kBound));
  EXPECT_EQ(delivered().count("n-1"), 0U);
  wake_and_belong();
  EXPECT_EQ(repeats, 0U);
}

// Messages that the broker gave it, and that it finds in its socket when it wakes.
TEST_F(Paused, InsertsNothing) {
  start_both();
  pause();
  total = 120;
  publish_failed(total, "m");
  wait_heir();
  const std::string by_heir =
      "SELECT COUNT(*) FROM retry_current t JOIN rung_shards s ON s.id = t.shard JOIN "
      "rung_nodes n ON n.id = s.owner WHERE n.name = 'n-2'";
  EXPECT_TRUE(eventually([&] { return number(by_heir) == 120; }, kBound))
      << "the broker gives them to the other";
  wake_and_belong();
  EXPECT_EQ(repeats, 0U);
}

// Claimed by it, and on the way from it to the broker.
TEST_F(Paused, PublishesNothing) {
  start_both();
  rabbit.stall_to_server();
  total = 120;
  publish_failed(total, "m", 50'000);
  const std::string its = "SELECT COUNT(*) FROM retry_current WHERE state = 'publishing' AND node = 'n-1'";
  ASSERT_TRUE(eventually([&] { return number(its) > 10; }, kBound)) << "nothing was stuck";
  pause();
  wait_heir();
  EXPECT_TRUE(eventually([&] { return number(its) == 0; }, kBound)) << "the heir publishes it";
  ASSERT_TRUE(eventually([&] { return consumer->count() >= total * kLevels; }, kBound * 2));
  rabbit.stall_to_server(false);
  wake_and_belong();
  EXPECT_EQ(repeats, 0U);
}

// At random moments, repeatedly.
TEST_F(Paused, AgainAndAgainUnderLoad) {
  start_both();
  start_load(150);
  for (int turn = 0; turn < 2; ++turn) {
    const std::size_t from = consumer->count();
    ASSERT_TRUE(eventually([&] { return consumer->count() > from + 200; }, kBound));
    pause();
    wait_heir();
    node(1).signal(SIGCONT);
    until_balanced({1, 2}, kBound);  // how soon: Members, without load
  }
  total = stop_load();
  all_ended(total);
  wake_and_belong();
}

}  // namespace
}  // namespace rung::test
