// One of two instances loses RabbitMQ: it gives up its shards, so that the other publishes what is due there.
// If both lose it, no shard changes hands.
#include "src/core/base/url.h"
#include "tests/faults/instances/fixture.h"
#include "tests/support/proxy.h"

namespace rung::test {
namespace {

class BrokerLost : public InstancesTest {
 protected:
  BrokerLost() : rabbit(parse_url(amqp_url())->host, port()) { config.ladder = "[6s, 6s, 6s]"; }
  static int port() {
    const int given = parse_url(amqp_url())->port;
    return given == 0 ? 5672 : given;
  }
  void start_both(const std::string& second_url) {
    start_node(1, with_port(amqp_url(), rabbit.port()));
    start_node(2, second_url);
    for (const int i : {1, 2}) ASSERT_TRUE(node(i).wait_ready(kBound, 2));
    until_balanced({1, 2}, kBound);
  }
  // Tasks that are due in 6 s, in shards of both.
  void wait_for_tasks() {
    publish_failed(kTotal, "m");
    const std::string waiting = "SELECT COUNT(*) FROM retry_current WHERE state = 'scheduled'";
    ASSERT_TRUE(eventually([&] { return number(waiting) == kTotal; }, kBound));
  }
  // An event is written shortly after what it reports.
  bool recorded_once(const std::string& kind) {
    const std::string query = "SELECT COUNT(*) FROM retry_events WHERE kind = '" + kind + "'";
    return eventually([&] { return number(query) > 0; }, kBound) && number(query) == 1;
  }
  void cut() {
    rabbit.refuse();
    rabbit.cut();
  }

  static constexpr int kTotal = 200;
  TcpProxy rabbit;
};

TEST_F(BrokerLost, ByOneItsPeerSendsWhatIsDue) {
  start_both("");
  wait_for_tasks();
  const std::int64_t cut_at = wall_ms();
  cut();
  const auto delivered_once = [&] { return consumer->seen().size(); };
  EXPECT_TRUE(eventually([&] { return delivered_once() == kTotal; }, kBound)) << delivered_once();
  const Ms took{wall_ms() - cut_at};
  std::printf("all delivered %ld ms after the cut\n", static_cast<long>(took.count()));
  EXPECT_LT(took, Ms{6000} + kLease * 4);
  EXPECT_TRUE(eventually([&] { return balanced({2}); }, kBound));
  EXPECT_TRUE(node(1).logged("releasing all shards"));
  EXPECT_TRUE(node(1).running());
  EXPECT_TRUE(recorded_once("shards_given_up"));
  rabbit.refuse(false);
  until_balanced({1, 2}, kBound);
  EXPECT_TRUE(recorded_once("shards_taken_again"));
  all_ended(kTotal);
}

TEST_F(BrokerLost, ByBothNothingChangesHands) {
  start_both(with_port(amqp_url(), rabbit.port()));
  wait_for_tasks();
  cut();
  const std::string lost = "SELECT COUNT(*) FROM rung_nodes WHERE broker_link = 0";
  ASSERT_TRUE(eventually([&] { return number(lost) == 2; }, kBound));
  rabbit.refuse(false);
  ASSERT_TRUE(eventually([&] { return number("SELECT COUNT(*) FROM rung_nodes WHERE broker_link = 1") == 2; },
                         kBound));
  EXPECT_TRUE(balanced({1, 2}));
  EXPECT_EQ(number("SELECT COUNT(*) FROM retry_events WHERE kind = 'shards_given_up'"), 0);
  all_ended(kTotal);
}

}  // namespace
}  // namespace rung::test
