#include <algorithm>

#include "tests/contract/store/world.h"

namespace rung::test {
namespace {

TEST_P(StoreContract, ABeatSaysWhatIsWrongWithTheNode) {
  const int a = store_->register_node({"a", "1.0", "here", 1}, kTtl);
  const std::vector<HealthProblem> problems = {{"clock", "an hour \"ahead\"", EpochMs{1700000000000}, true}};
  store_->heartbeat(a, 1, kTtl, problems);
  EXPECT_EQ(store_->live_nodes().at(0).problems, problems);
  EXPECT_EQ(store_->heartbeat(a, 1, kTtl, {}, BrokerLink::lost).live.at(0).link, BrokerLink::lost);
  EXPECT_EQ(store_->live_nodes().at(0).link, BrokerLink::lost);
  EXPECT_TRUE(store_->live_nodes().at(0).problems.empty());
}

TEST_P(StoreContract, EventsAndSettingsAreKept) {
  const int a = store_->register_node({"a", "1.0", "here", 1}, kTtl);
  store_->record_event(a, {"topology_repaired", "rung.failed", "declared again"});
  store_->record_event(0, {"clock_step", "", "an hour"});
  const auto told = events(10);
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[0].kind, "clock_step");
  EXPECT_EQ(told[1].node, "a");
  EXPECT_EQ(told[1].subject, "rung.failed");
  EXPECT_EQ(store_->setting("s", ""), "");
  EXPECT_EQ(store_->setting("s", "one"), "one");
  EXPECT_EQ(store_->setting("s", "two"), "one");
  store_->set_setting("s", "three");
  EXPECT_EQ(store_->setting("s", "two"), "three");
  store_->set_setting("s", "");
  EXPECT_EQ(store_->setting("s", ""), "") << "removed";
}

TEST_P(StoreContract, ANodesNameKeepsItsNumberAndItsLastIncarnationAlone) {
  const int a = store_->register_node({"a", "0.1", "h:1", 1}, kTtl);
  const int b = store_->register_node({"b", "0.1", "h:2", 2}, kTtl);
  EXPECT_NE(a, b);
  EXPECT_TRUE(store_->heartbeat(a, 1, kTtl, {}).still_ours);
  EXPECT_EQ(store_->register_node({"a", "0.2", "h:3", 18'000'000'000'000'000'003U}, kTtl), a);
  EXPECT_FALSE(store_->heartbeat(a, 1, kTtl, {}).still_ours);
  EXPECT_TRUE(store_->heartbeat(a, 18'000'000'000'000'000'003U, kTtl, {}).still_ours);
  const auto nodes = store_->live_nodes();
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[0].name, "a");
  EXPECT_EQ(nodes[0].version, "0.2");
  EXPECT_EQ(nodes[0].address, "h:3");
  EXPECT_EQ(nodes[0].expires_at - nodes[0].seen_at, kTtl);
  store_->leave(a, 1);  // an earlier incarnation has no effect
  EXPECT_EQ(store_->live_nodes().size(), 2U);
  store_->leave(a, 18'000'000'000'000'000'003U);
  EXPECT_EQ(store_->live_nodes().size(), 1U);
}

TEST_P(StoreContract, AHeartbeatTellsTheDatabasesTime) {
  const int a = store_->register_node({"a", "0.1", "h:1", 1}, kTtl);
  const EpochMs before = db_now();
  const EpochMs beat = store_->heartbeat(a, 1, kTtl, {}).now;
  EXPECT_LE(before, beat);
  EXPECT_LE(beat, db_now());
}

TEST_P(StoreContract, AShardIsTakenOnceAndByItsOwnerAgainUnderANewEpoch) {
  const Fence a = join("a", {0, 1, 2});
  ASSERT_EQ(a.leases.size(), 3U);
  EXPECT_EQ(a.leases[0].epoch, 1U);
  const Fence b = join("b", {1, 2, 3});
  ASSERT_EQ(b.leases.size(), 1U);
  EXPECT_EQ(b.leases[0].shard, 3);
  const std::vector<int> again{1};
  const auto mine = store_->acquire(a.node, kIncarnation, again, kTtl);
  ASSERT_EQ(mine.size(), 1U);
  EXPECT_EQ(mine[0], (Lease{1, 2}));
  const auto rows = store_->shards();
  ASSERT_EQ(rows.size(), static_cast<std::size_t>(kShards));
  EXPECT_EQ(rows[1].owner, a.node);
  EXPECT_EQ(rows[1].epoch, 2U);
  EXPECT_EQ(rows[3].owner, b.node);
  EXPECT_EQ(rows[3].owner_name, "b");
  EXPECT_EQ(rows[4].owner, 0);
  EXPECT_EQ(rows[4].owner_name, "");
  EXPECT_FALSE(rows[4].expires_at);
  EXPECT_EQ(*rows[1].expires_at - *rows[1].acquired_at, kTtl);
}

TEST_P(StoreContract, RenewAnswersWhatIsStillHeld) {
  const Fence a = join("a", {0, 1, 2});
  const std::vector<int> one{1};
  store_->acquire(a.node, kIncarnation, one, kTtl);  // our own later incarnation
  const EpochMs before = db_now();
  EXPECT_THAT(store_->renew(a.node, a.leases, Ms{120'000}),
              testing::UnorderedElementsAre(Lease{0, 1}, Lease{2, 1}));
  const auto rows = store_->shards();
  EXPECT_GE(*rows[0].expires_at - before, Ms{120'000});
  EXPECT_LT(*rows[1].expires_at - before, Ms{120'000});
}

TEST_P(StoreContract, AnExpiredLeaseIsNeitherRenewedNorWrittenWithAndIsFree) {
  const Fence a = join("a", {0}, Ms{1});
  wait_until([&] { return db_now() > *store_->shards()[0].expires_at; });
  EXPECT_TRUE(store_->renew(a.node, a.leases, kTtl).empty());
  NewTask n = task();
  n.task.shard = 0;
  EXPECT_EQ(store_->insert(std::span(&n, 1), a).at(0).how, Inserted::How::not_held);
  const Fence b = join("b", {0});
  ASSERT_EQ(b.leases.size(), 1U);
  EXPECT_EQ(b.leases[0].epoch, 2U);
}

TEST_P(StoreContract, AShardSaysWhenItWasLastTakenFromAnOwnerThatHadNotGivenItBack) {
  const auto taken_over_at = [&] { return store_->shards()[0].taken_over_at; };
  const std::vector<int> zero{0};
  join("a", zero, Ms{1});
  EXPECT_FALSE(taken_over_at()) << "it was free";
  wait_until([&] { return db_now() > *store_->shards()[0].expires_at; });
  const Fence b = join("b", zero);
  const auto then = taken_over_at();
  ASSERT_TRUE(then);
  EXPECT_EQ(then, store_->shards()[0].acquired_at);
  const auto again = store_->acquire(b.node, kIncarnation, zero, kTtl);
  store_->release(b.node, again);
  ASSERT_EQ(join("c", zero).leases.size(), 1U);
  EXPECT_EQ(taken_over_at(), then) << "also for those who have it after";
}

TEST_P(StoreContract, ReleasedShardsAreFreeAndForeignOnesAreNotReleased) {
  const Fence a = join("a", {0, 1});
  const Fence b = join("b", {2});
  store_->release(a.node, std::vector<Lease>{{0, 1}, {1, 99}, {2, 1}});
  const auto rows = store_->shards();
  EXPECT_EQ(rows[0].owner, 0);
  EXPECT_EQ(rows[1].owner, a.node);
  EXPECT_EQ(rows[2].owner, b.node);
}

TEST_P(StoreContract, AFormerIncarnationTakesNothingAndGivesNothingBack) {
  const Fence former = join("a", {0, 1});
  const Fence other = join("b", {2});
  constexpr std::uint64_t kNext = kIncarnation + 1;
  ASSERT_EQ(store_->register_node({"a", "0.1", "h:1", kNext}, kTtl), former.node);
  EXPECT_TRUE(store_->acquire(former.node, kIncarnation, all_shards(), kTtl).empty());
  EXPECT_TRUE(store_->acquire(former.node, 0, all_shards(), kTtl).empty());
  const std::vector<int> two{1, 3};
  EXPECT_THAT(store_->acquire(former.node, kNext, two, kTtl), testing::ElementsAre(Lease{1, 2}, Lease{3, 1}));
  store_->leave(former.node, kIncarnation);
  const auto rows = store_->shards();
  EXPECT_EQ(rows[0].owner, former.node);
  EXPECT_EQ(rows[0].epoch, 1U);
  EXPECT_EQ(rows[1].owner, former.node);
  EXPECT_EQ(rows[4].owner, 0);
  // It still owns shards whose epoch nobody else has taken over yet, and no others.
  EXPECT_THAT(store_->renew(former.node, former.leases, kTtl), testing::ElementsAre(Lease{0, 1}));
}

TEST_P(StoreContract, WhoLeavesGivesBackAllThatIsItsOwn) {
  const Fence a = join("a", {0, 1, 2});
  const Fence b = join("b", {3});
  store_->leave(a.node, kIncarnation);
  const auto rows = store_->shards();
  for (const int shard : {0, 1, 2}) {
    EXPECT_EQ(rows[static_cast<std::size_t>(shard)].owner, 0);
    EXPECT_FALSE(rows[static_cast<std::size_t>(shard)].expires_at);
    EXPECT_EQ(rows[static_cast<std::size_t>(shard)].epoch, 1U);
  }
  EXPECT_EQ(rows[3].owner, b.node);
  store_->leave(a.node, kIncarnation);  // after a lost answer: the same
  EXPECT_THAT(store_->acquire(b.node, kIncarnation, std::vector<int>{0}, kTtl),
              testing::ElementsAre(Lease{0, 2}));
}

TEST_P(ReadContract, NodesAreAllThatEverWere) {
  const Fence a = join("a", {0});
  const Fence b = join("b", {1});
  store_->leave(a.node, kIncarnation);
  const auto nodes = database().nodes();
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[0].name, "a");
  EXPECT_LE(nodes[0].expires_at, db_now());
  EXPECT_EQ(nodes[0].seen_at, nodes[0].expires_at) << "it left";
  EXPECT_LT(nodes[1].seen_at, nodes[1].expires_at);
  EXPECT_EQ(nodes[1].id, b.node);
  EXPECT_EQ(nodes[1].address, "host:1");
  EXPECT_EQ(store_->live_nodes().size(), 1U);
}

TEST_P(ReadContract, OverdueIsWhatIsScheduledAndDueByShard) {
  const EpochMs now = db_now();
  std::vector<NewTask> tasks;
  for (int i = 0; i < 7; ++i) {
    tasks.push_back(task());
    tasks.back().task.shard = i < 3 || i == 6 ? 4 : 60;
    tasks.back().task.next_at = now - Ms{1000 * (i + 1)};
  }
  tasks[3].task.next_at = now + Ms{600'000};
  tasks[4].task.state = State::awaiting;
  tasks[5].task.state = State::publishing;
  tasks[6].task.state = State::publishing;
  tasks[6].task.next_at = now - Ms{500};
  store_->insert(tasks, fence());
  const auto late = database().overdue();
  ASSERT_EQ(late.size(), 1U);
  EXPECT_EQ(late[0].shard, 4);
  EXPECT_EQ(late[0].tasks, 3);
  EXPECT_EQ(late[0].oldest, now - Ms{3000});
}

// --- a process that wakes up after its lease expired: everything that it may still try

class Deposed : public StoreContract {
 protected:
  void SetUp() override {
    StoreContract::SetUp();
    old = join("a", {7});
    claimed = put();
    applied(old, claimed, event::Claim{});
    waiting = put();
    EXPECT_EQ(store_->renew(old.node, old.leases, Ms{1}), old.leases);  // and it expires
    wait_until([&] {
      heir = join("b", {7});
      return !heir.leases.empty();
    });
  }
  TaskId put() {
    NewTask n = task();
    n.task.shard = 7;
    return insert(n, old);
  }

  Fence old, heir;
  TaskId claimed, waiting;  // claimed: by the old owner; waiting: not yet
};

TEST_P(Deposed, RenewsNothingAndTakesNothing) {
  EXPECT_TRUE(store_->renew(old.node, old.leases, kTtl).empty());
  const std::vector<int> shard{7};
  EXPECT_TRUE(store_->acquire(old.node, kIncarnation, shard, kTtl).empty());
  store_->release(old.node, old.leases);
  store_->leave(old.node, kIncarnation);
  EXPECT_EQ(store_->shards()[7].owner, heir.node);
}

TEST_P(Deposed, InsertsNothing) {
  NewTask n = task();
  n.task.shard = 7;
  EXPECT_EQ(store_->insert(std::span(&n, 1), old).at(0).how, Inserted::How::not_held);
  EXPECT_FALSE(store_->find(n.task.id));
  EXPECT_EQ(store_->insert(std::span(&n, 1), heir).at(0).how, Inserted::How::inserted);
}

TEST_P(Deposed, ClaimsNothing) {
  for (const TaskId id : {waiting, claimed})
    EXPECT_EQ(apply_one(old, id, event::Claim{}).verdict, Verdict::stale);
  EXPECT_EQ(get(waiting).state, State::scheduled);
  EXPECT_EQ(get(waiting).attempt, 0);
  applied(heir, waiting, event::Claim{});
}

// Its publish was returned or refused; meanwhile the new owner publishes the same attempt.
TEST_P(Deposed, TakesNoPublishBackAndFailsNone) {
  applied(heir, claimed, event::Claim{.again = true});
  EXPECT_EQ(get(claimed).attempt, 1) << "the heir's is the same attempt";
  const EpochMs now = db_now();
  EXPECT_EQ(apply_one(old, claimed, event::Deferred{1, Ms{1}, "full"}).verdict, Verdict::stale);
  EXPECT_EQ(apply_one(old, claimed, event::Returned{1, now, "no queue"}).verdict, Verdict::stale);
  const Task after = get(claimed);
  EXPECT_EQ(after.state, State::publishing);
  EXPECT_EQ(after.attempt, 1);
  EXPECT_EQ(after.node, heir.node);
}

// Events that any caller may report, it may report late: they count once, whoever reports them.
TEST_P(Deposed, FinishesNothingThatTheHeirMovedOn) {
  const EpochMs now = db_now();
  const auto heirs = [&](Happening what) { return apply_one(heir, claimed, std::move(what)).verdict; };
  EXPECT_EQ(heirs(event::Claim{.again = true}), Verdict::applied);
  EXPECT_EQ(heirs(event::Confirmed{1, now}), Verdict::applied);
  EXPECT_EQ(heirs(event::Failed{1, "e", "", {}}), Verdict::applied);
  wait_until([&] { return heirs(event::Claim{}) == Verdict::applied; });
  const Task before = get(claimed);
  ASSERT_EQ(before.attempt, 2);
  for (const Happening& late : std::initializer_list<Happening>{
           event::Confirmed{1, now}, event::Returned{1, now, "r"}, event::Deferred{1, Ms{1}, "d"},
           event::Failed{1, "again", "", {}}, event::SilenceOver{}})
    apply_one(old, claimed, late);
  EXPECT_TRUE(get(claimed) == before);
}

TEST_P(Deposed, GoesOnAsAFreshMember) {
  store_->release(heir.node, heir.leases);
  const Fence fresh = join("a", {7});
  ASSERT_EQ(fresh.leases.size(), 1U);
  EXPECT_EQ(fresh.leases[0].epoch, 3U);
  EXPECT_EQ(apply_one(old, waiting, event::Claim{}).verdict, Verdict::stale)
      << "under the epoch that it lost";
  applied(fresh, waiting, event::Claim{});
}

INSTANTIATE_TEST_SUITE_P(Stores, Deposed, testing::Values("memory", "mysql"),
                         [](const auto& p) { return p.param; });

TEST_P(StoreContract, ManyWhoTakeAtOnceShareWithoutOverlap) {
  constexpr int kThreads = 4;
  std::vector<Fence> fences(kThreads);
  in_threads(kThreads, [&](int t) {
    const auto store = open();
    Fence& fence = fences[static_cast<std::size_t>(t)];
    fence.node = store->register_node({"n" + std::to_string(t), "0.1.0", "host:1", kIncarnation}, kTtl);
    fence.leases = store->acquire(fence.node, kIncarnation, all_shards(), kTtl);
  });
  std::vector<int> taken;
  for (const Fence& f : fences) {
    for (const Lease& l : f.leases) taken.push_back(l.shard);
  }
  std::sort(taken.begin(), taken.end());
  EXPECT_EQ(taken, all_shards());
}

}  // namespace
}  // namespace rung::test
