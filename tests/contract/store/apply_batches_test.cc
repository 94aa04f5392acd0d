// Many events in one transaction: each row is as its decision says, whether it was read or came with the
// event.
#include "tests/contract/store/world.h"

namespace rung::test {
namespace {

using Verdict = Decision::Verdict;

// Events of many tasks are written with fewer statements than rows: each row must match its decision.
TEST_P(StoreContract, WhatHappensToManyAtOnceIsWrittenForEach) {
  const Fence fence = join(*store_, "a");
  std::vector<TaskId> ids;
  for (int i = 0; i < 40; ++i) ids.push_back(due_task(*store_, fence));
  const auto apply_all = [&](const std::function<Happening(std::size_t)>& what) {
    std::vector<Event> events;
    for (std::size_t i = 0; i < ids.size(); ++i) events.push_back({ids[i], what(i)});
    const auto decisions = must(store_->apply(events, fence, decider()));
    for (std::size_t i = 0; i < ids.size(); ++i) {
      EXPECT_EQ(decisions[i].verdict, Verdict::applied) << i << ": " << decisions[i].reason;
      EXPECT_TRUE(get(*store_, ids[i]) == decisions[i].task) << i;
    }
  };
  const EpochMs now = must(store_->now());
  // Half are at their second attempt by then.
  for (std::size_t i = 0; i < 20; ++i) {
    ASSERT_EQ(apply_one(*store_, fence, ids[i], event::Claim{}).verdict, Verdict::applied);
    ASSERT_EQ(apply_one(*store_, fence, ids[i], event::Returned{1, now, "no such queue"}).verdict,
              Verdict::applied);
  }
  wait_until([&] { return must(store_->now()) > *get(*store_, ids[19]).next_at; });
  apply_all([](std::size_t) { return event::Claim{}; });
  // Alike in tens, and some like no other.
  const auto attempt = [](std::size_t i) { return i < 20 ? 2 : 1; };
  const auto published = [&](std::size_t i) { return now + Ms{i % 10 == 9 ? static_cast<int>(i) : 500}; };
  apply_all([&](std::size_t i) { return event::Confirmed{attempt(i), published(i)}; });
  const auto error = [](std::size_t i) {
    return i % 4 == 0 ? "another " + std::to_string(i) : std::string("the same");
  };
  apply_all([&](std::size_t i) {
    return event::Failed{attempt(i), error(i), i % 2 == 0 ? "Even" : "Odd", {}};
  });
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto rows = must(store_->history(ids[i]));
    ASSERT_EQ(rows.size(), static_cast<std::size_t>(attempt(i)));
    const Attempt& last = rows.back().attempt;
    EXPECT_EQ(last.published_at, published(i)) << i;
    EXPECT_EQ(last.outcome, Outcome::failed) << i;
    EXPECT_EQ(last.error, error(i)) << i;
    EXPECT_EQ(last.node, fence.node) << i;
    EXPECT_EQ(rows[0].attempt.outcome, i < 20 ? Outcome::returned : Outcome::failed) << i;
  }
}

// The second one is decided on what the first one left, and the row has the columns of both.
TEST_P(StoreContract, TwoEventsOnATaskInOneBatchAreBothWritten) {
  const Fence fence = join(*store_, "a");
  Climb climb(*store_, fence);
  const TaskId id = due_task(*store_, fence);
  climb.deliver(id, 1);
  const EpochMs later = must(store_->now()) + Ms{3'600'000};
  const std::vector<Event> events{{id, event::Failed{1, "no answer", "TimeoutError", {}}},
                                  {id, event::Reschedule{later}}};
  const auto decisions = must(store_->apply(events, fence, decider()));
  ASSERT_EQ(decisions.size(), 2U);
  for (const Decision& d : decisions) ASSERT_EQ(d.verdict, Verdict::applied) << d.reason;
  const Task row = get(*store_, id);
  EXPECT_TRUE(row == decisions[1].task);
  EXPECT_EQ(row.last_error, "no answer");
  EXPECT_EQ(row.error_type, "TimeoutError");
  EXPECT_EQ(row.state, State::scheduled);
  EXPECT_EQ(row.next_at, later);
  const auto history = must(store_->history(id));
  ASSERT_EQ(history.size(), 1U);
  EXPECT_EQ(history[0].attempt.outcome, Outcome::failed);
}

Event confirm_as_expected(const Task& claimed, EpochMs published_at) {
  return {claimed.id, event::Confirmed{1, published_at}, {}, std::make_shared<const Task>(claimed)};
}

// With the confirm, the claimer passes the state of the tasks after its claim (`expected`): no row is read,
// and the result is the same as if it had been.
TEST_P(StoreContract, WhatWasSeenIsWrittenWhereItStillIsSo) {
  const Fence fence = join(*store_, "a");
  std::vector<Event> claims, confirms;
  for (int i = 0; i < 24; ++i) claims.push_back({due_task(*store_, fence), event::Claim{}});
  // Half are at their second attempt, and at a later version.
  for (std::size_t i = 0; i < 12; ++i) {
    ASSERT_EQ(apply_one(*store_, fence, claims[i].id, event::Claim{}).verdict, Verdict::applied);
    const event::Deferred refused{1, Ms{0}, "no room"};
    ASSERT_EQ(apply_one(*store_, fence, claims[i].id, refused).verdict, Verdict::applied);
  }
  const auto claimed = must(store_->apply(claims, fence, decider()));
  const EpochMs now = must(store_->now());
  for (const Decision& d : claimed) {
    ASSERT_EQ(d.verdict, Verdict::applied) << d.reason;
    confirms.push_back(confirm_as_expected(d.task, now));
  }
  // Applied twice, as after a lost answer: nothing changes.
  for (int time = 0; time < 2; ++time) {
    const auto confirmed = must(store_->apply(confirms, fence, decider()));
    for (std::size_t i = 0; i < confirmed.size(); ++i) {
      const Decision& d = confirmed[i];
      EXPECT_EQ(d.verdict, Verdict::applied) << d.reason;
      EXPECT_EQ(d.task.version, claimed[i].task.version + 1);
      const Task row = get(*store_, d.task.id);
      EXPECT_TRUE(row == d.task) << time << ", " << i;
      EXPECT_EQ(row.state, State::awaiting);
      const auto rows = must(store_->history(d.task.id));
      ASSERT_EQ(rows.size(), 1U);
      EXPECT_EQ(rows[0].attempt.published_at, now);
      EXPECT_EQ(rows[0].attempt.due_at, *claimed[i].task.next_at);
      EXPECT_EQ(rows[0].attempt.node, fence.node);
    }
  }
}

TEST_P(StoreContract, WhatIsNoLongerAsItWasSeenIsDecidedAsItIs) {
  const Fence fence = join(*store_, "a");
  std::vector<Event> claims, confirms;
  for (int i = 0; i < 24; ++i) claims.push_back({due_task(*store_, fence), event::Claim{}});
  const auto claimed = must(store_->apply(claims, fence, decider()));
  const EpochMs now = must(store_->now());
  for (const Decision& d : claimed) confirms.push_back(confirm_as_expected(d.task, now));
  // One could not be sent; of one the consumer was quicker.
  const TaskId failed = claimed[7].task.id, succeeded = claimed[8].task.id;
  event::Failed unsendable{1, "boom", "E", {}};
  unsendable.by_publisher = true;
  apply_one(*store_, fence, failed, unsendable);
  apply_one(*store_, fence, succeeded, event::Succeeded{1});
  const auto confirmed = must(store_->apply(confirms, fence, decider()));
  for (std::size_t i = 0; i < confirmed.size(); ++i) {
    EXPECT_EQ(confirmed[i].verdict, Verdict::applied) << i << ": " << confirmed[i].reason;
    const Task row = get(*store_, confirmed[i].task.id);
    EXPECT_EQ(row.state, i == 7 ? State::scheduled : i == 8 ? State::succeeded : State::awaiting) << i;
    EXPECT_TRUE(row == confirmed[i].task) << i;
    const auto rows = must(store_->history(row.id));
    ASSERT_EQ(rows.size(), 1U) << i;
    EXPECT_EQ(rows[0].attempt.published_at, now) << i;
    EXPECT_EQ(rows[0].attempt.due_at, *claimed[i].task.next_at) << i;
    EXPECT_EQ(rows[0].attempt.outcome, i == 7   ? Outcome::failed
                                       : i == 8 ? Outcome::succeeded
                                                : Outcome::pending)
        << i;
  }
}

// Rows that were changed with SQL, not by Rung.
class RowsChangedByHand : public StoreContract {};
INSTANTIATE_TEST_SUITE_P(Stores, RowsChangedByHand, testing::Values("mysql"));

// Such a row may still have the expected version, although it differs.
TEST_P(RowsChangedByHand, AreDecidedAsTheyAre) {
  const Fence fence = join(*store_, "a");
  std::vector<Event> claims, confirms;
  for (int i = 0; i < 10; ++i) claims.push_back({due_task(*store_, fence), event::Claim{}});
  for (const Decision& d : must(store_->apply(claims, fence, decider())))
    confirms.push_back(confirm_as_expected(d.task, d.task.created_at));
  mysql_->exec("UPDATE rung_tasks SET state = 'cancelled', next_at = NULL WHERE id = " +
               confirms[3].id.str());
  must(store_->apply(confirms, fence, decider()));
  EXPECT_EQ(get(*store_, confirms[3].id).state, State::cancelled);
  EXPECT_EQ(get(*store_, confirms[4].id).state, State::awaiting);
}

// For example, a person deleted history by hand: updates of those attempts are written all the same.
TEST_P(RowsChangedByHand, AnAttemptWhoseRowIsGoneIsWrittenAnew) {
  const Fence fence = join(*store_, "a");
  std::vector<TaskId> ids;
  std::vector<Event> claims, confirms;
  for (int i = 0; i < 12; ++i) ids.push_back(due_task(*store_, fence));
  for (const TaskId id : ids) claims.push_back({id, event::Claim{}});
  must(store_->apply(claims, fence, decider()));
  mysql_->exec("DELETE FROM rung_attempts WHERE task_id = " + ids[5].str());
  const EpochMs now = must(store_->now());
  for (const TaskId id : ids) confirms.push_back({id, event::Confirmed{1, now}});
  must(store_->apply(confirms, fence, decider()));
  for (const TaskId id : ids) {
    const auto rows = must(store_->history(id));
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(rows[0].attempt.published_at, now);
  }
}

TEST_P(StoreContract, EventsOfOneTaskInOneBatchFollowEachOther) {
  const Fence fence = join(*store_, "a");
  const TaskId id = due_task(*store_, fence);
  const TaskId other = due_task(*store_, fence);
  const EpochMs now = must(store_->now());
  const std::vector<Event> events{{id, event::Claim{}},
                                  {other, event::Claim{}},
                                  {id, event::Confirmed{1, now}},
                                  {other, event::Deferred{1, Ms{0}, "alarm"}},
                                  {id, event::Failed{1, "one", "", {}}},
                                  {other, event::Claim{}},
                                  {id, event::Failed{1, "again", "", {}}},
                                  {TaskId{99}, event::Claim{}}};
  const auto decisions = must(store_->apply(events, fence, decider()));
  ASSERT_EQ(decisions.size(), events.size());
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(decisions[i].verdict, Verdict::applied) << i;
  EXPECT_EQ(decisions[6].verdict, Verdict::stale);
  EXPECT_EQ(decisions[7].verdict, Verdict::refused);
  const auto rows = must(store_->history(id));
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].attempt.published_at, now);
  EXPECT_EQ(rows[0].attempt.error, "one");
  EXPECT_EQ(get(*store_, other).state, State::publishing);
  EXPECT_EQ(must(store_->history(other)).size(), 1U);
}

}  // namespace
}  // namespace rung::test
