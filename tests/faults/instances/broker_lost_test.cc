// One of two instances loses RabbitMQ: it gives up its shards, so that the other publishes what is due there.
// If both lose it, no shard changes hands: ShardsCycle.
#include <set>

#include "src/core/base/url.h"
#include "tests/faults/instances/fixture.h"
#include "tests/support/proxy.h"

namespace rung::test {
namespace {

class BrokerLost : public InstancesTest {
 protected:
  BrokerLost() : rabbit(parse_url(amqp_url())->host, port()) {
    config.ladder = "[1h, 1h, 1h]";
    config.more = "lease: 3s\n";
  }
  static int port() {
    const int given = parse_url(amqp_url())->port;
    return given == 0 ? 5672 : given;
  }
  void start_both() {
    start_node(1, with_port(amqp_url(), rabbit.port()));
    start_node(2);
    for (const int i : {1, 2}) ASSERT_TRUE(node(i).wait_ready(kBound, 2));
    until_balanced({1, 2});
  }
  // Tasks in shards of both.
  void wait_for_tasks() {
    publish_failed(queue, kTotal);
    const std::string waiting = "SELECT COUNT(*) FROM retry_current WHERE state = 'scheduled'";
    ASSERT_TRUE(eventually([&] { return number(waiting) == kTotal; }, kBound));
  }
  // An event is written shortly after what it reports; again if a busy machine costs the peer its lease.
  bool recorded(const std::string& kind) {
    const std::string query =
        "SELECT COUNT(*) FROM retry_events WHERE kind = '" + kind + "' AND subject = 'n-1'";
    return eventually([&] { return number(query) > 0; }, kBound);
  }
  void fall_due() {
    db.exec(
        "UPDATE rung_tasks SET next_at = UTC_TIMESTAMP(3) WHERE state = 'scheduled' AND next_at > "
        "UTC_TIMESTAMP(3) + INTERVAL 1 MINUTE");
  }
  void climb_to_the_end() {
    EXPECT_TRUE(eventually(
        [&] {
          fall_due();
          return number("SELECT COUNT(*) FROM retry_current WHERE state = 'parked'") == kTotal;
        },
        kBound));
    all_ended(kTotal);
  }
  void cut() {
    rabbit.refuse();
    rabbit.cut();
  }

  static constexpr int kTotal = 200;
  TcpProxy rabbit;
};

TEST_F(BrokerLost, ByOneItsPeerSendsWhatIsDue) {
  start_both();
  wait_for_tasks();
  cut();
  fall_due();
  const auto delivered_once = [&] {
    std::set<std::string> bodies;
    for (const auto& one : consumer->seen()) bodies.insert(one.body);
    return bodies.size();
  };
  EXPECT_TRUE(eventually([&] { return delivered_once() == kTotal; }, kBound)) << delivered_once();
  EXPECT_TRUE(eventually([&] { return balanced({2}); }, kBound));
  EXPECT_TRUE(node(1).logged("releasing all shards"));
  EXPECT_TRUE(node(1).running());
  EXPECT_TRUE(recorded("shards_given_up"));
  rabbit.refuse(false);
  until_balanced({1, 2});
  EXPECT_TRUE(recorded("shards_taken_again"));
  climb_to_the_end();
}

}  // namespace
}  // namespace rung::test
