// Submissions and changes by people and programs: tasks without a lease, changes with an audit, bulks.
#include "tests/contract/store/by_hand.h"

#include <nlohmann/json.hpp>

namespace rung::test {
namespace {

using nlohmann::json;

TEST_P(ByHandTest, WithoutALeaseARowGoesIntoAnyShard) {
  NewTask n = task();
  n.task.shard = 17;
  EXPECT_EQ(store_->insert(std::span(&n, 1), Fence{}).at(0).how, Inserted::How::not_held);
  EXPECT_EQ(store_->insert(std::span(&n, 1), Fence{0, {}, true}).at(0).how, Inserted::How::inserted);
  EXPECT_EQ(get(n.task.id).shard, 17);
}

TEST_P(ByHandTest, ADelayIsReadBackAsItWasWritten) {
  NewTask n = task();
  Task& t = n.task;
  t.queue.clear();
  t.exchange = "events";
  t.routing_key = "order.close";
  t.tag = "close-order";
  t.first_failed_at = {};
  t.silence = Silence{Silence::Means::failure, Ms{1500}};
  const EpochMs due = db_now() + Ms{60'000};
  begin_delay(t, {}, *rules(), db_now(), due);
  insert(n);
  const Task back = get(t.id);
  EXPECT_TRUE(back == t);
  EXPECT_EQ(back.kind, Kind::delay);
  EXPECT_EQ(back.level, 0);
  EXPECT_EQ(back.next_at, due);
  EXPECT_EQ(back.version, 1U);
}

TEST_P(ByHandTest, TheExecutorStandsWithTheAttempt) {
  const TaskId id = due_task();
  deliver(id);
  applied(id, event::Succeeded{1, "10.0.0.3:4711"});
  EXPECT_EQ(store_->history(id).at(0).attempt.executor, "10.0.0.3:4711");
}

TEST_P(ByHandTest, EachChangeMakesAVersionAndAnAuditRow) {
  const TaskId id = waiting();
  const EpochMs later = db_now() + Ms{7'200'000};
  ASSERT_EQ(change(id, event::Reschedule{later, Ms{0}}, 1).verdict, Verdict::applied);
  EXPECT_EQ(get(id).next_at, later);
  EXPECT_EQ(get(id).version, 2U);
  const Decision refused = change(id, event::Cancel{}, 1);
  EXPECT_EQ(refused.verdict, Verdict::refused);
  EXPECT_EQ(refused.reason, kChangedMeanwhile);
  EXPECT_EQ(refused.task.version, 2U);
  ASSERT_EQ(change(id, event::Cancel{}, 2).verdict, Verdict::applied);
  EXPECT_EQ(change(id, event::Cancel{}).verdict, Verdict::stale);
  const auto rows = store_->audit(id);
  ASSERT_EQ(rows.size(), 2U);  // refused and stale events changed nothing
  EXPECT_EQ(rows[0].who, "ann@desk (test)");
  EXPECT_EQ(rows[0].what, "reschedule");
  EXPECT_EQ(rows[1].what, "cancel");
  EXPECT_EQ(json::parse(rows[1].before)["state"], "scheduled");
  EXPECT_EQ(json::parse(rows[1].after)["state"], "cancelled");
  EXPECT_FALSE(json::parse(rows[1].after).contains("queue")) << "did not change";
}

TEST_P(ByHandTest, TheReasonAndTheBulkStandInTheAudit) {
  const TaskId id = waiting();
  const Event fire{id, event::Fire{}, ByHand{"ann@desk (test)", {}, "the bank is back"}};
  ASSERT_EQ(store_->apply(std::span(&fire, 1), Fence{}, decider()).at(0).verdict, Verdict::applied);
  const TaskId other = waiting("invoices");
  const Bulk bulk = store_->create_bulk(cancel_all("invoices"));
  const Bulk taken = *store_->take_bulk("us", kTtl);
  step(taken, "us", 10);
  const AuditRow by_id = store_->audit(id).at(0), by_bulk = store_->audit(other).at(0);
  EXPECT_EQ(by_id.reason, "the bank is back");
  EXPECT_EQ(by_id.bulk, 0);
  EXPECT_EQ(get(id).last_error, "");
  EXPECT_EQ(get(other).last_error, "") << "the reason is not an error of the message";
  EXPECT_EQ(by_bulk.reason, "season is over");
  EXPECT_EQ(by_bulk.bulk, bulk.id);
}

TEST_P(ByHandTest, ABulkWorksOnTheIdsThatItFroze) {
  std::vector<TaskId> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(waiting());
  waiting("invoices");
  const Bulk made = store_->create_bulk(cancel_all());
  EXPECT_EQ(made.total, 5);
  EXPECT_EQ(made.state, BulkState::running);
  const TaskId after = waiting();  // not frozen
  ASSERT_EQ(change(ids[1], event::Cancel{}).verdict, Verdict::applied);
  const auto taken = store_->take_bulk("us", kTtl);
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->id, made.id);
  EXPECT_EQ(taken->reason, "season is over");
  EXPECT_EQ(step(*taken, "us", 3), 3U);
  EXPECT_EQ(store_->bulk(made.id)->done, 3);
  EXPECT_EQ(step(*taken, "us", 3), 2U);
  EXPECT_EQ(step(*taken, "us", 3), 0U);
  const Bulk end = *store_->bulk(made.id);
  EXPECT_EQ(end.state, BulkState::done);
  EXPECT_EQ(end.done, 5);
  EXPECT_EQ(end.applied, 4) << "one was cancelled already";
  EXPECT_EQ(end.refused, 0);
  EXPECT_TRUE(end.finished_at);
  EXPECT_EQ(get(ids[0]).last_error, "");
  EXPECT_EQ(get(after).state, State::scheduled);
  EXPECT_EQ(store_->audit(ids[0]).size(), 1U);
  EXPECT_FALSE(store_->take_bulk("us", kTtl));
}

TEST_P(ByHandTest, ABulkHasOneRunnerAndGoesOverToAnotherWhenItsTimeIsUp) {
  for (int i = 0; i < 4; ++i) waiting();
  const Bulk made = store_->create_bulk(cancel_all());
  ASSERT_TRUE(store_->take_bulk("us", Ms{300}));
  EXPECT_FALSE(store_->take_bulk("them", kTtl)) << "it is in hand";
  EXPECT_EQ(step(made, "us", 1), 1U);
  std::optional<Bulk> theirs;
  if (memory_) memory_->advance(Ms{5000});
  wait_until([&] { return (theirs = store_->take_bulk("them", kTtl)).has_value(); });
  EXPECT_THROW(step(made, "us", 1), StoreError) << "it is in other hands";
  EXPECT_EQ(step(*theirs, "them", 10), 3U);
  EXPECT_EQ(store_->bulk(made.id)->done, 4);
}

TEST_P(ByHandTest, AStepGoesOnFromExactlyWhereTheBulkStands) {
  for (int i = 0; i < 4; ++i) waiting();
  const Bulk made = store_->create_bulk(cancel_all());
  // Two processes with the same name: both have taken the bulk and read the same ids.
  const Bulk one = *store_->take_bulk("us", kTtl), two = *store_->take_bulk("us", kTtl);
  const auto ids = store_->bulk_next({one.id, "us", one.last}, 2);
  const auto more = store_->bulk_next({two.id, "us", two.last}, 3);
  const auto apply = [&](const Bulk& bulk, const std::vector<TaskId>& tasks) {
    std::vector<Event> events;
    for (const TaskId id : tasks) events.push_back(event_of(bulk, id));
    const BulkStep step{bulk.id, "us", bulk.last};
    return result_of([&] { return store_->apply(events, Fence{}, decider(), &step); }).has_value();
  };
  EXPECT_TRUE(apply(one, ids));
  EXPECT_FALSE(apply(two, more));
  EXPECT_EQ(store_->bulk(made.id)->done, 2);
}

TEST_P(ByHandTest, ABulkIsDueByItsRateAndHoldsUpNoOther) {
  for (int i = 0; i < 4; ++i) waiting();
  NewBulk asked = cancel_all();
  asked.rate = 0.01;
  const Bulk slow = store_->create_bulk(asked);
  EXPECT_DOUBLE_EQ(store_->bulk(slow.id)->rate, 0.01);
  ASSERT_TRUE(store_->take_bulk("us", kTtl));
  EXPECT_EQ(step(slow, "us", 1), 1U);
  EXPECT_FALSE(store_->take_bulk("us", kTtl)) << "for 100 s";
  if (memory_) memory_->advance(kTtl + Ms{5000});
  EXPECT_FALSE(store_->take_bulk("them", kTtl)) << "nor for another";
  const Bulk quick = store_->create_bulk(cancel_all());
  const auto taken = store_->take_bulk("us", kTtl);
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->id, quick.id);
  EXPECT_EQ(step(*taken, "us", 10), 3U);
  EXPECT_EQ(step(*taken, "us", 10), 0U);
  EXPECT_FALSE(store_->take_bulk("us", kTtl));
  // A new rate applies at once.
  ASSERT_TRUE(store_->set_bulk({slow.id, BulkState::running, 1000}));
  ASSERT_TRUE(store_->take_bulk("them", kTtl));
  EXPECT_EQ(step(slow, "them", 10), 3U);
  NewBulk tiny = cancel_all();
  tiny.rate = 1e-7;
  EXPECT_DOUBLE_EQ(store_->create_bulk(tiny).rate, 1e-7);
}

TEST_P(ByHandTest, ABulkIsPausedGoesOnAndIsAborted) {
  for (int i = 0; i < 4; ++i) waiting();
  const Bulk made = store_->create_bulk(cancel_all());
  ASSERT_TRUE(store_->take_bulk("us", kTtl));
  EXPECT_EQ(step(made, "us", 1), 1U);
  const BulkControl pause{made.id, BulkState::paused, {}, "bob", "wait for the fix"};
  const Bulk paused = *store_->set_bulk(pause);
  EXPECT_EQ(paused.state, BulkState::paused);
  EXPECT_EQ(paused.changed_by, "bob");
  EXPECT_EQ(paused.changed_because, "wait for the fix");
  store_->set_bulk(pause);  // again: nothing to record
  EXPECT_THROW(step(made, "us", 1), StoreError);
  EXPECT_FALSE(store_->take_bulk("us", kTtl));
  const auto on = store_->set_bulk({made.id, BulkState::running, 2.5});
  EXPECT_EQ(on->state, BulkState::running);
  EXPECT_DOUBLE_EQ(on->rate, 2.5);
  ASSERT_TRUE(store_->take_bulk("us", kTtl));
  EXPECT_EQ(step(made, "us", 1), 1U);
  EXPECT_EQ(store_->set_bulk({made.id, BulkState::aborted})->state, BulkState::aborted);
  EXPECT_EQ(store_->set_bulk({made.id, BulkState::running})->state, BulkState::aborted) << "it has ended";
  const Bulk end = *store_->bulk(made.id);
  EXPECT_EQ(end.done, 2);
  EXPECT_TRUE(end.finished_at);
  EXPECT_FALSE(store_->set_bulk({made.id + 1000, BulkState::paused}));
  std::vector<std::string> by_people;
  for (const AuditRow& row : store_->audit(TaskId{0})) {
    by_people.push_back(row.what + " by " + row.who);
    EXPECT_EQ(row.bulk, made.id);
  }
  EXPECT_THAT(by_people,
              testing::ElementsAre("cancel by ann@desk (test)", "pause by bob", "resume by ", "abort by "));
  const auto told = events(10);
  EXPECT_EQ(std::ranges::count(told, "bulk_paused", &SystemEvent::kind), 1);
  EXPECT_EQ(std::ranges::find(told, "bulk_paused", &SystemEvent::kind)->detail,
            "by bob at 1 of 4: wait for the fix");
}

TEST_P(ByHandTest, ARedriveFreezesWhatIsParked) {
  waiting();
  const TaskId id = parked();
  NewBulk asked = cancel_all();
  asked.action = BulkAction::redrive;
  asked.elsewhere.queue = "repaired";
  const Bulk made = store_->create_bulk(asked);
  EXPECT_EQ(made.total, 1);
  EXPECT_EQ(store_->bulk(made.id)->elsewhere.queue, "repaired");
  ASSERT_TRUE(store_->take_bulk("us", kTtl));
  EXPECT_EQ(step(made, "us", 10), 1U);
  EXPECT_EQ(get(id).queue, "repaired");
}

TEST_P(ByHandTest, ADiscardEndsWhatIsParked) {
  const TaskId scheduled = waiting();
  const TaskId id = parked();
  NewBulk asked = cancel_all();
  asked.action = BulkAction::discard;
  asked.reason = "refunded";
  const Bulk made = store_->create_bulk(asked);
  EXPECT_EQ(made.total, 1) << "without a state: what is parked";
  EXPECT_EQ(store_->bulk(made.id)->action, BulkAction::discard);
  ASSERT_TRUE(store_->take_bulk("us", kTtl));
  EXPECT_EQ(step(made, "us", 10), 1U);
  const Task ended = get(id);
  EXPECT_EQ(ended.state, State::discarded);
  EXPECT_EQ(ended.last_error, "poison");
  EXPECT_EQ(store_->audit(id).at(0).what, "discard");
  EXPECT_EQ(store_->audit(id).at(0).reason, "refunded");
  EXPECT_EQ(get(scheduled).state, State::scheduled);
}

TEST_P(ByHandTest, OnlyTasksOfTheQueuesThatThePersonMayActOn) {
  const TaskId theirs = waiting("orders.eu"), another = waiting("invoices");
  const auto scope = std::make_shared<const QueueScope>(std::vector<QueuePattern>{QueuePattern("orders.*")});
  const std::vector<Event> events{{theirs, event::Fire{}, ByHand{"ann", {}, "", 0, scope}},
                                  {another, event::Fire{}, ByHand{"ann", 99, "", 0, scope}}};
  const auto decisions = store_->apply(events, Fence{}, decider());
  EXPECT_EQ(decisions.at(0).verdict, Verdict::applied);
  EXPECT_EQ(decisions.at(1).verdict, Verdict::refused);
  EXPECT_EQ(decisions.at(1).reason, kNotTheirQueue) << "whatever its version is";
  EXPECT_EQ(decisions.at(1).task.queue, "invoices");
  EXPECT_EQ(store_->audit(another).size(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Stores, ByHandTest, testing::Values("memory", "mysql"),
                         [](const auto& p) { return p.param; });

}  // namespace
}  // namespace rung::test
