// Events for other systems: written with what happened, kept until they are published.
#include <string>
#include <vector>

#include "src/store/mysql/mysql_store.h"
#include "tests/contract/store/world.h"
#include "tests/support/clock.h"

namespace rung::test {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class OutgoingContract : public StoreContract {
 protected:
  void SetUp() override {
    StoreContract::SetUp();
    for (const OutgoingKind kind : {OutgoingKind::cause_appeared, OutgoingKind::cause_worse,
                                    OutgoingKind::task_parked, OutgoingKind::bulk_ended})
      publish(kind);
  }
  void publish(OutgoingKind kind) {
    kinds_.add(kind);
    store_.reset();
    if (memory_) {
      memory_->publish_events(kinds_);
      store_ = open();
    } else {
      StoreOptions options = mysql_->options();
      options.events = kinds_;
      store_ = must(open_mysql_store(options, test_clock()));
    }
  }
  std::vector<OutgoingEvent> of(OutgoingKind kind) {
    auto all = must(store_->outgoing_events(100));
    std::erase_if(all, [&](const OutgoingEvent& event) { return event.kind != kind; });
    return all;
  }
  // "task_parked orders", the oldest first.
  std::vector<std::string> pending() {
    std::vector<std::string> out;
    for (const OutgoingEvent& event : must(store_->outgoing_events(100)))
      out.push_back(std::string(to_word(event.kind)) + " " + event.queue);
    return out;
  }
  void forget_all() {
    std::vector<std::int64_t> ids;
    for (const OutgoingEvent& event : must(store_->outgoing_events(100))) ids.push_back(event.id);
    must(store_->forget_outgoing_events(ids));
  }
  TaskId insert_parked(const Fence& fence, const std::string& queue = "orders") {
    NewTask one = task(queue);
    one.task.state = State::parked;
    one.task.next_at.reset();
    one.task.finished_at.reset();
    EXPECT_EQ(must(store_->insert(std::span(&one, 1), fence)).at(0).how, Inserted::How::inserted);
    return one.task.id;
  }
  Bulk run(NewBulk asked, const Fence& fence) {
    asked.who = "ann";
    const Bulk bulk = must(store_->create_bulk(asked));
    for (;;) {
      const auto taken = must(store_->take_bulk("us", kTtl, bulk.id));
      if (!taken) return *must(store_->bulk(bulk.id));
      const BulkStep step{bulk.id, "us", taken->last, 0, false};
      const auto ids = must(store_->bulk_next(step, 10));
      if (ids.empty()) continue;
      std::vector<Event> events;
      for (const TaskId id : ids) events.push_back(event_of(bulk, id));
      must(store_->apply(events, fence, decider(), &step));
    }
  }

  OutgoingKinds kinds_;
};

TEST_P(OutgoingContract, AnInsertedTaskThatIsParkedAtOnceIsAnEvent) {
  const Fence fence = join(*store_, "a");
  const TaskId id = insert_parked(fence);
  due_task(*store_, fence, "invoices");
  const auto events = of(OutgoingKind::task_parked);
  ASSERT_THAT(events, SizeIs(1)) << "a scheduled one is none";
  EXPECT_EQ(events[0].subject, id.str());
  EXPECT_EQ(events[0].queue, "orders");
  EXPECT_GT(events[0].at.ms, 0);
  must(store_->forget_outgoing_events(std::vector{events[0].id}));
  EXPECT_THAT(of(OutgoingKind::task_parked), IsEmpty());
  EXPECT_THAT(of(OutgoingKind::cause_appeared), SizeIs(2)) << "of orders and of invoices";
}

TEST_P(OutgoingContract, AFailureThatParksIsOneEventAndItsNewCauseAnother) {
  const Fence fence = join(*store_, "a");
  const TaskId id = due_task(*store_, fence);
  ASSERT_EQ(apply_one(*store_, fence, id, event::Claim{}).verdict, Decision::Verdict::applied);
  ASSERT_EQ(apply_one(*store_, fence, id, event::Confirmed{1, must(store_->now())}).verdict,
            Decision::Verdict::applied);
  forget_all();
  event::Failed failed{1, "the bank refuses", "", {}};
  failed.directives.never = true;
  failed.proven = true;
  ASSERT_EQ(apply_one(*store_, fence, id, failed).verdict, Decision::Verdict::applied);
  ASSERT_EQ(get(*store_, id).state, State::parked);
  EXPECT_THAT(pending(), UnorderedElementsAre("cause_appeared orders", "task_parked orders"));
  EXPECT_EQ(must(store_->outgoing_events(1)).size(), 1U) << "at most `limit`";
  // The same failure again is stale: no event.
  apply_one(*store_, fence, id, failed);
  EXPECT_THAT(pending(), SizeIs(2));
}

TEST_P(OutgoingContract, EachEndOfABulkIsAnEvent) {
  const Fence fence = join(*store_, "a");
  insert_parked(fence);
  insert_parked(fence);
  forget_all();
  NewBulk discard;
  discard.action = BulkAction::discard;
  const Bulk done = run(discard, fence);
  EXPECT_EQ(done.state, BulkState::done);
  const auto events = must(store_->outgoing_events(100));
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].kind, OutgoingKind::bulk_ended);
  EXPECT_EQ(events[0].subject, std::to_string(done.id));
  EXPECT_EQ(must(store_->events(1)).at(0).kind, "bulk_ended");
  EXPECT_EQ(must(store_->events(1)).at(0).detail, "discard: 2 of 2 processed, 2 changed, 0 refused");
  // It is over: nothing more happens.
  must(store_->set_bulk(done.id, BulkState::aborted, std::nullopt));
  EXPECT_THAT(pending(), SizeIs(1));
  forget_all();
  // Aborted before its first step: nothing has happened.
  insert_parked(fence);
  forget_all();
  const Bulk refused = must(store_->create_bulk(discard));
  must(store_->set_bulk(refused.id, BulkState::aborted, std::nullopt));
  EXPECT_THAT(pending(), IsEmpty());
}

TEST_P(OutgoingContract, ABulkThatStopsItselfSaysWhy) {
  const Fence fence = join(*store_, "a");
  insert_parked(fence);
  forget_all();
  NewBulk redrive;
  redrive.action = BulkAction::redrive;
  redrive.care.canary = 1;
  const Bulk bulk = must(store_->create_bulk(redrive));
  const auto taken = must(store_->take_bulk("us", kTtl, bulk.id));
  ASSERT_TRUE(taken);
  const BulkStep step{bulk.id, "us", taken->last, 0, true};
  must(store_->judge_bulk(step, {BulkVerdict::Go::stop, "its canary failed"}, Ms{0}));
  EXPECT_THAT(pending(), IsEmpty()) << "it has done nothing";
  EXPECT_EQ(must(store_->events(1)).at(0).kind, "bulk_stopped");
}

TEST_P(OutgoingContract, AnAbortAfterItsFirstStepIsAnEnd) {
  const Fence fence = join(*store_, "a");
  insert_parked(fence);
  insert_parked(fence);
  forget_all();
  for (const bool by_itself : {false, true}) {
    NewBulk redrive;
    redrive.action = BulkAction::redrive;
    redrive.filter.state = State::parked;
    redrive.care.canary = by_itself ? 1 : 0;
    const Bulk bulk = must(store_->create_bulk(redrive));
    const auto taken = must(store_->take_bulk("us", kTtl, bulk.id));
    ASSERT_TRUE(taken);
    BulkStep step{bulk.id, "us", taken->last, 0, true};
    const auto ids = must(store_->bulk_next(step, 1));
    ASSERT_THAT(ids, SizeIs(1));
    const std::vector<Event> events{event_of(bulk, ids[0])};
    must(store_->apply(events, fence, decider(), &step));
    if (by_itself) {
      step.from = ids[0];
      must(store_->judge_bulk(step, {BulkVerdict::Go::stop, "its canary failed"}, Ms{0}));
    } else {
      must(store_->set_bulk(bulk.id, BulkState::aborted, std::nullopt));
    }
    EXPECT_THAT(of(OutgoingKind::bulk_ended), SizeIs(1));
    EXPECT_EQ(must(store_->events(1)).at(0).kind, "bulk_ended");
    forget_all();
  }
}

TEST_P(OutgoingContract, WhatNobodyPublishesIsDeletedByItsAge) {
  const Fence fence = join(*store_, "a");
  insert_parked(fence);
  const std::size_t all = pending().size();
  EXPECT_EQ(must(store_->drop_outgoing_events(must(store_->now()) - Ms{60'000}, 100)), 0);
  EXPECT_EQ(must(store_->drop_outgoing_events(must(store_->now()) + Ms{60'000}, 1)), 1) << "at most `limit`";
  EXPECT_EQ(pending().size(), all - 1);
}

TEST_P(OutgoingContract, OnlyTheKindsOfTheConfigAreKept) {
  kinds_ = {};
  publish(OutgoingKind::bulk_ended);
  const Fence fence = join(*store_, "a");
  insert_parked(fence);
  EXPECT_THAT(pending(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Stores, OutgoingContract, testing::Values("memory", "mysql"),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace rung::test
