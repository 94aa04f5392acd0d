// stats, and its exit code as a health check.
#include "tests/integration/cli/fixture.h"

namespace rung::cli {
namespace {

using namespace std::chrono_literals;

class Stats : public CliTest {
 protected:
  // The node of the test holds every shard.
  void hold_all() {
    std::vector<int> all;
    for (int shard = 0; shard < kShards; ++shard) all.push_back(shard);
    store();
    hold(all);
  }
};

TEST_F(Stats, FailsWhileNobodyOwnsAShard) {
  ASSERT_EQ(rung({"migrate"}).exit, 0);
  const Ran ran = rung({"stats"});
  EXPECT_EQ(ran.exit, 1);
  EXPECT_THAT(ran.err, HasSubstr("64 of 64 shards have no live owner: no sidecar is running"));
  EXPECT_THAT(ran.out, AllOf(HasSubstr("no tasks yet"), HasSubstr("shards owned: 0 of 64")));
}

TEST_F(Stats, HealthyThenOverdue) {
  insert(fresh("orders", 10min));
  hold_all();
  const Ran good = rung({"stats"});
  EXPECT_EQ(good.exit, 0) << good.err;
  EXPECT_EQ(good.err, "");
  EXPECT_THAT(good.out, AllOf(HasSubstr("orders"), HasSubstr("shards owned: 64 of 64"),
                              HasSubstr("test-node"), HasSubstr("total: 1 scheduled; 0 overdue")));

  const TaskId late = insert(fresh("orders", -5min));
  const Ran bad = rung({"stats"});
  EXPECT_EQ(bad.exit, 1);
  EXPECT_THAT(bad.err, AllOf(HasSubstr("1 task is overdue by more than 1m"), HasSubstr(late.str())));
  EXPECT_EQ(rung({"stats", "--max-overdue", "10m"}).exit, 0);

  const json stats = rung_json({"stats"});
  EXPECT_EQ(stats["healthy"], false);
  EXPECT_EQ(stats["totals"]["scheduled"], 2);
  EXPECT_EQ(stats["overdue"], 1);
  EXPECT_EQ(stats["unowned"]["shards"], json::array());
  EXPECT_EQ(stats["nodes"][0]["shards"].size(), 64U);
}

TEST_F(Stats, AreReadWhileTheFileHasAMistake) {
  insert(fresh("orders", 10min));
  hold_all();
  std::ofstream(config_path(), std::ios::app) << "queues: { orders: { lader: fast } }\n";
  for (const std::vector<std::string>& reads : std::vector<std::vector<std::string>>{
           {"stats"}, {"nodes"}, {"list"}, {"queues"}, {"causes"}, {"audit"}, {"bulk", "list"}}) {
    const Ran ran = rung(reads);
    EXPECT_EQ(ran.exit, 0) << reads.front();
    EXPECT_THAT(ran.err, HasSubstr("warning: queues.orders: unknown key \"lader\": did you mean ladder?"));
  }
  const Ran change = rung({"cancel", "1"});
  EXPECT_THAT(change.err, AllOf(HasSubstr("unknown key"), Not(HasSubstr("warning")))) << "it needs the rules";
}

}  // namespace
}  // namespace rung::cli
