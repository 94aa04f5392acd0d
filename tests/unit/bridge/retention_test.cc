// Retention of two instances on one loop and one database in memory, in virtual time.
#include "src/bridge/upkeep/retention.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/unit/bridge/flow_fixture.h"

namespace rung::bridge {
namespace {

constexpr Ms kOneHour{3600 * 1000};

struct Upkeep {
  Upkeep(test::VirtualLoop& loop, const std::shared_ptr<MemoryDb>& db, const std::string& name,
         std::uint64_t number, std::optional<Ms> keep, Ms lease = Ms{1000})
      : clock(loop.clock()),
        jobs(loop, [db] { return open_memory_store(db); }),
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

class RetentionPasses : public testing::Test, protected World {
 protected:
  // One that was taken in and ended so long ago.
  TaskId old(Ms age, State state) {
    const EpochMs at = db->now() - age;
    NewTask n;
    n.task.id = ids.next(at);
    n.task.created_at = n.task.first_failed_at = at;
    n.task.state = state;
    if (is_finished(state)) n.task.finished_at = at;
    n.message = std::make_shared<Message>();
    EXPECT_EQ(eyes->insert({&n, 1}, Fence{0, {}, true}).at(0).how, Inserted::How::inserted);
    return n.task.id;
  }
  bool there(TaskId id) { return eyes->find(id).has_value(); }
  bool until(const std::function<bool()>& condition, Ms most = Ms{60'000}) {
    return loop.run_until(condition, most);
  }
};

TEST_F(RetentionPasses, OldOnesGoPartsAreMadeAndReloadHoldsAtOnce) {
  const TaskId gone = old(kOneHour * 3, State::succeeded), young = old(kOneHour, State::cancelled);
  const TaskId parked = old(kOneHour * 3, State::parked), waiting = old(kOneHour * 3, State::scheduled);
  Upkeep one(loop, db, "one", 1, kOneHour * 2);
  ASSERT_TRUE(until([&] { return one.retention.state().totals.tasks == 1; }));
  EXPECT_FALSE(there(gone));
  for (const TaskId id : {young, parked, waiting}) EXPECT_TRUE(there(id));
  EXPECT_TRUE(one.retention.state().totals.last);
  EXPECT_TRUE(until([&] { return eyes->partitions().size() >= 8; }));
  one.retention.reload(kOneHour / 2);
  ASSERT_TRUE(until([&] { return !there(young); }));
  EXPECT_TRUE(
      until([&] { return one.retention.state().totals.tasks == 2; }));  // counted once the pass is back
  EXPECT_TRUE(there(parked));
}

TEST_F(RetentionPasses, OffDeletesNothing) {
  const TaskId id = old(kDay * 400, State::succeeded);
  Upkeep one(loop, db, "one", 1, std::nullopt);
  ASSERT_TRUE(until([&] { return !eyes->partitions().empty(); }));
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
  ASSERT_EQ(eyes->add_partitions(partitions), PartitionsAdded::added);
  const TaskId stays = old(kDay * 7, State::parked), left = old(kDay * 6, State::succeeded);
  const TaskId gone = old(kDay * 4, State::succeeded);
  Upkeep one(loop, db, "one", 1, kOneHour);
  const auto has_body = [&](TaskId id) { return eyes->messages({&id, 1}).size() == 1; };
  ASSERT_TRUE(until([&] { return one.retention.state().totals.partitions == 1; }));
  ASSERT_TRUE(until([&] { return !has_body(left); }));
  EXPECT_FALSE(has_body(gone));
  EXPECT_TRUE(has_body(stays));
  EXPECT_EQ(eyes->partitions().front().name, "held");
  EXPECT_NE(eyes->partitions().at(1).name, "over");
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
  const Bulk bulk = eyes->create_bulk(asked);
  ASSERT_EQ(bulk.total, 1) << "it keeps its tasks";
  const Event cancel{id, event::Cancel{}, ByHand{"ann", {}}};
  ASSERT_EQ(eyes->apply({&cancel, 1}, Fence{}, decider(story_rules())).at(0).verdict,
            Decision::Verdict::applied);
  Upkeep one(loop, db, "one", 1, kOneHour, kOneHour);
  loop.run_for(kOneHour * 2);
  EXPECT_TRUE(there(id));
  eyes->set_bulk({bulk.id, BulkState::aborted});
  loop.run_for(kOneHour * 24);
  EXPECT_FALSE(there(id));
}

// ---- Which partitions must exist, and what happens to old ones.

constexpr EpochMs kMidnight{1795305600000};  // 2026-11-22T00:00:00Z
constexpr EpochMs kNow{kMidnight.ms + 17 * 3600 * 1000};
constexpr Ms kHour{3600 * 1000};

Partition partition(EpochMs from, EpochMs end) { return {"p", IdSource::floor(from), IdSource::floor(end)}; }
EpochMs end_of(const Partition& partition) { return IdSource::made_at(partition.end); }

TEST(PartsToAdd, ADayEachForTheNextEight) {
  const auto added = partitions_to_add({}, kNow, kDay * 30);
  ASSERT_EQ(added.size(), 9U);
  EXPECT_EQ(added[0].name, "d20261122");
  EXPECT_EQ(end_of(added[0]), kMidnight + kDay);
  EXPECT_EQ(added[8].name, "d20261130");
  for (std::size_t i = 1; i < added.size(); ++i) {
    EXPECT_EQ(added[i].from, added[i - 1].end);
    EXPECT_EQ(end_of(added[i]) - end_of(added[i - 1]), kDay);
  }
}

TEST(PartsToAdd, GoOnWhereTheOthersEndAndOnlyNowAndThen) {
  const Partition far = partition({}, kMidnight + kDay * 5);
  EXPECT_TRUE(partitions_to_add({&far, 1}, kNow, kDay * 30).empty());
  const Partition near = partition({}, kMidnight + kDay * 4);
  const auto added = partitions_to_add({&near, 1}, kNow, kDay * 30);
  ASSERT_EQ(added.size(), 5U);
  EXPECT_EQ(added[0].from, near.end);
  EXPECT_EQ(added[0].name, "d20261126");
}

TEST(PartsToAdd, OneTakesATimeWithoutAny) {
  const Partition old = partition({}, kMidnight - kDay * 60);
  const auto added = partitions_to_add({&old, 1}, kNow, kDay * 30);
  ASSERT_EQ(added.size(), 9U);
  EXPECT_EQ(added[0].from, old.end);
  EXPECT_EQ(end_of(added[0]), kMidnight + kDay);
}

TEST(PartsToAdd, WiderWhereMuchIsKeptSoThatThereAreNotTooMany) {
  EXPECT_EQ(partition_width(kHour), kDay);
  EXPECT_EQ(partition_width(kDay * 100), kDay);
  EXPECT_EQ(partition_width(kDay * 365), kDay * 4);
  EXPECT_EQ(partition_width(kDay * 3650), kDay * 37);
  EXPECT_EQ(partition_width(std::nullopt), kDay * 30);
  const auto added = partitions_to_add({}, kNow, std::nullopt);
  ASSERT_EQ(added.size(), 1U);
  EXPECT_EQ(end_of(added[0]), kMidnight + kDay * 30);
}

TEST(PartitionDue, DroppedWhenItsLastMomentIsOld) {
  const Partition day = partition(kMidnight - kDay * 31, kMidnight - kDay * 30);
  EXPECT_TRUE(partition_due(day, kMidnight, kDay * 30).drop);
  EXPECT_FALSE(partition_due(day, kMidnight - Ms{1}, kDay * 30).drop);
}

TEST(PartitionDue, RowByRowAWeekLater) {
  const Partition day = partition(kMidnight - kDay * 31, kMidnight - kDay * 30);
  EXPECT_EQ(partition_due(day, kMidnight + kDay * 7 - Ms{1}, kDay * 30).sweep_to, TaskId{});
  EXPECT_EQ(partition_due(day, kMidnight + kDay * 7, kDay * 30).sweep_to, day.end);
  // With a short retention as long again as that.
  EXPECT_EQ(partition_due(partition(kMidnight - kDay, kMidnight), kMidnight + kHour * 2, kHour).sweep_to,
            IdSource::floor(kMidnight));
  EXPECT_EQ(partition_due(partition(kMidnight, kMidnight + kDay), kNow, kHour).sweep_to, TaskId{})
      << "today's end is not far";
}

TEST(PartitionDue, AWideOneBeforeItsEnd) {
  const Partition before_parts = partition(EpochMs{kIdEpochMs}, kMidnight + kDay * 2);
  const PartitionDue due = partition_due(before_parts, kNow, kDay * 30);
  EXPECT_FALSE(due.drop);
  EXPECT_EQ(due.sweep_to, IdSource::floor(kNow - kDay * 37));
}

}  // namespace
}  // namespace rung::bridge
