// The changes by hand of all tasks and queues: order, pages, filters, and how much one call reads.
#include <algorithm>

#include "src/store/tasks.h"
#include "tests/contract/store/world.h"

namespace rung::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class AuditContract : public StoreContract {
 protected:
  void change(TaskId id, Happening what, const std::string& who = "ann, 10.0.0.3 (http)") {
    const Event event{id, std::move(what), ByHand{who, {}}};
    ASSERT_EQ(store_->apply(std::span(&event, 1), Fence{}, decider()).at(0).verdict, Verdict::applied);
  }
  void reschedule(TaskId id, const std::string& who = "ann, 10.0.0.3 (http)") {
    change(id, event::Reschedule{db_now() + Ms{++hours * 3'600'000}}, who);
  }
  AuditPage log(const AuditFilter& filter) { return database().audit_log(filter); }
  // "what queue", of all.
  std::vector<std::string> lines(const AuditFilter& filter) {
    std::vector<std::string> out;
    for (const auto& [row, queue] : log(filter).rows) out.push_back(row.what + " " + queue);
    return out;
  }

  std::int64_t hours = 1;
};

TEST_P(AuditContract, TheNewestFirstWithTasksAndPauses) {
  const TaskId orders = waiting("orders"), invoices = waiting("invoices");
  reschedule(orders);
  store_->pause({"orders", {}, "bob", "closed"});
  change(invoices, event::Cancel{});
  EXPECT_THAT(lines({}), ElementsAre("cancel invoices", "pause orders", "reschedule orders"));
  const AuditPage page = log({});
  EXPECT_FALSE(page.next);
  EXPECT_EQ(page.rows[0].change.task, invoices);
  EXPECT_EQ(page.rows[0].change.who, "ann, 10.0.0.3 (http)");
  EXPECT_EQ(page.rows[1].change.task, TaskId{0});
  EXPECT_EQ(page.rows[1].change.reason, "closed");
  EXPECT_EQ(store_->audit(orders).at(0).id, page.rows[2].change.id);
}

TEST_P(AuditContract, Filters) {
  const TaskId orders = waiting("orders"), invoices = waiting("invoices");
  reschedule(orders);
  reschedule(invoices, "bob");
  store_->pause({"orders", {}, "bob", ""});
  change(orders, event::Cancel{}, "bobby");
  EXPECT_THAT(lines({.queue = "orders"}), ElementsAre("cancel orders", "pause orders", "reschedule orders"));
  EXPECT_THAT(lines({.what = "reschedule"}), ElementsAre("reschedule invoices", "reschedule orders"));
  EXPECT_THAT(lines({.who = "bob"}), ElementsAre("cancel orders", "pause orders", "reschedule invoices"));
  EXPECT_THAT(lines({.queue = "orders", .what = "cancel", .who = "bobby"}), ElementsAre("cancel orders"));
  EXPECT_THAT(lines({.queue = "orders "}), IsEmpty());
  EXPECT_THAT(lines({.who = "o"}), IsEmpty()) << "how the name begins";
}

TEST_P(AuditContract, ABulkIsOneRowAndItsTasksAreListedWhenAskedFor) {
  const TaskId first = waiting("orders"), second = waiting("orders");
  const auto cancel = [&](const std::string& filter_text) {
    NewBulk asked;
    asked.filter.queue = "orders";
    asked.filter_text = filter_text;
    asked.reason = "closed";
    asked.who = "ann";
    return store_->create_bulk(asked);
  };
  const Bulk bulk = cancel(R"({"queue":"orders"})");
  store_->take_bulk("us", kTtl);
  const std::vector<Event> events = {event_of(bulk, first), event_of(bulk, second)};
  const BulkStep step{bulk.id, "us", {}};
  store_->apply(events, Fence{}, decider(), &step);
  EXPECT_THAT(lines({}), ElementsAre("cancel orders"));
  const AuditRow whole = log({}).rows.at(0).change;
  EXPECT_EQ(whole.task, TaskId{0});
  EXPECT_EQ(whole.bulk, bulk.id);
  EXPECT_EQ(whole.who, "ann");
  EXPECT_EQ(whole.reason, "closed");
  EXPECT_EQ(whole.after, R"({"tasks":2,"queue":"orders"})");
  EXPECT_THAT(lines({.bulk = bulk.id}), ElementsAre("cancel orders", "cancel orders"));
  EXPECT_THAT(lines({.queue = "orders"}), ElementsAre("cancel orders"));
  EXPECT_THAT(lines({.queue = "invoices"}), IsEmpty());
  EXPECT_EQ(store_->audit(first).size(), 1U) << "a task has its own rows";
  waiting("orders");
  cancel(R"({"tag":"t"})");
  EXPECT_THAT(lines({.queue = "invoices"}), ElementsAre("cancel "))
      << "it may have changed some of that queue";
}

TEST_P(AuditContract, BySinceAndUntil) {
  const TaskId id = waiting("orders");
  for (int i = 0; i < 3; ++i) {
    reschedule(id);
    const EpochMs at = db_now();
    wait_until([&] { return db_now() > at; });
  }
  const auto all = log({}).rows;
  ASSERT_EQ(all.size(), 3U);
  const EpochMs first = all[2].change.at, last = all[0].change.at;
  EXPECT_EQ(log({.since = last}).rows.size(), 1U);
  EXPECT_EQ(log({.until = last}).rows.size(), 2U);
  EXPECT_EQ(log({.since = first, .until = last}).rows.size(), 2U);
  EXPECT_EQ(log({.until = first}).rows.size(), 0U);
}

// Many of one millisecond, as a bulk writes them.
TEST_P(AuditContract, PagesNeitherRepeatNorSkip) {
  std::vector<TaskId> ids;
  std::vector<Event> events;
  for (int i = 0; i < 25; ++i) {
    ids.push_back(waiting("orders"));
    events.push_back({ids.back(), event::Cancel{}, ByHand{"ann", {}}});
  }
  store_->apply(events, Fence{}, decider());
  reschedule(waiting("orders"));
  std::vector<std::int64_t> seen;
  AuditFilter filter{.queue = "orders", .limit = 7};
  do {
    const AuditPage page = log(filter);
    for (const auto& row : page.rows) seen.push_back(row.change.id);
    filter.after = page.next;
  } while (filter.after);
  std::vector<std::int64_t> whole;
  for (const auto& row : log({}).rows) whole.push_back(row.change.id);
  EXPECT_EQ(seen, whole);
  EXPECT_EQ(seen.size(), 26U);
}

// Of 10,001 changes by ann, and an older one by bob.
TEST_P(AuditContract, ACallReadsABoundedNumberOfRows) {
  const TaskId id = waiting("orders");
  reschedule(id, "bob");
  const EpochMs at = db_now();
  wait_until([&] { return db_now() > at; });
  if (mysql_ != nullptr) {
    mysql_->exec(
        "INSERT INTO rung_audit (at, who, what, task_id, before_change, after_change) "
        "SELECT UTC_TIMESTAMP(3), 'ann', 'fire', " +
        id.str() +
        ", '{}', '{}' FROM "
        "(WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 101) SELECT i FROM n) "
        "a, "
        "(WITH RECURSIVE m AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM m WHERE i < 100) SELECT i FROM m) "
        "b");
  } else {
    for (int i = 0; i < 10'100; ++i) reschedule(id, "ann");
  }
  const AuditPage none = log({.who = "bob"});
  EXPECT_THAT(none.rows, IsEmpty()) << "it is behind the rows that are read";
  ASSERT_TRUE(none.next) << "so the list goes on";
  const AuditPage found = log({.who = "bob", .after = none.next});
  ASSERT_EQ(found.rows.size(), 1U);
  EXPECT_FALSE(found.next);
  EXPECT_EQ(log({.who = "ann", .limit = 3}).rows.size(), 3U);
}

INSTANTIATE_TEST_SUITE_P(Stores, AuditContract, testing::Values("mysql"));

// ---- What has changed lately, for those who watch.

using ::testing::Contains;

class LiveContract : public StoreContract {
 protected:
  void fire(const std::vector<TaskId>& ids) {
    std::vector<Event> events;
    for (const TaskId id : ids) events.push_back({id, event::Fire{}, ByHand{"ann@desk (test)", {}}});
    store_->apply(events, Fence{}, decider());
  }
  // What has changed since `before`.
  LiveAnswer since(const LiveAnswer& before, const std::vector<TaskId>& watched = {}) {
    return database().live({before.newest_audit, before.newest_event, watched});
  }
  LiveAnswer now() { return database().live({}); }
};

TEST_P(LiveContract, ATaskThatSomebodyChangesIsNamedOnce) {
  const TaskId id = waiting();
  const LiveAnswer before = now();
  EXPECT_THAT(before.changed_by_hand, IsEmpty()) << "only from now on";
  EXPECT_THAT(since(before).changed_by_hand, IsEmpty());
  fire({id});
  const LiveAnswer after = since(before);
  EXPECT_THAT(after.changed_by_hand, ElementsAre(id));
  EXPECT_GT(after.newest_audit, before.newest_audit);
  EXPECT_THAT(since(after).changed_by_hand, IsEmpty());
}

TEST_P(LiveContract, TheVersionOfAWatchedTaskTellsThatItMoved) {
  const TaskId id = waiting(), other = waiting();
  const LiveAnswer before = since(now(), {id, other, {id.value + 1'000'000}});
  EXPECT_EQ(before.versions.size(), 2U) << "one of them does not exist";
  fire({id});
  const LiveAnswer after = since(before, {id, other});
  EXPECT_NE(after.versions.at(id), before.versions.at(id));
  EXPECT_EQ(after.versions.at(other), before.versions.at(other));
}

TEST_P(LiveContract, NewTasksAndEventsAndOpenBulksAreSeen) {
  const LiveAnswer before = now();
  const TaskId id = waiting();
  SystemEvent stepped;
  stepped.kind = "clock_step";
  store_->record_event(0, stepped);
  NewBulk wish;
  wish.action = BulkAction::fire;
  wish.who = "ann";
  wish.paused = true;
  const Bulk bulk = store_->create_bulk(wish);
  const LiveAnswer after = since(before);
  EXPECT_EQ(after.newest_task, id.value);
  EXPECT_THAT(after.event_kinds, Contains("clock_step"));
  EXPECT_EQ(after.bulks.at(bulk.id), 0);
  store_->set_bulk({bulk.id, BulkState::aborted});
  EXPECT_FALSE(since(after).bulks.contains(bulk.id));
}

TEST_P(LiveContract, ManyChangesAreBounded) {
  const EpochMs later = db_now() + Ms{3'600'000};
  std::vector<NewTask> fresh;
  std::vector<TaskId> ids;
  for (std::size_t i = 0; i < LiveAnswer::kMost + 50; ++i) {
    fresh.push_back(task());
    fresh.back().task.next_at = later;
    ids.push_back(fresh.back().task.id);
  }
  store_->insert(fresh, fence());
  const LiveAnswer before = now();
  fire(ids);
  EXPECT_EQ(since(before).changed_by_hand.size(), LiveAnswer::kMost + 1)
      << "one more says that there are more";
}

INSTANTIATE_TEST_SUITE_P(Stores, LiveContract, testing::Values("mysql"));

}  // namespace
}  // namespace rung::test
