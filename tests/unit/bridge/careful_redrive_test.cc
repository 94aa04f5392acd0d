// A redrive that looks at its own outcome, step by step: its canary, its ramp, where it stops.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/bridge/changes/bulk.h"
#include "src/bridge/flight/transitions.h"
#include "src/store/task_writer.h"
#include "tests/unit/bridge/flow_fixture.h"

namespace rung::bridge {
namespace {

using Go = BulkVerdict::Go;
using testing::AllOf;
using testing::HasSubstr;

constexpr Ms kOneMinute{60'000};

// invoices: without a reported success it has failed. The consumer is the test.
RuleBookPtr rules_of_story() {
  const QueueRules defaults{.ladder = "default", .silence = {Silence::Means::success, kOneMinute * 10}};
  QueueRules reporting = defaults;
  reporting.silence = {Silence::Means::failure, kOneMinute * 10};
  return book_of({Ms{1000}, Ms{2000}}, {{"invoices", reporting}}, defaults);
}

class CarefulRedriveStory : public testing::Test {
 protected:
  CarefulRedriveStory() {
    world.rules = rules_of_story();
    fence = world.peer("a", std::chrono::hours{10});
  }
  std::vector<TaskId> parked(int count, const std::string& queue = "orders") {
    std::vector<TaskId> ids;
    for (int i = 0; i < count; ++i)
      ids.push_back(world.insert(queue, world.now(), 5, [&](Task& task) {
        task.state = State::parked;
        task.next_at.reset();
        task.finished_at = world.now();
      }));
    return ids;
  }
  Bulk redrive(const Care& care, double rate = 0, const std::string& queue = "orders") {
    NewBulk asked;
    asked.action = BulkAction::redrive;
    asked.filter.queue = queue;
    asked.care = care;
    asked.rate = rate;
    asked.who = "ann";
    return world.eyes->create_bulk(asked);
  }
  BulkProgress step(const Bulk& bulk) {
    const auto taken = world.eyes->take_bulk("a", kOneMinute);
    EXPECT_TRUE(taken && taken->id == bulk.id) << "it is not due";
    return perform_step(*world.eyes, *taken, "a", fence, world.rules);
  }
  void deliver(TaskId id) {
    EXPECT_EQ(world.apply(fence, {id, event::Claim{}}).verdict, Decision::Verdict::applied);
    const Task task = world.row(id);
    world.apply(fence, {id, event::Confirmed{task.attempt, world.now()}});
  }
  void fail(TaskId id, const std::string& error) {
    world.apply(fence, {id, event::Failed{world.row(id).attempt, error, "", {}}});
  }
  void succeed(TaskId id) { world.apply(fence, {id, event::Succeeded{world.row(id).attempt}}); }
  void attach(const std::string& queue, AttachmentState state = AttachmentState::attached) {
    const AttachmentSighting seen{queue, state, "by policy", world.now()};
    world.eyes->see_attachments({&seen, 1});
  }
  void count(const std::string& queue, std::int64_t ready, std::int64_t consumers) {
    const AttachmentSighting seen{queue, AttachmentState::attached, "by policy", world.now(), false,
                                  false, {{ready, consumers}}};
    world.eyes->see_attachments({&seen, 1});
  }
  Bulk row(const Bulk& bulk) { return world.eyes->bulk(bulk.id).value(); }

  World world;
  Fence fence;
};

TEST_F(CarefulRedriveStory, TheCanaryGoesFirstAndTheOthersFollow) {
  const auto ids = parked(30);
  const Bulk bulk = redrive({.canary = 3});
  EXPECT_EQ(step(bulk).decisions.size(), 3U);
  EXPECT_EQ(step(bulk).verdict.go, Go::wait);
  EXPECT_FALSE(world.eyes->take_bulk("a", kOneMinute)) << "it looks once a second";
  world.loop.run_for(kLookAtOutcomes);
  for (int i = 0; i < 3; ++i) deliver(ids[i]);
  succeed(ids[0]);
  succeed(ids[1]);
  EXPECT_EQ(step(bulk).verdict.go, Go::wait);
  world.loop.run_for(kLookAtOutcomes);
  succeed(ids[2]);
  const BulkProgress on = step(bulk);
  EXPECT_EQ(on.verdict.go, Go::passed);
  EXPECT_EQ(on.decisions.size(), 27U);
  EXPECT_EQ(row(bulk).canary_done, 3);
  step(bulk);
  EXPECT_EQ(row(bulk).state, BulkState::done);
}

TEST_F(CarefulRedriveStory, AFailureOfTheCanaryStopsIt) {
  const auto ids = parked(30);
  const Bulk bulk = redrive({.canary = 3});
  step(bulk);
  for (int i = 0; i < 3; ++i) deliver(ids[i]);
  succeed(ids[0]);
  fail(ids[1], "no such column: total");
  const BulkProgress stopped = step(bulk);
  EXPECT_EQ(stopped.verdict.go, Go::stop);
  const Bulk end = row(bulk);
  EXPECT_EQ(end.state, BulkState::stopped);
  EXPECT_EQ(end.stopped_because, "1 of the canary's 3 failed: " + ids[1].str() + ": no such column: total");
  EXPECT_EQ(end.done, 3);
  EXPECT_EQ(world.row(ids[3]).state, State::parked);
}

// Silence of ten minutes would be a success, of two with --watch: where a failure could have arrived.
TEST_F(CarefulRedriveStory, TheWatchEndsTheSilenceOfAnAttachedQueue) {
  attach("orders");
  const auto ids = parked(5);
  const Bulk bulk = redrive({.canary = 2, .watch = kOneMinute * 2});
  step(bulk);
  deliver(ids[0]);
  deliver(ids[1]);
  world.loop.run_for(kOneMinute * 2 - Ms{1});
  EXPECT_EQ(step(bulk).verdict.go, Go::wait);
  world.loop.run_for(kLookAtOutcomes);
  EXPECT_EQ(step(bulk).verdict.go, Go::wait) << "the queue may be detached since";
  world.loop.run_for(kLookAtOutcomes);
  attach("orders");
  EXPECT_EQ(step(bulk).verdict.go, Go::passed);
  EXPECT_EQ(world.row(ids[0]).state, State::awaiting) << "its own silence goes on";
}

// C2: without a consumer the canary "succeeded" after 15 s, and 300 followed, unread.
TEST_F(CarefulRedriveStory, TheWatchBeginsWhenTheMessagesHaveBeenRead) {
  attach("orders");
  const auto ids = parked(5);
  const Bulk bulk = redrive({.canary = 2, .watch = kOneMinute * 2});
  step(bulk);
  deliver(ids[0]);
  deliver(ids[1]);
  count("orders", 2, 0);
  for (int i = 0; i < 10; ++i) {
    world.loop.run_for(kOneMinute);
    EXPECT_EQ(step(bulk).verdict.go, Go::wait);
  }
  count("orders", 0, 1);
  world.loop.run_for(kOneMinute);
  EXPECT_EQ(step(bulk).verdict.go, Go::wait) << "they have been read a minute ago";
  world.loop.run_for(kOneMinute);
  count("orders", 0, 1);
  EXPECT_EQ(step(bulk).verdict.go, Go::passed);
}

TEST_F(CarefulRedriveStory, SilenceOfADetachedQueueIsNoSuccess) {
  attach("orders");
  world.loop.run_for(kOneMinute);
  attach("orders", AttachmentState::detached);
  world.loop.run_for(kOneMinute);
  const auto ids = parked(5);
  const Bulk bulk = redrive({.canary = 1, .watch = kOneMinute});
  step(bulk);
  deliver(ids[0]);
  world.loop.run_for(kOneMinute);
  EXPECT_EQ(step(bulk).verdict.go, Go::stop);
  EXPECT_THAT(row(bulk).stopped_because, HasSubstr("its silence says nothing"));
}

TEST_F(CarefulRedriveStory, WithoutAReportItHasFailedWhereSuccessIsReported) {
  const auto ids = parked(5, "invoices");
  const Bulk bulk = redrive({.canary = 1, .watch = kOneMinute}, 0, "invoices");
  step(bulk);
  deliver(ids[0]);
  world.loop.run_for(kOneMinute);
  EXPECT_EQ(step(bulk).verdict.go, Go::stop);
  EXPECT_THAT(row(bulk).stopped_because, HasSubstr("no success was reported within 1m"));
}

// By a person, or because a success of an earlier attempt is reported before the redriven one is sent.
TEST_F(CarefulRedriveStory, WhatEndsBeforeItIsSentIsNoOutcome) {
  const auto ids = parked(5);
  const Bulk bulk = redrive({.canary = 3});
  step(bulk);
  world.apply(fence, {ids[0], event::Cancel{}, ByHand{"bob", {}}});
  world.apply(fence, {ids[1], event::Finish{true, "", {}, 0}, ByHand{"bob", {}}});
  deliver(ids[2]);
  succeed(ids[2]);
  EXPECT_EQ(step(bulk).verdict.go, Go::passed);
}

TEST_F(CarefulRedriveStory, ACanaryOfWhichNothingWasSentStopsIt) {
  const auto ids = parked(5);
  const Bulk bulk = redrive({.canary = 2});
  step(bulk);
  for (int i = 0; i < 2; ++i) world.apply(fence, {ids[i], event::Cancel{}, ByHand{"bob", {}}});
  EXPECT_EQ(step(bulk).verdict.go, Go::stop);
  EXPECT_EQ(row(bulk).stopped_because, "no task of the canary was sent: all of them had ended before");
  EXPECT_EQ(row(bulk).done, 2);
}

TEST_F(CarefulRedriveStory, ACanaryThatTakesAllIsWatchedToo) {
  const auto ids = parked(2);
  const Bulk bulk = redrive({.canary = 10});
  EXPECT_EQ(step(bulk).decisions.size(), 2U);
  EXPECT_EQ(step(bulk).verdict.go, Go::wait);
  world.loop.run_for(kLookAtOutcomes);
  for (const TaskId id : ids) {
    deliver(id);
    succeed(id);
  }
  EXPECT_EQ(step(bulk).verdict.go, Go::passed);
  EXPECT_EQ(row(bulk).state, BulkState::done);
}

// The queue cannot be checked: after five minutes silence counts all the same.
TEST_F(CarefulRedriveStory, WithoutALookTheWatchEndsFiveMinutesLater) {
  attach("orders");
  const auto ids = parked(2);
  const Bulk bulk = redrive({.canary = 1, .watch = kOneMinute});
  step(bulk);
  deliver(ids[0]);
  world.loop.run_for(kOneMinute * 6 - kLookAtOutcomes);
  EXPECT_EQ(step(bulk).verdict.go, Go::wait);
  world.loop.run_for(kLookAtOutcomes);
  EXPECT_EQ(step(bulk).verdict.go, Go::passed);
}

// Claimed, and the broker has not answered: no silence begins.
TEST_F(CarefulRedriveStory, WhatIsNotConfirmedIsNotDelivered) {
  attach("orders");
  const auto ids = parked(2);
  const Bulk bulk = redrive({.canary = 1, .watch = kOneMinute});
  step(bulk);
  world.apply(fence, {ids[0], event::Claim{}});
  world.loop.run_for(kOneMinute * 10);
  attach("orders");
  EXPECT_EQ(step(bulk).verdict.go, Go::wait);
}

TEST_F(CarefulRedriveStory, TooManyFailuresStopIt) {
  const auto ids = parked(200);
  const Bulk bulk = redrive({.stop_above = 5}, 20);  // one step a second
  const auto send = [&](std::size_t from, std::size_t failures) {
    world.loop.run_for(Ms{1000});
    EXPECT_EQ(step(bulk).decisions.size(), 20U);
    for (std::size_t i = from; i < from + 20; ++i) {
      deliver(ids[i]);
      if (i < from + failures) fail(ids[i], "connection refused");
    }
  };
  send(0, 1);
  send(20, 1);  // 2 of 40: 5 %
  send(40, 2);  // 4 of 60
  world.loop.run_for(Ms{1000});
  EXPECT_EQ(step(bulk).verdict.go, Go::stop);
  EXPECT_THAT(row(bulk).stopped_because, AllOf(HasSubstr("4 of the last 60 sent failed, more than 5%"),
                                               HasSubstr("connection refused"), HasSubstr("and 1 more")));
  EXPECT_EQ(row(bulk).done, 60);
}

// Its look reads 10,000 rows: not with each of five steps a second.
TEST_F(CarefulRedriveStory, ItLooksAtTheFailuresOnceASecondHoweverManyStepsThatIs) {
  const auto ids = parked(5000);
  const Bulk bulk = redrive({.stop_above = 5}, 2500);
  for (std::size_t sent = 0; sent < 2500; sent += 500) {
    EXPECT_EQ(step(bulk).decisions.size(), 500U) << sent;
    for (std::size_t i = sent; i < sent + 500; ++i) {
      deliver(ids[i]);
      fail(ids[i], "connection refused");
    }
    world.loop.run_for(Ms{200});
  }
  EXPECT_EQ(step(bulk).verdict.go, Go::stop);
}

TEST_F(CarefulRedriveStory, OneFailureOfTheFirstFewIsNoShare) {
  const auto ids = parked(200);
  const Bulk bulk = redrive({.stop_above = 5}, 5);
  step(bulk);
  deliver(ids[0]);
  fail(ids[0], "no");
  world.loop.run_for(Ms{1000});
  EXPECT_EQ(step(bulk).verdict.go, Go::on);
}

// A gate is slower than the rate: all would be due before the first failure is seen.
TEST_F(CarefulRedriveStory, WhatIsNotSentHoldsUpTheOthers) {
  const auto ids = parked(1500);
  const Bulk bulk = redrive({.stop_above = 5}, 500);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(step(bulk).decisions.size(), 500U);
    world.loop.run_for(Ms{1000});
  }
  EXPECT_EQ(step(bulk).verdict.go, Go::wait);
  for (std::size_t i = 0; i < 100; ++i) {
    deliver(ids[i]);
    fail(ids[i], "no such table");
  }
  world.loop.run_for(kLookAtOutcomes);
  EXPECT_EQ(step(bulk).verdict.go, Go::stop);
  EXPECT_EQ(row(bulk).done, 1000);
}

// Regression: it was taken again and again, before all others.
TEST_F(CarefulRedriveStory, AStepThatFailsForGoodStopsItsBulkAlone) {
  parked(3);
  parked(2, "invoices");
  const Bulk bad = redrive({}), good = redrive({}, 0, "invoices");
  const Bulk taken = world.eyes->take_bulk("a", kOneMinute).value();
  ASSERT_EQ(taken.id, bad.id);
  world.db->fail_next(1, Error::Kind::permanent);  // reading its tasks
  const auto stopped = perform_step(*world.eyes, taken, "a", fence, world.rules);
  EXPECT_EQ(stopped.verdict.go, Go::stop);
  EXPECT_EQ(row(bad).state, BulkState::stopped);
  EXPECT_THAT(row(bad).stopped_because, HasSubstr("its next step failed: the memory store"));
  EXPECT_EQ(world.eyes->take_bulk("a", kOneMinute)->id, good.id);
}

TEST_F(CarefulRedriveStory, ATaskThatCannotBeChangedIsRefusedAndTheOthersFollow) {
  const auto ids = parked(3);
  const Bulk bulk = redrive({});
  const Bulk taken = world.eyes->take_bulk("a", kOneMinute).value();
  std::vector<Event> events;
  for (const TaskId id : ids) events.push_back(event_of(bulk, id));
  const auto unwritable = [&](const Task& task, const Happening& what, const Circumstances& at) {
    if (task.id == ids[1])
      throw StoreError({Error::Kind::permanent, "a value that its column does not accept"});
    return decider(world.rules)(task, what, at);
  };
  apply_step(*world.eyes, events, fence, unwritable, {bulk.id, "a", taken.last});
  EXPECT_EQ(row(bulk).done, 3);
  EXPECT_EQ(row(bulk).applied, 2);
  EXPECT_EQ(row(bulk).refused, 1);
  EXPECT_EQ(world.row(ids[1]).state, State::parked);
}

TEST_F(CarefulRedriveStory, WhatAPersonHasPausedIsNoError) {
  parked(3);
  const Bulk bulk = redrive({});
  const Bulk taken = world.eyes->take_bulk("a", kOneMinute).value();
  world.eyes->set_bulk({bulk.id, BulkState::paused});
  EXPECT_THROW(perform_step(*world.eyes, taken, "a", fence, world.rules), StoreError);
  EXPECT_EQ(row(bulk).state, BulkState::paused);
}

TEST(CarefulRedriveRate, TheRampDoublesEveryTenSeconds) {
  Bulk bulk;
  bulk.rate = 100;
  bulk.care.ramp = true;
  bulk.total = 1'000'000;
  double seconds = 0;
  std::vector<double> at_ten;  // the rate after each 10 s
  while (seconds < 80) {
    if (seconds >= 10 * static_cast<double>(at_ten.size())) at_ten.push_back(rate_of(bulk));
    bulk.applied += step_size(bulk);
    seconds += step_size(bulk) / rate_of(bulk);
  }
  EXPECT_THAT(at_ten, testing::ElementsAre(1, 2, 4, 8, 16, 32, 64, 100));
  bulk.care.canary = 10;
  bulk.applied = 7;  // two tasks were refused
  bulk.done = 9;
  EXPECT_EQ(step_size(bulk), 3);
  EXPECT_EQ(rate_of(bulk), 100) << "the canary goes by the rate itself";
  bulk.applied = bulk.canary_done.emplace(10);
  EXPECT_EQ(rate_of(bulk), 1);
}

}  // namespace
}  // namespace rung::bridge
