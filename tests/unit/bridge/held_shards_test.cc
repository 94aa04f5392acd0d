#include <gtest/gtest.h>

#include "src/bridge/leases/shards.h"

namespace rung::bridge {
namespace {

constexpr BootMs kHeldNow{1'000'000};

class HeldShardsTest : public testing::Test {
 protected:
  HeldShardsTest() {
    for (const int shard : {3, 5, 60}) held.add({shard, 7});
  }
  HeldShards held;
};

TEST_F(HeldShardsTest, NewTasksTakeTurns) {
  EXPECT_EQ(held.count(), 3);
  EXPECT_EQ(held.next(), 3);
  EXPECT_EQ(held.next(), 5);
  EXPECT_EQ(held.next(), 60);
  EXPECT_EQ(held.next(), 3);
  held.clear();
  EXPECT_EQ(held.next(), -1);
  EXPECT_EQ(held.count(), 0);
}

TEST_F(HeldShardsTest, AnotherEpochIsNoFurtherShard) {
  held.add({5, 8});
  EXPECT_EQ(held.count(), 3);
  EXPECT_EQ(held.epoch(5), 8U);
  held.remove(5);
  held.remove(5);
  EXPECT_EQ(held.count(), 2);
  EXPECT_EQ(held.epoch(5), 0U);
}

TEST_F(HeldShardsTest, TheHighestLeaveAndTakeNoWorkUntilThePlanChanges) {
  held.plan_leaving(1, false, kHeldNow);
  EXPECT_TRUE(held.leaving(60));
  EXPECT_FALSE(held.takes_work(60));
  EXPECT_EQ(held.list().size(), 3U) << "held until it is given back";
  held.plan_leaving(0, false, kHeldNow);
  EXPECT_TRUE(held.takes_work(60));
}

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

// A claim may come back after its shard was lost.
TEST_F(HeldShardsTest, AUseOutlivesTheLease) {
  held.begin_use(5);
  held.clear();
  EXPECT_TRUE(held.in_use(5));
  held.end_use(5);
  EXPECT_FALSE(held.in_use(5));
}

}  // namespace
}  // namespace rung::bridge
