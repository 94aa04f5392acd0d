// One of two instances is stopped for longer than its lease, and resumes when the other has done its work. It
// must not touch what it lost, and must continue as a member. What it must not do, step by step: Deposed.
#include <csignal>

#include "src/core/base/url.h"
#include "tests/faults/instances/fixture.h"
#include "tests/support/proxy.h"

namespace rung::test {
namespace {

class Paused : public InstancesTest {};

// What it has locked in the database must not keep the other from taking over. (A network that swallows one
// instance's packets looks the same.)
TEST_F(Paused, UnderLoadWithinATransactionItHoldsUpNobodyAndGoesOn) {
  config.more = "lease: 3s\n";
  const auto url = parse_url(db.url());
  TcpProxy mysql(url->host, url->port == 0 ? 3306 : url->port);
  config.store_url = with_port(db.url(), mysql.port());
  start_node(1);
  config.store_url = db.url();
  start_node(2);
  for (const int i : {1, 2}) ASSERT_TRUE(node(i).wait_ready(kBound, 2));
  until_balanced({1, 2});
  start_load(150);
  ASSERT_TRUE(eventually([&] { return consumer->count() > 200; }, kBound));
  mysql.deafen("JSON_ARRAY(t.rule", "FOR UPDATE");  // tasks are locked, and the transaction is open
  ASSERT_TRUE(eventually([&] { return mysql.deafened(); }, kBound));
  node(1).signal(SIGSTOP);
  until_balanced({2});
  const auto taken_over = [&] {
    return number(
        "SELECT COUNT(*) FROM retry_events WHERE kind = 'shards_taken_over' AND node = 'n-2' AND subject = "
        "'n-1'");
  };
  EXPECT_TRUE(eventually([&] { return taken_over() > 0; }, kBound));
  const std::int64_t before = delivered()["n-1"];
  node(1).signal(SIGCONT);
  until_balanced({1, 2});
  EXPECT_TRUE(eventually([&] { return delivered()["n-1"] > before + 50; }, kBound))
      << "it is a member that does nothing";
  all_ended(stop_load());
}

}  // namespace
}  // namespace rung::test
