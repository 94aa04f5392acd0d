// nodes: the owners of the shards, and how late they are.
#include "tests/integration/cli/fixture.h"

namespace rung::cli {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class NodesCommand : public CliTest {
 protected:
  // A node with these shards; its lease of an hour.
  int join(const std::string& name, const std::vector<int>& shards) {
    const int id = *store().register_node({name, "9.9", "host-" + name + ":77", kIncarnation}, 1h);
    if (!shards.empty()) {
      EXPECT_EQ(store().acquire(id, kIncarnation, shards, 1h)->size(), shards.size());
    }
    return id;
  }
  // Moves everything about the node into the past.
  void age(int node, const std::string& interval) {
    db.exec("UPDATE rung_nodes SET started_at = started_at - INTERVAL " + interval +
            ", seen_at = seen_at - INTERVAL " + interval + ", expires_at = expires_at - INTERVAL " +
            interval + " WHERE id = " + std::to_string(node));
    db.exec("UPDATE rung_shards SET expires_at = expires_at - INTERVAL " + interval +
            " WHERE owner = " + std::to_string(node));
  }
  static constexpr std::uint64_t kIncarnation = 5;
};

TEST_F(NodesCommand, TellsTheLivingFromTheDeadAndThoseThatLeft) {
  join("alive", {10, 11, 12, 20, 40, 41});
  const int dead = join("killed", {50, 51});
  const int left = join("stopped", {60});
  insert(fresh("orders", -5min));  // in shard 3, test-node's
  insert(fresh("orders", -2min));
  insert(fresh("orders", 10min));
  age(dead, "2 HOUR");
  ASSERT_TRUE(store().leave(left, kIncarnation));

  const Ran ran = rung({"nodes"});
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_THAT(ran.out, ContainsRegex("alive +live +" + kJustNow + " +" + kJustNow + " +6 +10-12,20,40-41 +" +
                                     kJustNow + " +0 +- +9.9 +host-alive:77"));
  EXPECT_THAT(ran.out, ContainsRegex("killed +dead +1h ago +2h ago +0 +- "));
  EXPECT_THAT(ran.out, ContainsRegex("stopped +left +" + kJustNow + " +" + kJustNow + " +0 +- "));
  EXPECT_THAT(ran.out, ContainsRegex("test-node +live .* 1 +3 +" + kJustNow + " +2 +5m"));
  EXPECT_THAT(ran.out, ContainsRegex("\\(unowned\\) .* 57 +0-2,4-9,13-19,21-39,42-63 "));

  const json nodes = rung_json({"nodes"});
  ASSERT_EQ(nodes["nodes"].size(), 4U);
  std::map<std::string, json> by_name;
  for (const json& node : nodes["nodes"]) by_name[node["node"]] = node;
  EXPECT_EQ(by_name["alive"]["state"], "live");
  EXPECT_EQ(by_name["alive"]["shards"], json::array({10, 11, 12, 20, 40, 41}));
  EXPECT_EQ(by_name["alive"]["overdue"], 0);
  EXPECT_TRUE(by_name["alive"]["oldest_overdue_ms"].is_null());
  EXPECT_TRUE(by_name["alive"]["taken_at"].is_string());
  EXPECT_EQ(by_name["test-node"]["overdue"], 2);
  EXPECT_NEAR(by_name["test-node"]["oldest_overdue_ms"].get<double>(), 300'000.0, 60'000.0);
  EXPECT_EQ(by_name["killed"]["state"], "dead");
  EXPECT_EQ(by_name["killed"]["shards"], json::array());
  EXPECT_EQ(by_name["stopped"]["state"], "left");
  EXPECT_EQ(nodes["unowned"]["shards"].size(), 57U);
}

TEST_F(NodesCommand, ThoseWithAnotherConfigAreMarked) {
  const std::string most = "0123456789abcdef", other = "fedcba9876543210";
  for (const auto& [name, config] :
       std::map<std::string, std::string>{{"a", most}, {"b", most}, {"c", other}}) {
    const int id = join(name, {});
    ASSERT_TRUE(store().heartbeat(id, kIncarnation, 1h, {}, BrokerLink::up, config));
  }
  const int gone = join("gone", {});
  ASSERT_TRUE(store().heartbeat(gone, kIncarnation, 1h, {}, BrokerLink::up, other));
  ASSERT_TRUE(store().leave(gone, kIncarnation));
  const Ran ran = rung({"nodes"});
  EXPECT_THAT(ran.out, ContainsRegex("a +live .*host-a:77 +01234567\n"));
  EXPECT_THAT(ran.out, ContainsRegex("c +live .*host-c:77 +fedcba98 differs\n"));
  EXPECT_THAT(ran.out, ContainsRegex("gone +left .*host-gone:77 +fedcba98\n"));
  EXPECT_THAT(ran.out, HasSubstr("live nodes have different configs"));
  std::map<std::string, json> by_name;
  const json all = rung_json({"nodes"});
  for (const json& node : all["nodes"]) by_name[node["node"]] = node;
  EXPECT_EQ(by_name["a"]["config"], most);
  EXPECT_EQ(by_name["a"]["config_differs"], false);
  EXPECT_EQ(by_name["c"]["config_differs"], true);
  EXPECT_TRUE(by_name["test-node"]["config"].is_null());
}

TEST_F(NodesCommand, WhatNobodyHoldsIsLateToo) {
  insert(fresh("orders", -5min));
  db.exec("UPDATE rung_shards SET expires_at = UTC_TIMESTAMP(3) - INTERVAL 1 SECOND");
  const json nodes = rung_json({"nodes"});
  EXPECT_EQ(nodes["unowned"]["shards"].size(), 64U);
  EXPECT_EQ(nodes["unowned"]["overdue"], 1);
  EXPECT_THAT(rung({"nodes"}).out, ContainsRegex("\\(unowned\\) .* 64 +0-63 +- +1 +5m"));
}

TEST_F(NodesCommand, ThoseLongGoneAreShownWhenAskedFor) {
  store();
  const int old = join("old", {});
  ASSERT_TRUE(store().leave(old, kIncarnation));
  age(old, "3 DAY");
  const Ran ran = rung({"nodes"});
  EXPECT_THAT(ran.out, AllOf(Not(ContainsRegex("old +left")),
                             HasSubstr("not shown: 1 nodes that ended over a day ago")));
  EXPECT_EQ(rung_json({"nodes"})["not_shown"], 1);
  EXPECT_THAT(rung({"nodes", "--all"}).out, AllOf(ContainsRegex("old +left +3d"), Not(HasSubstr("1 more"))));
}

TEST_F(NodesCommand, BeforeAnyNodeNobodyHoldsAnything) {
  ASSERT_EQ(rung({"migrate"}).exit, 0);
  const Ran ran = rung({"nodes"});
  EXPECT_EQ(ran.exit, 0);
  EXPECT_THAT(ran.out, ContainsRegex("\\(unowned\\) .* 64 +0-63"));
}

// It reads only due tasks: a few entries of one index, among many tasks that are not due.
TEST_F(NodesCommand, ReadsTheIndexOfWhatIsDueAlone) {
  insert(fresh("orders", -5min));
  db.exec(
      "INSERT INTO rung_tasks (id, shard, state, next_at) SELECT seq, seq % 64, 'scheduled', "
      "UTC_TIMESTAMP(3) + "
      "INTERVAL 1 DAY FROM " +
      test::numbers(20000));
  db.query("ANALYZE TABLE rung_tasks");
  std::string all;
  for (int shard = 0; shard < kShards; ++shard) all += (all.empty() ? "" : ",") + std::to_string(shard);
  const std::string statement =
      "SELECT shard, COUNT(*), MIN(next_at) FROM rung_tasks FORCE INDEX (by_shard) WHERE stage = 1 AND "
      "shard IN (" +
      all + ") AND next_at <= UTC_TIMESTAMP(3) GROUP BY shard ORDER BY shard";
  const auto plan = db.explain(statement);
  ASSERT_EQ(plan.size(), 1U);
  EXPECT_EQ(plan[0].at("type"), "range");
  EXPECT_EQ(plan[0].at("key"), "by_shard");
  EXPECT_THAT(plan[0].at("Extra"),
              AllOf(HasSubstr("Using index"), Not(HasSubstr("temporary")), Not(HasSubstr("filesort"))));
  // Also counts the entries that it really read, not only what EXPLAIN predicts.
  db.exec("FLUSH STATUS");
  EXPECT_EQ(db.query(statement).size(), 1U);
  std::int64_t read = 0;
  for (const auto& row : db.query("SHOW SESSION STATUS LIKE 'Handler_read%'")) read += std::stoll(row[1]);
  EXPECT_LT(read, 200) << "entries read, of 20001";
}

}  // namespace
}  // namespace rung::cli
