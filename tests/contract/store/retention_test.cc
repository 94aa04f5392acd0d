// Retention in the store: what is deleted, what stays, and the partitions of the history tables.
#include <algorithm>
#include <set>

#include "tests/contract/store/world.h"

namespace rung::test {
namespace {

constexpr Ms kDay{24LL * 3600 * 1000};

class RetentionTest : public StoreContract {
 protected:
  // Far in the future: everything that has finished is old by then.
  EpochMs tomorrow() { return db_now() + kDay; }

  TaskId cancelled() {
    const TaskId id = waiting();
    applied(id, event::Cancel{});
    return id;
  }
  // With an attempt, and a key.
  TaskId succeeded(const std::string& key = "") {
    NewTask n = task();
    n.intake_key = key;
    const TaskId id = insert(n);
    deliver(id);
    applied(id, event::Succeeded{1});
    return id;
  }
  bool there(TaskId id) { return store_->find(id).has_value(); }
  bool has_body(TaskId id) { return store_->messages(std::span(&id, 1)).size() == 1; }
  // Scans everything; returns the number of deleted tasks.
  std::int64_t purge(EpochMs before, int limit = 100) {
    std::int64_t gone = 0;
    for (PurgeCursor place;;) {
      const PurgeResult step = store_->purge_finished(before, place, limit);
      gone += step.tasks;
      place = step.last;
      if (!step.more) return gone;
    }
  }
  // The partition that holds the task.
  Partition partition_of(TaskId id) {
    for (const Partition& partition : store_->partitions()) {
      if (partition.from <= id && id < partition.end) return partition;
    }
    throw std::runtime_error("no part holds " + id.str());
  }
  // Parts of a day each, for `days` days from the end of those that are there; the first day's noon.
  EpochMs add_days(int days) {
    const auto partitions = store_->partitions();
    const EpochMs now = db_now();
    const EpochMs begin = partitions.empty() ? EpochMs{now.ms - now.ms % kDay.count()}
                                             : IdSource::made_at(partitions.back().end);
    std::vector<Partition> more;
    for (int i = 0; i < days; ++i)
      more.push_back({"p" + std::to_string(i), {}, IdSource::floor(begin + kDay * (i + 1))});
    EXPECT_EQ(store_->add_partitions(more), PartitionsAdded::added);
    return begin + kDay / 2;
  }
  // A task taken in at that time; only its history matters.
  TaskId of_day(EpochMs day, bool over) {
    NewTask n = task();
    n.task.id = ids_of_days->next(day);
    n.task.next_at = db_now() - Ms{1};
    insert(n);
    deliver(n.task.id);
    if (over) apply_one(n.task.id, event::Succeeded{1});
    return n.task.id;
  }

  std::optional<IdSource> ids_of_days{IdSource{9}};
};

TEST_P(RetentionTest, WhatIsOverGoesAndTheRestStays) {
  const TaskId gone[] = {succeeded(), cancelled(), parked()};
  applied(gone[2], event::Discard{});
  const TaskId scheduled = waiting(), poison = parked();
  const TaskId publishing = due_task();
  apply_one(publishing, event::Claim{});
  const TaskId awaiting = due_task();
  deliver(awaiting);
  EXPECT_EQ(purge(tomorrow()), 3);
  for (const TaskId id : gone) EXPECT_FALSE(there(id));
  EXPECT_TRUE(store_->history(gone[0]).empty()) << "out of sight at once";
  for (const TaskId id : {scheduled, poison, publishing, awaiting}) {
    EXPECT_TRUE(there(id)) << to_word(get(id).state);
    EXPECT_TRUE(has_body(id));
  }
  EXPECT_EQ(store_->history(awaiting).size(), 1U);
  EXPECT_EQ(purge(tomorrow()), 0) << "again: nothing";
}

TEST_P(RetentionTest, WhatEndedLaterStays) {
  const TaskId id = cancelled();
  const EpochMs ended = *get(id).finished_at;
  EXPECT_EQ(purge(ended), 0);
  EXPECT_TRUE(there(id));
  EXPECT_EQ(purge(ended + Ms{1}), 1);
}

TEST_P(RetentionTest, InBatchesEachOnceAlsoPastParkedOnes) {
  std::set<TaskId> stay;
  for (int i = 0; i < 30; ++i) {
    if (i % 3 == 0)
      stay.insert(parked());
    else
      cancelled();
  }
  PurgeCursor place;
  std::int64_t gone = 0;
  int steps = 0;
  const EpochMs before = tomorrow();
  for (bool more = true; more; ++steps) {
    const PurgeResult step = store_->purge_finished(before, place, 4);
    EXPECT_LE(step.tasks, 4);
    gone += step.tasks;
    place = step.last;
    more = step.more;
  }
  EXPECT_EQ(gone, 20);
  EXPECT_GE(steps, 7);
  for (const TaskId id : stay) EXPECT_TRUE(there(id));
  // Continues from the cursor: only tasks that finished since then.
  const TaskId later = cancelled();
  EXPECT_EQ(store_->purge_finished(tomorrow(), place, 4).tasks, 1);
  EXPECT_FALSE(there(later));
}

TEST_P(RetentionTest, ABulkUnderWayKeepsWhatItNames) {
  const TaskId named = waiting(), other = cancelled();
  NewBulk asked;
  asked.filter.queue = "orders";
  asked.who = "test";
  asked.paused = true;
  const Bulk bulk = store_->create_bulk(asked);
  ASSERT_EQ(bulk.total, 1);
  apply_one(named, event::Cancel{});
  EXPECT_EQ(purge(tomorrow()), 1);
  EXPECT_TRUE(there(named));
  EXPECT_FALSE(there(other));
  store_->set_bulk({bulk.id, BulkState::aborted});
  EXPECT_EQ(purge(tomorrow()), 1);
  EXPECT_FALSE(there(named));
}

TEST_P(RetentionTest, ItsMessageIsANewTaskAfterwards) {
  const std::string key = "0123456789abcdef";
  const TaskId old = succeeded(key);
  EXPECT_EQ(purge(tomorrow()), 1);
  NewTask again = task();
  again.intake_key = key;
  insert(again);
  EXPECT_TRUE(there(again.task.id));
  // A late result finds no task.
  EXPECT_EQ(apply_one(old, event::Failed{1, "late", "", {}}).reason, kNoSuchTask);
}

TEST_P(RetentionTest, WhatWasOpenedAgainStays) {
  const TaskId id = due_task("presumed");
  deliver(id);
  wait_until_applied(id, event::SilenceOver{});
  ASSERT_EQ(get(id).state, State::succeeded);
  apply_one(id, event::Failed{1, "after all", "", {}});
  ASSERT_EQ(get(id).state, State::scheduled);
  EXPECT_EQ(purge(tomorrow()), 0);
  EXPECT_TRUE(there(id));
}

TEST_P(RetentionTest, ADayIsDroppedWholeWhenNoTaskOfItIsLeft) {
  const EpochMs noon = add_days(3);
  const TaskId first = of_day(noon, true), second = of_day(noon + kDay, true),
               third = of_day(noon + kDay * 2, false);
  const Partition day1 = partition_of(first), day2 = partition_of(second), day3 = partition_of(third);
  EXPECT_EQ(store_->drop_partition(day1), PartitionDrop::kept) << "its task is there";
  EXPECT_EQ(purge(tomorrow()), 2);
  EXPECT_EQ(store_->drop_partition(day1), PartitionDrop::dropped);
  EXPECT_FALSE(has_body(first));
  EXPECT_EQ(store_->drop_partition(day1), PartitionDrop::dropped) << "done twice";
  EXPECT_EQ(store_->drop_partition(day3), PartitionDrop::kept);
  EXPECT_TRUE(has_body(third));
  EXPECT_EQ(store_->history(third).size(), 1U);
  // The next one now begins where the dropped one began; an id of then belongs to it.
  EXPECT_EQ(partition_of(second).from, day1.from);
  EXPECT_EQ(partition_of(second).end, day2.end);
  ids_of_days.emplace(9);  // as one that slept for long: it would else go on from its last id
  const TaskId late = of_day(noon, false);
  EXPECT_TRUE(has_body(late));
  EXPECT_EQ(partition_of(late).end, day2.end);
  EXPECT_EQ(store_->drop_partition(partition_of(late)), PartitionDrop::kept);
}

TEST_P(RetentionTest, ADayWithOneThatStaysIsEmptiedRowByRow) {
  const EpochMs noon = add_days(1);
  std::vector<TaskId> gone;
  for (int i = 0; i < 10; ++i) gone.push_back(of_day(noon, true));
  const TaskId stays = of_day(noon, false);
  for (int i = 0; i < 10; ++i) gone.push_back(of_day(noon, true));
  EXPECT_EQ(purge(tomorrow()), 20);
  const Partition day = partition_of(stays);
  EXPECT_EQ(store_->drop_partition(day), PartitionDrop::kept);
  std::int64_t swept = 0;
  int steps = 0;
  for (std::optional<TaskId> from = day.from; from; ++steps) {
    const Swept step = store_->sweep(*from, day.end, 6);
    EXPECT_LE(step.tasks, 6);
    swept += step.tasks;
    from = step.next;
  }
  EXPECT_EQ(swept, 20);
  EXPECT_GE(steps, 4);
  for (const TaskId id : gone) EXPECT_FALSE(has_body(id));
  EXPECT_TRUE(has_body(stays));
  EXPECT_EQ(store_->history(stays).size(), 1U);
  if (mysql_) {
    mysql_->exec("USE " + mysql_->name());
    EXPECT_EQ(mysql_->value("SELECT COUNT(*) FROM rung_attempts"), "1");
    EXPECT_EQ(mysql_->value("SELECT COUNT(*) FROM rung_bodies"), "1");
  }
  EXPECT_EQ(store_->sweep(day.from, day.end, 6).tasks, 0);
}

TEST_P(RetentionTest, PartsAreAddedOnceAndLaterThanAllOthers) {
  add_days(2);
  const auto before = store_->partitions();
  ASSERT_GE(before.size(), 2U);
  EXPECT_TRUE(std::ranges::is_sorted(before, {}, &Partition::end));
  for (std::size_t i = 1; i < before.size(); ++i) EXPECT_EQ(before[i].from, before[i - 1].end);
  EXPECT_EQ(store_->add_partitions(before), PartitionsAdded::added) << "they are there";
  EXPECT_EQ(store_->partitions(), before);
  std::vector<Partition> more = before;
  more.push_back({"later", {}, {before.back().end.value + 1000}});
  EXPECT_EQ(store_->add_partitions(more), PartitionsAdded::added);
  const auto after = store_->partitions();
  ASSERT_EQ(after.size(), before.size() + 1);
  EXPECT_EQ(after.back(), (Partition{"later", before.back().end, more.back().end}));
}

TEST_P(RetentionTest, OldRecordsGo) {
  const TaskId id = waiting();
  for (int i = 0; i < 5; ++i) {
    const Event event{id, event::Reschedule{{}, Ms{3'600'000 + i}}, ByHand{"ann", {}}};
    store_->apply(std::span(&event, 1), fence(), decider());
  }
  ASSERT_EQ(store_->audit(id).size(), 5U);
  NewBulk asked;
  asked.filter.queue = "orders";
  asked.who = "ann";
  const Bulk done = store_->create_bulk(asked), running = store_->create_bulk(asked);
  store_->set_bulk({done.id, BulkState::aborted});
  PurgedRecords gone;
  EXPECT_EQ(store_->purge_records(db_now() - kDay, 2).audit, 0);
  for (PurgedRecords step{0, 0, 0, true}; step.more;) {
    step = store_->purge_records(tomorrow(), 2);
    EXPECT_LE(step.audit, 2);
    gone.audit += step.audit;
    gone.bulks += step.bulks;
  }
  EXPECT_EQ(gone.audit, 8) << "five of the task, and three of the bulks";
  EXPECT_EQ(gone.bulks, 1);
  EXPECT_TRUE(store_->audit(id).empty());
  EXPECT_FALSE(store_->bulk(done.id));
  EXPECT_TRUE(store_->bulk(running.id));
  EXPECT_TRUE(there(id));
  EXPECT_GT(store_->create_bulk(asked).id, running.id) << "an id is never used again";
  if (mysql_) {
    mysql_->exec("USE " + mysql_->name());
    EXPECT_EQ(
        mysql_->value("SELECT COUNT(*) FROM rung_bulk_items WHERE bulk_id = " + std::to_string(done.id)),
        "0");
  }
}

INSTANTIATE_TEST_SUITE_P(Stores, RetentionTest, testing::Values("memory", "mysql"),
                         [](const auto& p) { return p.param; });

}  // namespace
}  // namespace rung::test
