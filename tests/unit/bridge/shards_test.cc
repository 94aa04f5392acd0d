#include "src/bridge/leases/shards.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "src/bridge/watch/broker_watch.h"

namespace rung::bridge {
namespace {

TEST(FairShare, AddsUpAndDiffersByOneAtMost) {
  for (int n = 1; n <= 70; ++n) {
    std::vector<int> live;
    for (int i = 0; i < n; ++i) live.push_back(10 + i * 3);
    int sum = 0, least = kShards, most = 0;
    for (const int node : live) {
      const int share = fair_share(node, live);
      sum += share;
      least = std::min(least, share);
      most = std::max(most, share);
    }
    EXPECT_EQ(sum, kShards) << n << " instances";
    EXPECT_LE(most - least, 1) << n << " instances";
  }
}

TEST(FairShare, WhoHasLostTheBrokerGetsNoneWhileAnotherInstanceCanPublish) {
  const auto node = [](int id, BrokerLink link) {
    NodeRow row;
    row.id = id;
    row.link = link;
    return row;
  };
  using enum BrokerLink;
  EXPECT_EQ(sharers({node(1, up), node(2, lost), node(3, up)}), (std::vector<int>{1, 3}));
  EXPECT_EQ(sharers({node(1, up), node(2, interrupted)}), (std::vector<int>{1, 2}));
  // An outage for all instances: no shard changes hands.
  EXPECT_EQ(sharers({node(1, interrupted), node(2, lost)}), (std::vector<int>{1, 2}));
  EXPECT_EQ(fair_share(2, {1, 3}), 0);
}

TEST(Ability, IsLostAfterItsPatienceAndBackAfterTheSame) {
  using enum BrokerLink;
  Ability ability(Ms{9000});
  BootMs now{1000};
  EXPECT_EQ(ability.link(now), interrupted);
  ability.publishing(true, now);
  EXPECT_EQ(ability.link(now), up);
  ability.publishing(false, now);
  EXPECT_EQ(ability.link(now + Ms{9000}), interrupted);
  // A connection that is gone again at once does not end the outage.
  ability.publishing(true, now + Ms{5000});
  ability.publishing(false, now + Ms{7000});
  EXPECT_EQ(ability.link(now + Ms{9001}), lost);
  ability.publishing(true, now + Ms{20'000});
  EXPECT_EQ(ability.link(now + Ms{28'999}), lost);
  EXPECT_EQ(ability.link(now + Ms{29'000}), up);
}

constexpr BootMs kHeldNow{1'000'000};

class HeldShardsTest : public testing::Test {
 protected:
  HeldShardsTest() {
    for (const int shard : {3, 5, 60}) held.add({shard, 7});
  }
  HeldShards held;
};

TEST_F(HeldShardsTest, OneThatIsInUseForTooLongGoesOnAndAnotherLeavesUnlessAllMust) {
  held.begin_use(60);
  held.plan_leaving(1, false, kHeldNow);
  held.plan_leaving(1, false, kHeldNow + Ms{3000});
  EXPECT_TRUE(held.leaving(60)) << "not yet";
  held.plan_leaving(1, false, kHeldNow + Ms{3001});
  EXPECT_TRUE(held.takes_work(60));
  EXPECT_TRUE(held.leaving(5));
  held.end_use(60);
  held.plan_leaving(1, false, kHeldNow + Ms{3002});
  EXPECT_TRUE(held.leaving(60)) << "its publish has ended";
  held.begin_use(60);
  held.plan_leaving(3, true, kHeldNow + Ms{9000});
  EXPECT_TRUE(held.leaving(60));
}

}  // namespace
}  // namespace rung::bridge
