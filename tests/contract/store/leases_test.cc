#include <algorithm>
#include <atomic>
#include <thread>

#include "tests/contract/store/world.h"

namespace rung::test {
namespace {

TEST_P(StoreContract, ANodesNameKeepsItsNumberAndItsLastIncarnationAlone) {
  const int a = must(store_->register_node({"a", "0.1", "h:1", 1}, kTtl));
  const int b = must(store_->register_node({"b", "0.1", "h:2", 2}, kTtl));
  EXPECT_NE(a, b);
  EXPECT_TRUE(must(store_->heartbeat(a, 1, kTtl)).still_ours);
  EXPECT_EQ(must(store_->register_node({"a", "0.2", "h:3", 18'000'000'000'000'000'003U}, kTtl)), a);
  EXPECT_FALSE(must(store_->heartbeat(a, 1, kTtl)).still_ours);
  EXPECT_TRUE(must(store_->heartbeat(a, 18'000'000'000'000'000'003U, kTtl)).still_ours);
  const auto nodes = must(store_->live_nodes());
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[0].name, "a");
  EXPECT_EQ(nodes[0].version, "0.2");
  EXPECT_EQ(nodes[0].address, "h:3");
  EXPECT_EQ(nodes[0].expires_at - nodes[0].seen_at, kTtl);
  must(store_->leave(a, 1));  // a former incarnation ends nothing
  EXPECT_EQ(must(store_->live_nodes()).size(), 2U);
  must(store_->leave(a, 18'000'000'000'000'000'003U));
  EXPECT_EQ(must(store_->live_nodes()).size(), 1U);
}

TEST_P(StoreContract, AHeartbeatTellsTheDatabasesTime) {
  const int a = must(store_->register_node({"a", "0.1", "h:1", 1}, kTtl));
  const EpochMs before = must(store_->now());
  const EpochMs beat = must(store_->heartbeat(a, 1, kTtl)).now;
  EXPECT_LE(before, beat);
  EXPECT_LE(beat, must(store_->now()));
}

TEST_P(StoreContract, AShardIsTakenOnceAndByItsOwnerAgainUnderANewEpoch) {
  const Fence a = join(*store_, "a", {0, 1, 2});
  ASSERT_EQ(a.leases.size(), 3U);
  EXPECT_EQ(a.leases[0].epoch, 1U);
  const auto other = open();
  const Fence b = join(*other, "b", {1, 2, 3});
  ASSERT_EQ(b.leases.size(), 1U);
  EXPECT_EQ(b.leases[0].shard, 3);
  const std::vector<int> again{1};
  const auto mine = must(store_->acquire(a.node, again, kTtl));
  ASSERT_EQ(mine.size(), 1U);
  EXPECT_EQ(mine[0], (Lease{1, 2}));
  const auto rows = must(store_->shards());
  ASSERT_EQ(rows.size(), static_cast<std::size_t>(kShards));
  EXPECT_EQ(rows[1].owner, a.node);
  EXPECT_EQ(rows[1].epoch, 2U);
  EXPECT_EQ(rows[3].owner, b.node);
  EXPECT_EQ(rows[4].owner, 0);
  EXPECT_FALSE(rows[4].expires_at);
  EXPECT_EQ(*rows[1].expires_at - *rows[1].acquired_at, kTtl);
}

TEST_P(StoreContract, RenewAnswersWhatIsStillHeld) {
  const Fence a = join(*store_, "a", {0, 1, 2});
  const std::vector<int> one{1};
  must(store_->acquire(a.node, one, kTtl));  // our own later incarnation
  const auto renewal = must(store_->renew(a.node, a.leases, Ms{120'000}));
  EXPECT_THAT(renewal.held, testing::UnorderedElementsAre(Lease{0, 1}, Lease{2, 1}));
  const auto rows = must(store_->shards());
  EXPECT_GE(*rows[0].expires_at - renewal.now, Ms{120'000});
  EXPECT_LT(*rows[1].expires_at - renewal.now, Ms{120'000});
}

TEST_P(StoreContract, AnExpiredLeaseIsNeitherRenewedNorWrittenWithAndIsFree) {
  const Fence a = join(*store_, "a", {0}, Ms{1});
  wait_until([&] { return must(store_->now()) > *must(store_->shards())[0].expires_at; });
  EXPECT_TRUE(must(store_->renew(a.node, a.leases, kTtl)).held.empty());
  NewTask n = task();
  n.task.shard = 0;
  EXPECT_EQ(must(store_->insert(std::span(&n, 1), a)).at(0).how, Inserted::How::not_held);
  const Fence b = join(*store_, "b", {0});
  ASSERT_EQ(b.leases.size(), 1U);
  EXPECT_EQ(b.leases[0].epoch, 2U);
}

TEST_P(StoreContract, ReleasedShardsAreFreeAndForeignOnesAreNotReleased) {
  const Fence a = join(*store_, "a", {0, 1});
  const Fence b = join(*store_, "b", {2});
  must(store_->release(a.node, std::vector<Lease>{{0, 1}, {1, 99}, {2, 1}}));
  const auto rows = must(store_->shards());
  EXPECT_EQ(rows[0].owner, 0);
  EXPECT_EQ(rows[1].owner, a.node);
  EXPECT_EQ(rows[2].owner, b.node);
}

TEST_P(StoreContract, ManyWhoTakeAtOnceShareWithoutOverlap) {
  constexpr int kThreads = 4;
  std::vector<Fence> fences(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const auto store = open();
      fences[static_cast<std::size_t>(t)] = join(*store, "n" + std::to_string(t));
    });
  }
  for (auto& t : threads) t.join();
  std::vector<int> taken;
  for (const Fence& f : fences) {
    for (const Lease& l : f.leases) taken.push_back(l.shard);
  }
  std::sort(taken.begin(), taken.end());
  EXPECT_EQ(taken, all_shards());
}

}  // namespace
}  // namespace rung::test
