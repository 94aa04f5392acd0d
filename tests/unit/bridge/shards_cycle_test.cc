// The cycles of several instances on one loop and one database in memory, in virtual time.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "src/bridge/leases/shards.h"
#include "tests/unit/bridge/flow_fixture.h"

namespace rung::bridge {
namespace {

constexpr Ms kLease{500};
constexpr Ms kCycleBound{10'000};

struct Instance {
  Instance(test::VirtualLoop& loop, const std::shared_ptr<MemoryDb>& db, const std::string& name,
           std::uint64_t number, Ms lease)
      : clock(loop.clock()),
        jobs(loop, [db] { return open_memory_store(db); }),
        shards(loop, jobs, clock, {{name, "0", "here", number}, lease, Ms{1000}},
               {[](const std::vector<Gained>&) {}, [](const std::vector<int>&) {},
                [this](BootMs until) {
                  publish_until = until;
                  if (left && until.ms != 0) opened_after_leaving = true;
                },
                [this] { name_taken = true; },
                [this](const Shards::Notice& notice) { notices.push_back(notice); }}) {}
  DbClock clock;
  BootMs publish_until{0};
  bool left = false, opened_after_leaving = false, name_taken = false;
  std::vector<Shards::Notice> notices;
  test::VirtualJobs jobs;
  Shards shards;
};

class ShardsCycle : public testing::Test, protected World {
 protected:
  Instance& add(const std::string& name) {
    all.push_back(std::make_unique<Instance>(loop, db, name, 100 + all.size(), lease));
    return *all.back();
  }
  Instance& start(const std::string& name) {
    Instance& one = add(name);
    one.shards.start();
    return one;
  }
  // Starts them and waits until they have shared the shards; returns the first.
  Instance& share(const std::vector<const char*>& names) {
    for (const char* name : names) start(name);
    until([&] { return balanced(); });
    return *all[0];
  }
  // Runs the loop until the condition holds; returns how long that took. Fails the test at the time limit.
  Ms until(const std::function<bool()>& condition) {
    const BootMs from = clock->boot();
    EXPECT_TRUE(loop.run_until(condition, kCycleBound)) << "the condition did not come";
    return clock->boot() - from;
  }
  int owned(const Instance& instance) const {
    const auto rows = eyes->shards();
    return static_cast<int>(std::ranges::count_if(rows, [&](const ShardRow& row) {
      return row.owner != 0 && row.owner == instance.shards.node() && *row.expires_at > db->now();
    }));
  }
  // What the others read about its connection to the broker.
  BrokerLink told(const Instance& instance) const {
    const auto nodes = eyes->live_nodes();
    const auto its = std::ranges::find(nodes, instance.shards.node(), &NodeRow::id);
    return its == nodes.end() ? BrokerLink::up : its->link;
  }
  bool balanced() const {
    return std::ranges::all_of(all, [&](const auto& one) {
      const int share = kShards / static_cast<int>(all.size()), n = owned(*one);
      return (n == share || n == share + 1) && one->shards.count() == n;
    });
  }

  Ms lease = kLease;
  std::vector<std::unique_ptr<Instance>> all;
};

TEST_F(ShardsCycle, ShareWithinTwoLeases) {
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    start(name);
    EXPECT_LT(until([&] { return balanced(); }), kLease * 2) << all.size() << " instances";
  }
}

TEST_F(ShardsCycle, WhoLosesTheBrokerAloneGivesItsShardsUpUntilItIsBack) {
  lease = Ms{2000};  // a lease that runs out on a busy machine would change hands, too
  Instance &cut = share({"a", "b"}), &peer = *all[1];
  cut.shards.set_link(BrokerLink::interrupted);
  peer.shards.set_link(BrokerLink::interrupted);
  until([&] { return told(cut) == BrokerLink::interrupted && told(peer) == BrokerLink::interrupted; });
  cut.shards.set_link(BrokerLink::lost);
  loop.run_for(lease * 2);
  EXPECT_TRUE(balanced()) << "nobody can publish: shards stay where they are";
  peer.shards.set_link(BrokerLink::up);
  const auto changed_hands = [&] { return owned(peer) == kShards && owned(cut) == 0; };
  EXPECT_LT(until([&] { return changed_hands() && cut.shards.stepped_back(); }), lease * 2);
  EXPECT_EQ(cut.publish_until.ms, 0) << "the fence is closed";
  cut.shards.set_link(BrokerLink::up);
  EXPECT_LT(until([&] { return balanced() && !cut.shards.stepped_back(); }), lease * 2);
}

TEST_F(ShardsCycle, ALinkThatChangesDuringACycleIsToldAtOnce) {
  lease = Ms{9000};
  Instance& one = start("a");
  // Fires right after the timer that begins the first cycle, and before its answer.
  io::Timer change(loop, [&] { one.shards.set_link(BrokerLink::interrupted); });
  change.start(Ms{0});
  EXPECT_LT(until([&] { return told(one) == BrokerLink::interrupted; }), lease / 3 / 2);
}

TEST_F(ShardsCycle, WhereTheOnlyOneThatCanPublishBlinksNothingChangesHands) {
  lease = Ms{2000};
  Instance &cut = share({"a", "b"}), &peer = *all[1];
  cut.shards.set_link(BrokerLink::lost);
  until([&] { return owned(peer) == kShards; });
  peer.shards.set_link(BrokerLink::interrupted);
  loop.run_for(lease * 2);
  EXPECT_EQ(owned(peer), kShards);
  EXPECT_EQ(owned(cut), 0);
}

// Every claim ends, but there is always the next one, as long as the shard takes any.
TEST_F(ShardsCycle, AShardThatIsAlwaysInUseIsHandedOver) {
  Instance& busy = share({"a"});
  std::array<BootMs, kShards> ends{};
  io::Timer work(loop, [&] {
    for (int s = 0; s < kShards; ++s) {
      BootMs& end = ends[static_cast<std::size_t>(s)];
      if (busy.shards.held(s)) {
        if (!busy.shards.in_use(s)) busy.shards.begin_use(s);
        end = clock->boot() + Ms{60};  // claimed again
      } else if (busy.shards.in_use(s) && clock->boot() >= end) {
        busy.shards.end_use(s);
      }
    }
  });
  work.start(Ms{0}, Ms{5});
  start("b");
  EXPECT_LT(until([&] { return balanced(); }), kLease * 2);
}

// tests/simulation --seed 10: it took no new claims as long as a publish of it had no answer, and a queue
// that never answers gives none.
TEST_F(ShardsCycle, AShardThatCannotBeGivenBackGoesOnWorkingAndAnotherIsGivenBack) {
  Instance& busy = share({"a"});
  busy.shards.begin_use(63);
  start("b");
  until([&] { return owned(busy) == 33; });
  EXPECT_FALSE(busy.shards.held(63)) << "it is to be given back: no new claims";
  until([&] { return balanced(); });
  EXPECT_TRUE(busy.shards.held(63));
  loop.run_for(kLease * 20);
  EXPECT_TRUE(balanced());
  EXPECT_TRUE(busy.shards.held(63));
}

// Four have to notice, each at its own third of the lease if nothing else made them look.
TEST_F(ShardsCycle, WhoDiesIsTakenOverWhenItsLeaseRunsOut) {
  lease = Ms{3000};
  share({"a", "b", "c", "d", "e"});
  // No more word from it, and its last renewal is as fresh as can be.
  until([&] {
    const auto rows = eyes->shards();
    const auto its = std::ranges::find(rows, all[4]->shards.node(), &ShardRow::owner);
    return its != rows.end() && *its->expires_at - db->now() > lease - Ms{30};
  });
  all.pop_back();
  const Ms took = until([&] { return balanced(); });
  EXPECT_GE(took, lease - Ms{50});
  EXPECT_LT(took, lease + Ms{450}) << "a third of the lease more is what it took before";
}

// One third of the lease until the other notices; what follows waits for nobody's third.
TEST_F(ShardsCycle, WhatIsGivenBackIsTakenAtOnce) {
  lease = Ms{3000};
  share({"a"});
  start("b");
  EXPECT_LT(until([&] { return balanced(); }), lease / 3 + Ms{600});
}

TEST_F(ShardsCycle, WhoLeavesWhileItsCycleIsUnderWayGivesAllBack) {
  for (int turn = 0; turn < 20; ++turn) {
    Instance& one = add("a");
    one.jobs.by_itself(Lane::leases, Ms{1 + turn % 4});
    one.shards.start();
    bool gone = false;
    io::Timer leave(loop, [&] {
      one.left = true;
      one.shards.leave([&] { gone = true; });
    });
    leave.start(Ms{turn / 4});
    until([&] { return gone; });
    loop.run_for(Ms{20});  // what may still come in
    const auto rows = eyes->shards();
    EXPECT_TRUE(std::ranges::all_of(rows, [](const ShardRow& row) { return row.owner == 0; })) << turn;
    EXPECT_EQ(one.shards.count(), 0);
    EXPECT_EQ(one.publish_until.ms, 0);
    EXPECT_FALSE(one.opened_after_leaving) << "the fence is open, and the shards are given back";
    EXPECT_TRUE(eyes->live_nodes().empty());
    all.clear();
  }
}

TEST_F(ShardsCycle, WhoseNameIsTakenStopsAndTakesNothing) {
  Instance& former = share({"a"});
  Instance& next = start("a");
  until([&] { return former.name_taken && next.shards.count() == kShards; });
  EXPECT_EQ(former.publish_until.ms, 0);
  EXPECT_EQ(former.shards.node(), next.shards.node());
}

// A restored backup: the row counts fewer heartbeats than this process has written. It is no other process.
TEST_F(ShardsCycle, ADatabaseThatWentBackInTimeIsNoOtherProcessWithItsName) {
  Instance &first = share({"a", "b"}), &second = *all[1];
  const auto restore = db->back_up();
  loop.run_for(kLease * 2);
  std::uint64_t highest = 0;
  const auto before = eyes->shards();
  for (const ShardRow& row : before) highest = std::max(highest, row.epoch);
  restore();
  until([&] { return first.notices.size() == 1 && second.notices.size() == 1; });
  EXPECT_EQ(first.notices.at(0).kind, Shards::Notice::Kind::restored);
  until([&] { return balanced(); });
  EXPECT_FALSE(first.name_taken || second.name_taken);
  const auto after = eyes->shards();
  for (const ShardRow& row : after) EXPECT_GT(row.epoch, highest) << "a write of before would pass the fence";
}

TEST_F(ShardsCycle, ANodeWhoseRowIsGoneRegistersAnew) {
  const auto restore = db->back_up();  // empty
  Instance& one = share({"a"});
  restore();
  until([&] { return one.notices.size() == 1 && owned(one) == kShards; });
  EXPECT_EQ(one.notices.at(0).kind, Shards::Notice::Kind::restored);
  EXPECT_FALSE(one.name_taken);
}

// The old process must still end if another takes its name after the restore.
TEST_F(ShardsCycle, AfterARestoreASecondProcessStillTakesTheName) {
  Instance& former = share({"a"});
  const auto restore = db->back_up();
  loop.run_for(kLease);
  restore();
  until([&] { return former.notices.size() == 1; });
  Instance& next = start("a");
  until([&] { return former.name_taken && next.shards.count() == kShards; });
}

TEST_F(ShardsCycle, AStepOfTheDatabasesClockIsNoticed) {
  Instance& one = share({"a"});
  db->advance(Ms{3'600'000});
  until([&] { return one.notices.size() == 1; });
  EXPECT_EQ(one.notices.at(0).kind, Shards::Notice::Kind::clock_stepped);
  EXPECT_EQ(one.notices.at(0).detail.substr(0, 13), "forward by 35") << one.notices.at(0).detail;
  db->advance(Ms{-3'600'000});
  until([&] { return one.notices.size() == 2; });
  EXPECT_EQ(one.notices.at(1).detail.substr(0, 10), "back by 36") << one.notices.at(1).detail;
}

}  // namespace
}  // namespace rung::bridge
