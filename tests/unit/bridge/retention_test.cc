// Retention of two instances on one loop and one database in memory, in virtual time.
#include "src/bridge/upkeep/retention.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/support/memory/memory_store.h"
#include "tests/support/virtual_time.h"
#include "tests/unit/bridge/flow_fixture.h"

namespace rung::bridge {
namespace {

constexpr Ms kOneHour{3600 * 1000};

struct Upkeep {
  Upkeep(test::VirtualLoop& loop, const std::shared_ptr<MemoryDb>& db, const std::string& name,
         std::uint64_t number, std::optional<Ms> keep, Ms lease = Ms{1000})
      : clock(loop.clock()),
        jobs(loop, [db]() -> Result<std::unique_ptr<Store>> { return open_memory_store(db); }),
        shards(loop, jobs, clock, {{name, "0", "here", number}, lease, Ms{1000}},
               {[](const std::vector<Gained>&) {}, [](const std::vector<int>&) {}, [](BootMs) {}, [] {},
                [](const Shards::Notice&) {}}),
        table(loop, jobs, shards),
        retention(table, shards, clock, keep) {
    shards.start();
    table.start();
  }

  DbClock clock;
  test::VirtualJobs jobs;
  Shards shards;
  Jobs table;
  Retention retention;
};

class RetentionPasses : public testing::Test {
 protected:
  RetentionPasses() { store = open_memory_store(db); }
  // One that was taken in and ended so long ago.
  TaskId old(Ms age, State state) {
    const EpochMs at = db->now() - age;
    NewTask n;
    n.task.id = ids.next(at);
    n.task.created_at = n.task.first_failed_at = at;
    n.task.state = state;
    if (is_finished(state)) n.task.finished_at = at;
    n.message = std::make_shared<Message>();
    EXPECT_EQ(store->insert({&n, 1}, Fence{0, {}, true}).value().at(0).how, Inserted::How::inserted);
    return n.task.id;
  }
  bool there(TaskId id) { return store->find(id).value().has_value(); }
  bool until(const std::function<bool()>& condition, Ms most = Ms{60'000}) {
    return loop.run_until(condition, most);
  }

  const std::shared_ptr<test::VirtualClock> clock = std::make_shared<test::VirtualClock>();
  test::VirtualLoop loop{*clock};
  std::shared_ptr<MemoryDb> db = std::make_shared<MemoryDb>(clock, 1);
  std::unique_ptr<Store> store;
  IdSource ids{3};
};

TEST_F(RetentionPasses, OldOnesGoPartsAreMadeAndReloadHoldsAtOnce) {
  const TaskId gone = old(kOneHour * 3, State::succeeded), young = old(kOneHour, State::cancelled);
  const TaskId parked = old(kOneHour * 3, State::parked), waiting = old(kOneHour * 3, State::scheduled);
  Upkeep one(loop, db, "one", 1, kOneHour * 2);
  ASSERT_TRUE(until([&] { return one.retention.state().totals.tasks == 1; }));
  EXPECT_FALSE(there(gone));
  for (const TaskId id : {young, parked, waiting}) EXPECT_TRUE(there(id));
  EXPECT_TRUE(one.retention.state().totals.last);
  EXPECT_TRUE(until([&] { return store->partitions().value().size() >= 8; }));
  one.retention.reload(kOneHour / 2);
  ASSERT_TRUE(until([&] { return !there(young); }));
  EXPECT_TRUE(
      until([&] { return one.retention.state().totals.tasks == 2; }));  // counted once the pass is back
  EXPECT_TRUE(there(parked));
}

TEST_F(RetentionPasses, OffDeletesNothing) {
  const TaskId id = old(kDay * 400, State::succeeded);
  Upkeep one(loop, db, "one", 1, std::nullopt);
  ASSERT_TRUE(until([&] { return !store->partitions().value().empty(); }));
  // When this one has gone, also a pass that should not have been would have come to the other.
  const TaskId older = old(kDay * 501, State::succeeded);
  one.retention.reload(kDay * 500);
  ASSERT_TRUE(until([&] { return !there(older); }));
  EXPECT_TRUE(there(id));
  EXPECT_TRUE(until([&] { return one.retention.state().totals.tasks == 1; }));
}

TEST_F(RetentionPasses, APartOfTheTimeBeforeIsDroppedAndOneThatIsHeldEmptied) {
  const auto day = [&](int ago) {
    const EpochMs t = db->now() - kDay * ago;
    return EpochMs{t.ms - t.ms % kDay.count()};
  };
  const std::vector<Partition> partitions{{"held", {}, IdSource::floor(day(5))},
                                          {"over", {}, IdSource::floor(day(3))}};
  ASSERT_EQ(store->add_partitions(partitions).value(), PartitionsAdded::added);
  const TaskId stays = old(kDay * 7, State::parked), left = old(kDay * 6, State::succeeded);
  const TaskId gone = old(kDay * 4, State::succeeded);
  Upkeep one(loop, db, "one", 1, kOneHour);
  const auto has_body = [&](TaskId id) { return store->messages({&id, 1}).value().size() == 1; };
  ASSERT_TRUE(until([&] { return one.retention.state().totals.partitions == 1; }));
  ASSERT_TRUE(until([&] { return !has_body(left); }));
  EXPECT_FALSE(has_body(gone));
  EXPECT_TRUE(has_body(stays));
  EXPECT_EQ(store->partitions().value().front().name, "held");
  EXPECT_NE(store->partitions().value().at(1).name, "over");
}

TEST_F(RetentionPasses, OfTwoOneDoesItAndTheOtherGoesOnWhenThatLeaves) {
  auto one = std::make_unique<Upkeep>(loop, db, "one", 1, kOneHour * 2);
  ASSERT_TRUE(until([&] { return one->shards.held(0); }));
  Upkeep two(loop, db, "two", 2, kOneHour * 2);
  ASSERT_TRUE(until([&] { return two.shards.count() > 0; }));
  const TaskId first = old(kOneHour * 3, State::succeeded);
  ASSERT_TRUE(one->shards.held(0)) << "the highest numbers are given back";
  one->retention.reload(kOneHour);
  two.retention.reload(kOneHour);
  ASSERT_TRUE(until([&] { return one->retention.state().totals.tasks == 1; }));
  EXPECT_FALSE(there(first));
  EXPECT_EQ(two.retention.state().totals.tasks, 0);
  bool left = false;
  one->table.stop();
  one->shards.leave([&] { left = true; });
  ASSERT_TRUE(until([&] { return left && two.shards.held(0); }));
  const TaskId second = old(kOneHour * 3, State::succeeded);
  ASSERT_TRUE(until([&] { return two.retention.state().totals.tasks == 1; }));
  EXPECT_FALSE(there(second));
}

// Regression: counts, notes of attachments and events waited for minutes.
TEST_F(RetentionPasses, AChangeOfPartitionsThatTakesLongDelaysNoOtherUpkeep) {
  Upkeep one(loop, db, "one", 1, kOneHour);
  one.jobs.by_hand(Lane::retention);
  ASSERT_TRUE(until([&] { return one.jobs.waiting(Lane::retention) > 0; })) << "it is under way";
  bool recorded = false;
  one.jobs.submit<void>(
      Lane::upkeep, [](Store& events) { return events.record_event(0, {}); },
      [&](const Result<void>&) { recorded = true; });
  EXPECT_TRUE(until([&] { return recorded; }));
}

TEST_F(RetentionPasses, ItSaysWhenNothingWasLeftAndTriesAgainAtOnceOnAReload) {
  Upkeep one(loop, db, "one", 1, kOneHour);
  EXPECT_EQ(one.retention.state().tasks_done, EpochMs{});
  ASSERT_TRUE(until([&] { return one.retention.state().tasks_done > EpochMs{}; }));
  EXPECT_TRUE(until([&] { return one.retention.state().partitions_done > EpochMs{}; }));
  const EpochMs first = one.retention.state().tasks_done;
  ASSERT_TRUE(until([&] { return one.retention.state().tasks_done > first; }));
  // While the database refuses, the times stay.
  one.jobs.by_hand(Lane::retention);
  ASSERT_TRUE(until([&] { return one.jobs.waiting(Lane::retention) > 0; }));
  const EpochMs last = one.retention.state().tasks_done;
  db->fail_next(1, Error::Kind::refused);
  ASSERT_TRUE(one.jobs.run_next(Lane::retention));
  one.jobs.by_itself(Lane::retention);
  loop.run_for(Ms{1000});
  EXPECT_EQ(one.retention.state().tasks_done, last);
  one.retention.reload(kOneHour);
  EXPECT_TRUE(until([&] { return one.retention.state().tasks_done > last; }, Ms{1000}));
}

TEST_F(RetentionPasses, TablesThatAreInUseAreLeftAloneForLongerEachTime) {
  const auto tried = [&] { return db->use_partitions(true); };
  ASSERT_EQ(tried(), 0);
  Upkeep one(loop, db, "one", 1, kOneHour, kOneHour);
  ASSERT_TRUE(until([&] { return tried() > 0; }));
  const EpochMs taken = one.retention.state().partitions_done;
  loop.run_for(Ms{20'000});  // a pass has come to its end
  for (const int minutes : {5, 10, 20, 40, 60, 60}) {
    const int before = tried();
    loop.run_for(Ms{60'000} * (minutes - 1));
    EXPECT_EQ(tried(), before) << minutes;
    ASSERT_TRUE(until([&] { return tried() > before; }, Ms{120'000})) << minutes;
  }
  EXPECT_EQ(one.retention.state().partitions_done, taken);
}

TEST_F(RetentionPasses, WhatWasPassedOverGoesWithTheWalkOfTheNextDay) {
  const TaskId id = old(kOneHour * 3, State::scheduled);
  NewBulk asked;
  asked.who = "test";
  asked.paused = true;
  const Bulk bulk = store->create_bulk(asked).value();
  ASSERT_EQ(bulk.total, 1) << "it keeps its tasks";
  const Event cancel{id, event::Cancel{}, ByHand{"ann", {}}};
  ASSERT_EQ(store->apply({&cancel, 1}, Fence{}, decider(story_rules())).value().at(0).verdict,
            Decision::Verdict::applied);
  Upkeep one(loop, db, "one", 1, kOneHour, kOneHour);
  loop.run_for(kOneHour * 2);
  EXPECT_TRUE(there(id));
  ASSERT_TRUE(store->set_bulk({bulk.id, BulkState::aborted}));
  loop.run_for(kOneHour * 24);
  EXPECT_FALSE(there(id));
}

}  // namespace
}  // namespace rung::bridge
