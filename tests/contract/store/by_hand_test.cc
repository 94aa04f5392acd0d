// Submissions and changes by people and programs: tasks without a lease, changes with an audit, bulks.
#include <future>
#include <nlohmann/json.hpp>

#include "tests/contract/store/world.h"

namespace rung::test {
namespace {

using Verdict = Decision::Verdict;
using nlohmann::json;

Event by_hand(TaskId id, Happening what, std::optional<std::uint32_t> if_version = {}) {
  return {id, std::move(what), ByHand{"ann@desk (test)", if_version}};
}

class ByHandTest : public StoreContract {
 protected:
  void SetUp() override {
    StoreContract::SetUp();
    fence = join(*store_, "a");
  }
  Decision change(TaskId id, Happening what, std::optional<std::uint32_t> if_version = {}) {
    const Event event = by_hand(id, std::move(what), if_version);
    return must(store_->apply(std::span(&event, 1), Fence{}, decider())).at(0);
  }
  TaskId waiting(const std::string& queue = "orders") {
    NewTask n = task(queue);
    n.task.next_at = must(store_->now()) + Ms{3'600'000};
    EXPECT_EQ(must(store_->insert(std::span(&n, 1), fence)).at(0).how, Inserted::How::inserted);
    return n.task.id;
  }
  NewBulk cancel_all(const std::string& queue = "orders") {
    NewBulk bulk;
    bulk.filter.queue = queue;
    bulk.filter_text = "queue=" + queue;
    bulk.reason = "season is over";
    bulk.who = "ann@desk (test)";
    return bulk;
  }
  // Runs one step of `bulk` as `runner`; returns its number of tasks.
  Result<std::size_t> step(const Bulk& bulk, const std::string& runner, int limit) {
    const Bulk now = *must(store_->bulk(bulk.id));
    const BulkStep how{bulk.id, runner, now.last, now.rate, true};
    const auto ids = must(store_->bulk_next(how, limit));
    if (ids.empty()) return std::size_t{0};
    std::vector<Event> events;
    for (const TaskId id : ids) events.push_back(event_of(bulk, id));
    auto decisions = store_->apply(events, Fence{}, decider(), &how);
    if (!decisions) return tl::unexpected(decisions.error());
    return decisions->size();
  }

  Fence fence;
};

TEST_P(ByHandTest, WithoutALeaseARowGoesIntoAnyShard) {
  NewTask n = task();
  n.task.shard = 17;
  EXPECT_EQ(must(store_->insert(std::span(&n, 1), Fence{})).at(0).how, Inserted::How::not_held);
  EXPECT_EQ(must(store_->insert(std::span(&n, 1), Fence{0, {}, true})).at(0).how, Inserted::How::inserted);
  EXPECT_EQ(get(*store_, n.task.id).shard, 17);
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
  const EpochMs due = must(store_->now()) + Ms{60'000};
  begin_delay(t, {}, *rules(), must(store_->now()), due);
  ASSERT_EQ(must(store_->insert(std::span(&n, 1), fence)).at(0).how, Inserted::How::inserted);
  const Task back = get(*store_, t.id);
  EXPECT_TRUE(back == t);
  EXPECT_EQ(back.kind, Kind::delay);
  EXPECT_EQ(back.level, 0);
  EXPECT_EQ(back.next_at, due);
  EXPECT_EQ(back.version, 1U);
  Filter filter;
  filter.exchange = "events";
  EXPECT_EQ(must(store_->list(filter)).size(), 1U);
  EXPECT_EQ(must(store_->count(filter, 10)), 1);
  filter.exchange = "other";
  EXPECT_EQ(must(store_->count(filter, 10)), 0);
}

TEST_P(ByHandTest, TheExecutorStandsWithTheAttempt) {
  const TaskId id = due_task(*store_, fence);
  ASSERT_EQ(apply_one(*store_, fence, id, event::Claim{}).verdict, Verdict::applied);
  ASSERT_EQ(apply_one(*store_, fence, id, event::Confirmed{1, must(store_->now())}).verdict,
            Verdict::applied);
  ASSERT_EQ(apply_one(*store_, fence, id, event::Succeeded{1, "10.0.0.3:4711"}).verdict, Verdict::applied);
  EXPECT_EQ(must(store_->history(id)).at(0).attempt.executor, "10.0.0.3:4711");
}

TEST_P(ByHandTest, EachChangeMakesAVersionAndAnAuditRow) {
  const TaskId id = waiting();
  const EpochMs later = must(store_->now()) + Ms{7'200'000};
  ASSERT_EQ(change(id, event::Reschedule{later, Ms{0}}, 1).verdict, Verdict::applied);
  EXPECT_EQ(get(*store_, id).next_at, later);
  EXPECT_EQ(get(*store_, id).version, 2U);
  const Decision refused = change(id, event::Cancel{""}, 1);
  EXPECT_EQ(refused.verdict, Verdict::refused);
  EXPECT_EQ(refused.reason, kChangedMeanwhile);
  EXPECT_EQ(refused.task.version, 2U);
  ASSERT_EQ(change(id, event::Cancel{"gone"}, 2).verdict, Verdict::applied);
  EXPECT_EQ(change(id, event::Cancel{"gone"}).verdict, Verdict::stale);
  const auto rows = must(store_->audit(id));
  ASSERT_EQ(rows.size(), 2U);  // refused and stale events changed nothing
  EXPECT_EQ(rows[0].who, "ann@desk (test)");
  EXPECT_EQ(rows[0].what, "reschedule");
  EXPECT_EQ(rows[1].what, "cancel");
  EXPECT_EQ(json::parse(rows[1].before)["state"], "scheduled");
  EXPECT_EQ(json::parse(rows[1].after)["state"], "cancelled");
  EXPECT_EQ(json::parse(rows[1].after)["last_error"], "gone");
  EXPECT_FALSE(json::parse(rows[1].after).contains("queue")) << "did not change";
}

TEST_P(ByHandTest, TheReasonAndTheBulkStandInTheAudit) {
  const TaskId id = waiting();
  const Event fire{id, event::Fire{}, ByHand{"ann@desk (test)", {}, "the bank is back"}};
  ASSERT_EQ(must(store_->apply(std::span(&fire, 1), Fence{}, decider())).at(0).verdict, Verdict::applied);
  const TaskId other = waiting("invoices");
  const Bulk bulk = must(store_->create_bulk(cancel_all("invoices")));
  const Bulk taken = *must(store_->take_bulk("us", kTtl, bulk.id));
  must(step(taken, "us", 10));
  const AuditRow by_id = must(store_->audit(id)).at(0), by_bulk = must(store_->audit(other)).at(0);
  EXPECT_EQ(by_id.reason, "the bank is back");
  EXPECT_EQ(by_id.bulk, 0);
  EXPECT_EQ(get(*store_, id).last_error, "") << "only a cancel and a discard end with their reason";
  EXPECT_EQ(by_bulk.reason, "season is over");
  EXPECT_EQ(by_bulk.bulk, bulk.id);
}

TEST_P(ByHandTest, AChangeOfTheSidecarsLeavesNoAudit) {
  const TaskId id = due_task(*store_, fence);
  ASSERT_EQ(apply_one(*store_, fence, id, event::Claim{}).verdict, Verdict::applied);
  EXPECT_TRUE(must(store_->audit(id)).empty());
}

TEST_P(ByHandTest, WhatIsRedrivenElsewhereGoesThere) {
  NewTask n = task();
  begin_parked(n.task, "poison", *rules(), must(store_->now()));
  ASSERT_EQ(must(store_->insert(std::span(&n, 1), fence)).at(0).how, Inserted::How::inserted);
  ASSERT_EQ(change(n.task.id, event::Redrive{{"orders.repaired", "", ""}}).verdict, Verdict::applied);
  const Task t = get(*store_, n.task.id);
  EXPECT_EQ(t.state, State::scheduled);
  EXPECT_EQ(target_of(t), (Target{"orders.repaired", "", ""}));
}

TEST_P(ByHandTest, ABulkWorksOnTheIdsThatItFroze) {
  std::vector<TaskId> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(waiting());
  waiting("invoices");
  const Bulk made = must(store_->create_bulk(cancel_all()));
  EXPECT_EQ(made.total, 5);
  EXPECT_EQ(made.state, BulkState::running);
  const TaskId after = waiting();  // not frozen
  ASSERT_EQ(change(ids[1], event::Cancel{"before"}).verdict, Verdict::applied);
  const auto taken = must(store_->take_bulk("us", kTtl));
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->id, made.id);
  EXPECT_EQ(taken->reason, "season is over");
  EXPECT_EQ(must(step(*taken, "us", 3)), 3U);
  EXPECT_EQ(must(store_->bulk(made.id))->done, 3);
  EXPECT_EQ(must(step(*taken, "us", 3)), 2U);
  EXPECT_EQ(must(step(*taken, "us", 3)), 0U);
  const Bulk end = *must(store_->bulk(made.id));
  EXPECT_EQ(end.state, BulkState::done);
  EXPECT_EQ(end.done, 5);
  EXPECT_EQ(end.applied, 4) << "one was cancelled already";
  EXPECT_EQ(end.refused, 0);
  EXPECT_TRUE(end.finished_at);
  EXPECT_EQ(get(*store_, ids[0]).last_error, "season is over");
  EXPECT_EQ(get(*store_, after).state, State::scheduled);
  EXPECT_EQ(must(store_->audit(ids[0])).size(), 1U);
  EXPECT_FALSE(must(store_->take_bulk("us", kTtl)));
}

TEST_P(ByHandTest, ABulkHasOneRunnerAndGoesOverToAnotherWhenItsTimeIsUp) {
  for (int i = 0; i < 4; ++i) waiting();
  const Bulk made = must(store_->create_bulk(cancel_all()));
  ASSERT_TRUE(must(store_->take_bulk("us", Ms{300})));
  EXPECT_FALSE(must(store_->take_bulk("them", kTtl))) << "it is in hand";
  EXPECT_EQ(must(step(made, "us", 1)), 1U);
  std::optional<Bulk> theirs;
  if (memory_) memory_->advance(Ms{5000});
  wait_until([&] { return (theirs = must(store_->take_bulk("them", kTtl))).has_value(); });
  EXPECT_FALSE(step(made, "us", 1)) << "it is in other hands";
  EXPECT_EQ(must(step(*theirs, "them", 10)), 3U);
  EXPECT_EQ(must(store_->bulk(made.id))->done, 4);
}

TEST_P(ByHandTest, AStepGoesOnFromExactlyWhereTheBulkStands) {
  for (int i = 0; i < 4; ++i) waiting();
  const Bulk made = must(store_->create_bulk(cancel_all()));
  // Two processes with the same name: both have taken the bulk and read the same ids.
  const Bulk one = *must(store_->take_bulk("us", kTtl)), two = *must(store_->take_bulk("us", kTtl));
  const auto ids = must(store_->bulk_next({one.id, "us", one.last}, 2));
  const auto more = must(store_->bulk_next({two.id, "us", two.last}, 3));
  const auto apply = [&](const Bulk& bulk, const std::vector<TaskId>& tasks) {
    std::vector<Event> events;
    for (const TaskId id : tasks) events.push_back(event_of(bulk, id));
    const BulkStep step{bulk.id, "us", bulk.last};
    return store_->apply(events, Fence{}, decider(), &step).has_value();
  };
  EXPECT_TRUE(apply(one, ids));
  EXPECT_FALSE(apply(two, more));
  EXPECT_EQ(must(store_->bulk(made.id))->done, 2);
}

TEST_P(ByHandTest, ABulkIsDueByItsRateAndHoldsUpNoOther) {
  for (int i = 0; i < 4; ++i) waiting();
  NewBulk asked = cancel_all();
  asked.rate = 0.01;
  const Bulk slow = must(store_->create_bulk(asked));
  EXPECT_DOUBLE_EQ(must(store_->bulk(slow.id))->rate, 0.01);
  ASSERT_TRUE(must(store_->take_bulk("us", kTtl)));
  EXPECT_EQ(must(step(slow, "us", 1)), 1U);
  EXPECT_FALSE(must(store_->take_bulk("us", kTtl))) << "for 100 s";
  if (memory_) memory_->advance(kTtl + Ms{5000});
  EXPECT_FALSE(must(store_->take_bulk("them", kTtl))) << "nor for another";
  const Bulk quick = must(store_->create_bulk(cancel_all()));
  const auto taken = must(store_->take_bulk("us", kTtl));
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->id, quick.id);
  EXPECT_EQ(must(step(*taken, "us", 10)), 3U);
  EXPECT_EQ(must(step(*taken, "us", 10)), 0U);
  EXPECT_FALSE(must(store_->take_bulk("us", kTtl)));
  // A new rate applies at once.
  ASSERT_TRUE(must(store_->set_bulk(slow.id, BulkState::running, 1000)));
  ASSERT_TRUE(must(store_->take_bulk("them", kTtl)));
  EXPECT_EQ(must(step(slow, "them", 10)), 3U);
  NewBulk tiny = cancel_all();
  tiny.rate = 1e-7;
  EXPECT_DOUBLE_EQ(must(store_->create_bulk(tiny)).rate, 1e-7);
}

TEST_P(ByHandTest, ABulkIsPausedGoesOnAndIsAborted) {
  for (int i = 0; i < 4; ++i) waiting();
  const Bulk made = must(store_->create_bulk(cancel_all()));
  ASSERT_TRUE(must(store_->take_bulk("us", kTtl)));
  EXPECT_EQ(must(step(made, "us", 1)), 1U);
  EXPECT_EQ(must(store_->set_bulk(made.id, BulkState::paused, {}))->state, BulkState::paused);
  EXPECT_FALSE(step(made, "us", 1));
  EXPECT_FALSE(must(store_->take_bulk("us", kTtl)));
  const auto on = must(store_->set_bulk(made.id, BulkState::running, 2.5));
  EXPECT_EQ(on->state, BulkState::running);
  EXPECT_DOUBLE_EQ(on->rate, 2.5);
  ASSERT_TRUE(must(store_->take_bulk("us", kTtl, made.id)));
  EXPECT_EQ(must(step(made, "us", 1)), 1U);
  EXPECT_EQ(must(store_->set_bulk(made.id, BulkState::aborted, {}))->state, BulkState::aborted);
  EXPECT_EQ(must(store_->set_bulk(made.id, BulkState::running, {}))->state, BulkState::aborted)
      << "it has ended";
  const Bulk end = *must(store_->bulk(made.id));
  EXPECT_EQ(end.done, 2);
  EXPECT_TRUE(end.finished_at);
  EXPECT_FALSE(must(store_->set_bulk(made.id + 1000, BulkState::paused, {})));
}

TEST_P(ByHandTest, ARedriveFreezesWhatIsParked) {
  waiting();
  NewTask n = task();
  begin_parked(n.task, "poison", *rules(), must(store_->now()));
  ASSERT_EQ(must(store_->insert(std::span(&n, 1), fence)).at(0).how, Inserted::How::inserted);
  NewBulk asked = cancel_all();
  asked.action = BulkAction::redrive;
  asked.elsewhere.queue = "repaired";
  const Bulk made = must(store_->create_bulk(asked));
  EXPECT_EQ(made.total, 1);
  EXPECT_EQ(must(store_->bulks(10)).at(0).elsewhere.queue, "repaired");
  ASSERT_TRUE(must(store_->take_bulk("us", kTtl)));
  EXPECT_EQ(must(step(made, "us", 10)), 1U);
  EXPECT_EQ(get(*store_, n.task.id).queue, "repaired");
}

TEST_P(ByHandTest, ADiscardEndsWhatIsParked) {
  const TaskId scheduled = waiting();
  NewTask n = task();
  begin_parked(n.task, "poison", *rules(), must(store_->now()));
  ASSERT_EQ(must(store_->insert(std::span(&n, 1), fence)).at(0).how, Inserted::How::inserted);
  NewBulk asked = cancel_all();
  asked.action = BulkAction::discard;
  asked.reason = "refunded";
  const Bulk made = must(store_->create_bulk(asked));
  EXPECT_EQ(made.total, 1) << "without a state: what is parked";
  EXPECT_EQ(must(store_->bulks(10)).at(0).action, BulkAction::discard);
  ASSERT_TRUE(must(store_->take_bulk("us", kTtl)));
  EXPECT_EQ(must(step(made, "us", 10)), 1U);
  const Task ended = get(*store_, n.task.id);
  EXPECT_EQ(ended.state, State::discarded);
  EXPECT_EQ(ended.last_error, "refunded");
  EXPECT_EQ(must(store_->audit(n.task.id)).at(0).what, "discard");
  EXPECT_EQ(get(*store_, scheduled).state, State::scheduled);
}

TEST_P(ByHandTest, OnlyTasksOfTheQueuesThatThePersonMayActOn) {
  const TaskId theirs = waiting("orders.eu"), another = waiting("invoices");
  const auto scope = std::make_shared<const QueueScope>(std::vector<QueuePattern>{QueuePattern("orders.*")});
  const std::vector<Event> events{{theirs, event::Fire{}, ByHand{"ann", {}, "", 0, scope}},
                                  {another, event::Fire{}, ByHand{"ann", 99, "", 0, scope}}};
  const auto decisions = must(store_->apply(events, Fence{}, decider()));
  EXPECT_EQ(decisions.at(0).verdict, Verdict::applied);
  EXPECT_EQ(decisions.at(1).verdict, Verdict::refused);
  EXPECT_EQ(decisions.at(1).reason, kNotTheirQueue) << "whatever its version is";
  EXPECT_EQ(decisions.at(1).task.queue, "invoices");
  EXPECT_EQ(must(store_->audit(another)).size(), 0U);
}

// Redrives that look at their own outcome (src/bridge/changes/careful_redrive.h): what the store does for
// them.
class CarefulRedrive : public ByHandTest {
 protected:
  TaskId parked(const std::string& queue = "orders") {
    NewTask n = task(queue);
    begin_parked(n.task, "poison", *rules(), must(store_->now()));
    EXPECT_EQ(must(store_->insert(std::span(&n, 1), fence)).at(0).how, Inserted::How::inserted);
    return n.task.id;
  }
  NewBulk redrive(const std::string& queue = "orders") {
    NewBulk asked = cancel_all(queue);
    asked.action = BulkAction::redrive;
    return asked;
  }
  void happen(TaskId id, Happening what) {
    const Event event{id, std::move(what)};
    ASSERT_EQ(must(store_->apply(std::span(&event, 1), fence, decider())).at(0).verdict, Verdict::applied);
  }
  void deliver(TaskId id) {
    wait_until([&] { return apply_one(*store_, fence, id, event::Claim{}).verdict == Verdict::applied; });
    happen(id, event::Confirmed{get(*store_, id).attempt, must(store_->now())});
  }
};

TEST_P(CarefulRedrive, ItsCareIsKept) {
  NewBulk asked = redrive();
  asked.rate = 100;
  asked.care = {.canary = 10, .watch = Ms{120'000}, .ramp = true, .stop_above = 2.5};
  const Bulk made = must(store_->create_bulk(asked));
  EXPECT_EQ(made.care, asked.care);
  EXPECT_EQ(made.action, BulkAction::redrive);
  EXPECT_EQ(must(store_->bulk(made.id))->care, asked.care);
  EXPECT_FALSE(made.canary_done);
  ASSERT_TRUE(must(store_->take_bulk("us", kTtl, made.id))) << "a process of this release runs it";
  NewBulk plain = redrive();
  EXPECT_EQ(must(store_->create_bulk(plain)).care, Care{});
}

TEST_P(CarefulRedrive, WhatBecameOfWhatItSent) {
  const TaskId fails = parked(), succeeds = parked(), waits = parked(), unsent = parked(), claimed = parked(),
               later = parked();
  const Bulk made = must(store_->create_bulk(redrive()));
  EXPECT_TRUE(must(store_->sent_by_bulk(made.id, 10)).empty());
  ASSERT_TRUE(must(store_->take_bulk("us", kTtl)));
  EXPECT_EQ(must(step(made, "us", 5)), 5U);
  for (const TaskId id : {fails, succeeds, waits}) deliver(id);
  happen(fails, event::Failed{1, "connection refused", "", {}});
  happen(succeeds, event::Succeeded{1});
  wait_until([&] { return apply_one(*store_, fence, claimed, event::Claim{}).verdict == Verdict::applied; });
  auto sent = must(store_->sent_by_bulk(made.id, 10));
  ASSERT_EQ(sent.size(), 5U) << "not " << later.str();
  EXPECT_EQ(sent[0].id, claimed);
  EXPECT_FALSE(sent[0].published_at) << "the broker has not answered";
  sent.erase(sent.begin());
  EXPECT_EQ(sent[3].id, fails);
  EXPECT_EQ(sent[3].outcome, Outcome::failed);
  EXPECT_EQ(sent[3].error, "connection refused");
  EXPECT_EQ(sent[3].queue, "orders");
  EXPECT_EQ(sent[2].outcome, Outcome::succeeded);
  EXPECT_EQ(sent[1].outcome, Outcome::pending);
  EXPECT_TRUE(sent[1].published_at);
  EXPECT_EQ(sent[1].state, State::awaiting);
  EXPECT_FALSE(sent[1].held);
  EXPECT_EQ(sent[0].id, unsent);
  EXPECT_FALSE(sent[0].published_at);
  EXPECT_EQ(must(store_->sent_by_bulk(made.id, 2)).size(), 2U) << "the last ones";
  // The next attempt of the one that failed is not what the bulk has sent.
  deliver(fails);
  happen(fails, event::Succeeded{2});
  EXPECT_EQ(must(store_->sent_by_bulk(made.id, 10))[4].outcome, Outcome::failed);
}

// Each sees what the others have frozen, also if they begin at the same time.
TEST_P(CarefulRedrive, CreatedAtOnceTheyShareNoTask) {
  constexpr int kTasks = 200, kAtOnce = 4;
  for (int i = 0; i < kTasks; ++i) parked();
  std::vector<std::unique_ptr<Store>> stores;
  for (int i = 0; i < kAtOnce; ++i) stores.push_back(open());
  std::vector<std::future<std::int64_t>> totals;
  for (auto& store : stores) {
    totals.push_back(std::async(std::launch::async, [this, &store] {
      std::int64_t total = 0;
      for (int i = 0; i < 5; ++i) total += must(store->create_bulk(redrive())).total;
      return total;
    }));
  }
  std::int64_t all = 0;
  for (auto& total : totals) all += total.get();
  EXPECT_EQ(all, kTasks);
}

TEST_P(CarefulRedrive, AnAttemptBeforeItIsNotItsOutcome) {
  const TaskId id = parked();
  Bulk first = must(store_->create_bulk(redrive()));
  ASSERT_TRUE(must(store_->take_bulk("us", kTtl)));
  EXPECT_EQ(must(step(first, "us", 10)), 1U);
  deliver(id);
  Directives never;
  never.never = true;
  happen(id, event::Failed{1, "no", "", never});
  EXPECT_EQ(must(step(first, "us", 10)), 0U) << "it is complete";
  const Bulk second = must(store_->create_bulk(redrive()));
  ASSERT_EQ(second.total, 1);
  ASSERT_TRUE(must(store_->take_bulk("us", kTtl)));
  EXPECT_EQ(must(step(second, "us", 10)), 1U);
  EXPECT_EQ(must(store_->sent_by_bulk(second.id, 10)).at(0).outcome, Outcome::pending);
  deliver(id);
  happen(id, event::Succeeded{2});
  EXPECT_EQ(must(store_->sent_by_bulk(second.id, 10)).at(0).outcome, Outcome::succeeded);
  EXPECT_EQ(must(store_->sent_by_bulk(first.id, 10)).at(0).outcome, Outcome::failed);
}

TEST_P(CarefulRedrive, ItWaitsGoesOnAndStops) {
  parked();
  parked();
  NewBulk asked = redrive();
  asked.care.canary = 1;
  const Bulk made = must(store_->create_bulk(asked));
  ASSERT_TRUE(must(store_->take_bulk("us", kTtl)));
  EXPECT_EQ(must(step(made, "us", 1)), 1U);
  const auto here = [&] { return BulkStep{made.id, "us", must(store_->bulk(made.id))->last}; };
  using Go = BulkVerdict::Go;
  ASSERT_TRUE(store_->judge_bulk(here(), {Go::wait, "..."}, Ms{60'000}));
  EXPECT_FALSE(must(store_->take_bulk("us", kTtl))) << "for a minute";
  EXPECT_FALSE(must(store_->take_bulk("them", kTtl)));
  ASSERT_TRUE(store_->judge_bulk(here(), {Go::passed, ""}, Ms{0}));
  EXPECT_EQ(must(store_->bulk(made.id))->canary_done, 1);
  ASSERT_TRUE(store_->judge_bulk({made.id, "them", here().from}, {Go::stop, "no"}, Ms{0}));
  ASSERT_TRUE(store_->judge_bulk({made.id, "us", TaskId{1}}, {Go::stop, "no"}, Ms{0}));
  EXPECT_EQ(must(store_->bulk(made.id))->state, BulkState::running) << "neither has it";
  ASSERT_TRUE(store_->judge_bulk(here(), {Go::stop, "2 of 10 failed"}, Ms{0}));
  const Bulk end = *must(store_->bulk(made.id));
  EXPECT_EQ(end.state, BulkState::aborted);
  EXPECT_EQ(end.stopped_because, "2 of 10 failed");
  EXPECT_TRUE(end.finished_at);
  const auto events = must(store_->events(10));
  const auto told = std::ranges::find(events, "bulk_stopped", &SystemEvent::kind);
  ASSERT_NE(told, events.end());
  EXPECT_EQ(told->subject, std::to_string(made.id));
  EXPECT_EQ(told->detail, "2 of 10 failed");
  EXPECT_EQ(std::ranges::count(events, "bulk_stopped", &SystemEvent::kind), 1);
}

TEST_P(CarefulRedrive, ATaskHasOneOpenRedrive) {
  parked("presumed");
  const TaskId second = parked("presumed");
  const Bulk made = must(store_->create_bulk(redrive("presumed")));
  EXPECT_EQ(made.total, 2);
  EXPECT_EQ(must(store_->create_bulk(redrive("presumed"))).total, 0) << "another one has them";
  NewBulk discard = cancel_all("presumed");
  discard.action = BulkAction::discard;
  EXPECT_EQ(must(store_->create_bulk(discard)).total, 2);
  ASSERT_TRUE(must(store_->take_bulk("us", kTtl, made.id)));
  EXPECT_EQ(must(step(made, "us", 1)), 1U);
  // A person sends the second one alone; it succeeds, as its silence says. The bulk does not send it again.
  EXPECT_EQ(change(second, event::Redrive{}).verdict, Verdict::applied);
  deliver(second);
  wait_until(
      [&] { return apply_one(*store_, fence, second, event::SilenceOver{}).verdict == Verdict::applied; });
  EXPECT_EQ(get(*store_, second).state, State::succeeded);
  EXPECT_EQ(must(step(made, "us", 1)), 1U);
  EXPECT_EQ(get(*store_, second).state, State::succeeded) << "it was sent since the bulk was created";
  EXPECT_EQ(must(store_->bulk(made.id))->applied, 1);
  must(step(made, "us", 1));
  EXPECT_EQ(must(store_->bulk(made.id))->state, BulkState::done);
}

INSTANTIATE_TEST_SUITE_P(Stores, CarefulRedrive, testing::Values("memory", "mysql"),
                         [](const auto& p) { return p.param; });
INSTANTIATE_TEST_SUITE_P(Stores, ByHandTest, testing::Values("memory", "mysql"),
                         [](const auto& p) { return p.param; });

}  // namespace
}  // namespace rung::test
