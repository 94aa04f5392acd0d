// Instances join, leave, die and return: each gets its fair share of the shards in time.
#include <csignal>

#include "src/core/base/url.h"
#include "tests/faults/instances/fixture.h"
#include "tests/support/proxy.h"

namespace rung::test {
namespace {

constexpr Ms kLoaded{5000};  // for a machine under load

// The shards that an instance last reported to hold.
int believed(const Sidecar& sidecar) {
  const std::string log = sidecar.log_since_start(), key = " held=";
  const auto at = log.rfind(key);
  return at == std::string::npos ? 0 : std::stoi(log.substr(at + key.size()));
}

class Instances : public InstancesTest, public ::testing::WithParamInterface<int> {
 protected:
  std::vector<int> all() const {
    std::vector<int> nodes;
    for (int i = 1; i <= GetParam(); ++i) nodes.push_back(i);
    return nodes;
  }
};

TEST_P(Instances, ShareAndAllDeliver) {
  for (const int i : all()) start_node(i);
  ASSERT_TRUE(eventually([&] { return live() == GetParam(); }, kBound));
  until_balanced(all(), kLease * 2);
  for (const int i : all()) ASSERT_TRUE(node(i).wait_ready(kBound, static_cast<std::uint32_t>(GetParam())));
  const std::size_t count = 60 * static_cast<std::size_t>(GetParam());
  publish_failed(count, "m");
  EXPECT_EQ(all_ended(count), 0U) << "nothing is delivered twice where nothing goes wrong";
  const auto by_node = delivered();
  EXPECT_EQ(by_node.size(), static_cast<std::size_t>(GetParam()));
  const auto by_lease = held();
  EXPECT_TRUE(balanced(all()));
  for (const int i : all()) {
    const std::string name = "n-" + std::to_string(i);
    EXPECT_GT(by_node.contains(name) ? by_node.at(name) : 0, 0) << name << " delivers nothing";
    EXPECT_EQ(believed(node(i)), by_lease.contains(name) ? by_lease.at(name) : 0)
        << name << " believes to hold what it does not, or knows less than it holds";
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Instances, ::testing::Values(1, 2, 3, 5),
                         [](const auto& n) { return std::to_string(n.param); });

class Members : public InstancesTest {};

TEST_F(Members, OneJoinsUnderLoad) {
  start_nodes({1, 2});
  until_balanced({1, 2}, kLease * 2);
  start_load(150);
  ASSERT_TRUE(eventually([&] { return consumer->count() > 100; }, kBound));
  start_node(3);
  ASSERT_TRUE(eventually([&] { return live() == 3; }, kBound));
  until_balanced({1, 2, 3}, kLease * 2);
  ASSERT_TRUE(eventually([&] { return delivered()["n-3"] > 0; }, kBound));
  EXPECT_EQ(all_ended(stop_load()), 0U) << "handing over is no fault: nothing may come twice";
}

// Shards of the first instance always have publishes under way: its connection to the broker is slow, and due
// tasks pile up. On an idle machine this holds for all its shards; on a busy one for fewer, because more
// tasks arrive at once.
TEST_F(Members, OneJoinsWhileEveryShardIsInUse) {
  config.broker = "  max_unconfirmed: 500\n";
  config.ladder = "[4s, 4s, 4s]";
  const auto url = parse_url(amqp_url());
  TcpProxy slow(url->host, url->port == 0 ? 5672 : url->port);
  start_node(1, with_port(amqp_url(), slow.port()));
  ASSERT_TRUE(node(1).wait_ready());
  until_balanced({1}, kLease * 2);
  start_load(250);  // gradually: tasks that arrive at once go into one shard
  EXPECT_TRUE(eventually([&] { return number("SELECT COUNT(*) FROM retry_current") > 1000; }, kBound));
  const std::size_t count = stop_load();
  std::atomic<bool> stop{false};
  std::thread brake([&] {
    for (bool on = false; !stop; on = !on) {
      slow.stall_to_server(on);
      std::this_thread::sleep_for(on ? Ms{2000} : Ms{30});  // the fault's own rhythm
    }
    slow.stall_to_server(false);
  });
  const auto shards_in_use = [&] {
    return number("SELECT COUNT(DISTINCT shard) FROM retry_current WHERE state = 'publishing'");
  };
  EXPECT_TRUE(eventually([&] { return shards_in_use() >= 20; }, kBound));
  start_node(2);
  EXPECT_TRUE(eventually([&] { return live() == 2; }, kBound));
  until_balanced({1, 2}, kLease * 2);
  EXPECT_TRUE(eventually([&] { return shards_in_use() > 10; }, kLease))
      << "all was done before: nothing was in use";
  stop = true;
  brake.join();
  EXPECT_EQ(all_ended(count), 0U);
}

TEST_F(Members, OneLeavesUnderLoad) {
  start_nodes({1, 2, 3});
  until_balanced({1, 2, 3}, kLease * 2);
  start_load(150);
  ASSERT_TRUE(eventually([&] { return consumer->count() > 100; }, kBound));
  node(3).signal(SIGTERM);
  ASSERT_EQ(node(3).wait_exit(), 0);
  EXPECT_FALSE(held().contains("n-3")) << "it has ended, and its shards are not free";
  until_balanced({1, 2}, kLease / 3 + kLoaded);
  EXPECT_EQ(all_ended(stop_load()), 0U) << "leaving is no fault: nothing may come twice";
}

// SIGTERM while it takes its first shards: known to the database by name, or by leases already.
TEST_F(Members, OneLeavesAsItJoins) {
  start_node(1);
  ASSERT_TRUE(eventually([&] { return held().contains("n-1"); }, kBound));
  for (int turn = 0; turn < 10; ++turn) {
    if (turn > 0) start_node(1);
    ASSERT_TRUE(eventually([&] { return turn % 2 == 0 ? live() == 1 : held().contains("n-1"); }, kBound));
    node(1).signal(SIGTERM);
    ASSERT_EQ(node(1).wait_exit(), 0);
    EXPECT_FALSE(held().contains("n-1")) << "it has ended and still holds shards, turn " << turn;
    EXPECT_EQ(live(), 0);
  }
}

TEST_F(Members, OneIsKilledUnderLoad) {
  start_nodes({1, 2, 3});
  until_balanced({1, 2, 3}, kLease * 2);
  start_load(150);
  ASSERT_TRUE(eventually([&] { return consumer->count() > 100; }, kBound));
  node(3).kill9();
  until_balanced({1, 2}, kLease + kLoaded);
  all_ended(stop_load());
}

// The lease is so long that it can only have the shards back because of its name.
TEST_F(Members, OneStartsAgainUnderItsName) {
  config.more = "lease: 60s\n";
  start_nodes({1, 2});
  until_balanced({1, 2}, Ms{120'000});
  const auto of_two = [&](int more) {
    std::string list;
    for (Row& row : rows("SELECT s.id, s.epoch FROM rung_shards s JOIN rung_nodes n ON n.id = s.owner WHERE "
                         "n.name = 'n-2' AND s.expires_at > UTC_TIMESTAMP(3) ORDER BY s.id"))
      list += row["id"] + ":" + std::to_string(std::stoi(row["epoch"]) + more) + " ";
    return list;
  };
  const std::string again = of_two(1);
  publish_failed(100, "m");
  node(2).kill9();
  start_node(2);
  const std::int64_t from = wall_ms();
  EXPECT_TRUE(eventually([&] { return of_two(0) == again; }, kBound)) << of_two(0) << " and not " << again;
  std::printf("has its shards back after %ld ms\n", static_cast<long>(wall_ms() - from));
  all_ended(100);
}

}  // namespace
}  // namespace rung::test
