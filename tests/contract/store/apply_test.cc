// Every transition of docs/state-machine.md, written and read back.
#include "tests/contract/store/world.h"

namespace rung::test {
namespace {

using Verdict = Decision::Verdict;

TEST_P(StoreContract, AClaimIsAnAttemptAndItsHistoryBegins) {
  const Fence fence = join(*store_, "a");
  const TaskId id = due_task(*store_, fence);
  const Task before = get(*store_, id);
  const Decision d = apply_one(*store_, fence, id, event::Claim{});
  ASSERT_EQ(d.verdict, Verdict::applied) << d.reason;
  const Task t = get(*store_, id);
  EXPECT_TRUE(t == d.task);
  EXPECT_EQ(t.state, State::publishing);
  EXPECT_EQ(t.attempt, 1);
  EXPECT_EQ(t.epoch, 1U);
  EXPECT_EQ(t.node, fence.node);
  const auto rows = must(store_->history(id));
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].attempt.due_at, *before.next_at);
  EXPECT_EQ(rows[0].attempt.outcome, Outcome::pending);
  EXPECT_FALSE(rows[0].attempt.published_at);
  EXPECT_EQ(rows[0].queue, "orders");
  EXPECT_EQ(rows[0].node, "a");
  // The same claim after a lost answer, by the same epoch: the same attempt.
  EXPECT_EQ(apply_one(*store_, fence, id, event::Claim{}).verdict, Verdict::applied);
  EXPECT_EQ(get(*store_, id).attempt, 1);
  EXPECT_EQ(must(store_->history(id)).size(), 1U);
}

TEST_P(StoreContract, AClaimBringsTheMessagesOfTheFirstTasksThatItTook) {
  const Fence fence = join(*store_, "a");
  std::vector<Event> claims;
  for (int i = 0; i < 4; ++i) claims.push_back({due_task(*store_, fence), event::Claim{}});
  apply_one(*store_, fence, claims[0].id, event::Cancel{});
  const std::size_t two = 2 * message_bytes(get(*store_, claims[1].id));
  const Claimed claimed = must(store_->claim(claims, fence, decider(), two));
  ASSERT_EQ(claimed.decisions.size(), 4U);
  EXPECT_NE(claimed.decisions[0].verdict, Verdict::applied);
  for (std::size_t i = 1; i < 4; ++i) {
    EXPECT_EQ(claimed.decisions[i].verdict, Verdict::applied) << i;
    EXPECT_EQ(get(*store_, claims[i].id).state, State::publishing) << i;
  }
  std::vector<TaskId> with;
  for (const StoredMessage& stored : claimed.messages) {
    ASSERT_NE(stored.message, nullptr) << stored.broken;
    with.push_back(stored.id);
  }
  EXPECT_THAT(with, testing::UnorderedElementsAre(claims[1].id, claims[2].id));
  // Nothing left to claim: no messages, also not those of the call before.
  const std::span<const Event> none(claims.data(), 1);
  EXPECT_TRUE(must(store_->claim(none, fence, decider(), two)).messages.empty());
}

TEST_P(StoreContract, AClaimWithoutTheLeaseIsNotApplied) {
  const Fence fence = join(*store_, "a");
  const TaskId id = due_task(*store_, fence);
  Fence stale = fence;
  for (Lease& l : stale.leases) --l.epoch;
  EXPECT_EQ(apply_one(*store_, stale, id, event::Claim{}).verdict, Verdict::stale);
  EXPECT_EQ(apply_one(*store_, Fence{}, id, event::Claim{}).verdict, Verdict::stale);
  EXPECT_EQ(apply_one(*store_, Fence{fence.node + 1, fence.leases}, id, event::Claim{}).verdict,
            Verdict::stale);
  EXPECT_EQ(get(*store_, id).state, State::scheduled);
  EXPECT_TRUE(must(store_->history(id)).empty());
}

TEST_P(StoreContract, ConfirmFailAndConfirmAgainKeepTheStory) {
  const Fence fence = join(*store_, "a");
  const TaskId id = due_task(*store_, fence);
  const EpochMs due = *get(*store_, id).next_at;
  Climb climb(*store_, fence);
  climb.deliver(id, 1);
  EXPECT_EQ(get(*store_, id).state, State::awaiting);
  ASSERT_EQ(climb(id, event::Failed{1, "no such customer \xE2\x82\xAC", "NotFound", {}}).verdict,
            Verdict::applied);
  const Task t = get(*store_, id);
  EXPECT_EQ(t.state, State::scheduled);
  EXPECT_EQ(t.level, 2);
  EXPECT_EQ(t.last_error, "no such customer \xE2\x82\xAC");
  EXPECT_EQ(t.error_type, "NotFound");
  auto row = must(store_->history(id)).at(0).attempt;
  EXPECT_EQ(row.outcome, Outcome::failed);
  EXPECT_EQ(row.error, t.last_error);
  EXPECT_EQ(row.due_at, due);
  EXPECT_EQ(row.level, 1);
  ASSERT_TRUE(row.published_at);
  ASSERT_TRUE(row.outcome_at);
}

TEST_P(StoreContract, AFailureQuickerThanTheConfirmKeepsItsWordAndGetsItsTime) {
  const Fence fence = join(*store_, "a");
  const TaskId id = due_task(*store_, fence);
  Climb climb(*store_, fence);
  climb(id, event::Claim{});
  // As far as the database knows, the copy may not have been sent yet: the result waits for the confirm.
  const Decision early = climb(id, event::Failed{1, "quick", "", {}});
  EXPECT_EQ(early.verdict, Verdict::refused);
  EXPECT_EQ(early.reason, kBeingPublished);
  // Its owner is gone: nobody will record the publish's result, so the consumer's result counts.
  join(*store_, "a");
  EXPECT_EQ(climb(id, event::Failed{1, "quick", "", {}}).verdict, Verdict::applied);
  EXPECT_FALSE(must(store_->history(id)).at(0).attempt.published_at);
  const Task before = get(*store_, id);
  const EpochMs at = climb.now();
  EXPECT_EQ(climb(id, event::Confirmed{1, at}).verdict, Verdict::applied);
  EXPECT_TRUE(get(*store_, id) == before);
  const auto row = must(store_->history(id)).at(0).attempt;
  EXPECT_EQ(row.published_at, at);
  EXPECT_EQ(row.outcome, Outcome::failed);
  EXPECT_EQ(row.error, "quick");
}

// A caller without a lease (the command line), or with other leases, also sees that the claim's owner is
// alive.
TEST_P(StoreContract, NobodyEndsAnAttemptThatAnotherInstanceMayStillPublish) {
  const Fence a = join(*store_, "a", {0});
  const Fence b = join(*store_, "b", {5});
  NewTask n = task();
  n.task.shard = 0;
  n.task.next_at = must(store_->now()) + Ms{60};
  must(store_->insert(std::span(&n, 1), a));
  ASSERT_EQ(apply_one(*store_, a, n.task.id, event::Claim{Ms{100}}).verdict, Verdict::applied);
  for (const Fence& fence : {a, b, Fence{}}) {
    for (const Happening& what : {Happening{event::Finish{false, ""}}, Happening{event::Finish{true, ""}},
                                  Happening{event::Failed{1, "", "", {}}}}) {
      const Decision d = apply_one(*store_, fence, n.task.id, what);
      EXPECT_EQ(d.verdict, Verdict::refused) << fence.node;
      EXPECT_EQ(d.reason, kBeingPublished);
    }
    EXPECT_EQ(apply_one(*store_, fence, n.task.id, event::Cancel{}).verdict, Verdict::refused);
  }
  must(store_->release(a.node, a.leases));
  EXPECT_EQ(apply_one(*store_, Fence{}, n.task.id, event::Finish{false, ""}).verdict, Verdict::applied);
}

TEST_P(StoreContract, ALadderIsClimbedToItsEndAndTheTaskParked) {
  const Fence fence = join(*store_, "a");
  const TaskId id = due_task(*store_, fence, "loud");
  Climb climb(*store_, fence);
  for (int n = 1; n <= 3; ++n) {
    climb.deliver(id, n);
    ASSERT_EQ(climb(id, event::Failed{n, "failure " + std::to_string(n), "", {}}).verdict, Verdict::applied);
  }
  Task t = get(*store_, id);
  EXPECT_EQ(t.state, State::parked);
  EXPECT_EQ(t.last_error, "failure 3");
  EXPECT_TRUE(t.finished_at);
  ASSERT_TRUE(t.next_at);  // a copy for the parked queue is owed
  const auto owed = must(store_->due(State::parked, all_shards(), {}, climb.now() + Ms{1000}, 10));
  ASSERT_EQ(owed.size(), 1U);
  EXPECT_EQ(owed[0].id, id);
  EXPECT_EQ(climb(id, event::ParkedCopySent{}).verdict, Verdict::applied);
  EXPECT_FALSE(get(*store_, id).next_at);
  const auto rows = must(store_->history(id));
  ASSERT_EQ(rows.size(), 3U);
  for (int n = 1; n <= 3; ++n) {
    const Attempt& a = rows[static_cast<std::size_t>(n - 1)].attempt;
    EXPECT_EQ(a.attempt, n);
    EXPECT_EQ(a.level, n);
    EXPECT_EQ(a.error, "failure " + std::to_string(n));
    EXPECT_LE(a.due_at, *a.published_at);
  }
  EXPECT_EQ(climb(id, event::Redrive{}).verdict, Verdict::applied);
  t = get(*store_, id);
  EXPECT_EQ(t.state, State::scheduled);
  EXPECT_EQ(t.level, 1);
  EXPECT_EQ(t.attempt, 3);
  EXPECT_FALSE(t.finished_at);
  climb.deliver(id, 4);
  EXPECT_EQ(must(store_->history(id)).size(), 4U);
}

// What rules and limits need is in the row and in the history, at the intake and after each step.
TEST_P(StoreContract, WhatRulesAndLimitsNeedIsKept) {
  const Fence fence = join(*store_, "a");
  NewTask fresh = task();
  fresh.task.shard = 3;
  fresh.task.next_at = fresh.task.created_at;
  fresh.task.rule = "payments[2]";
  fresh.task.moved_from = "eu.orders";
  fresh.task.rule_headers = {{"tier", "gold"}, {"tenant", "a \"b\""}};
  ASSERT_EQ(must(store_->insert({&fresh, 1}, fence)).front().how, Inserted::How::inserted);
  const TaskId id = fresh.task.id;
  EXPECT_EQ(get(*store_, id).rule, "payments[2]");
  EXPECT_EQ(get(*store_, id).moved_from, "eu.orders");
  EXPECT_EQ(get(*store_, id).rule_headers, fresh.task.rule_headers);
  const auto changes = [](const Task& task, const Happening&, const Circumstances&) {
    Decision d{Decision::Verdict::applied, "", task, Attempt{}, false};
    ++d.task.version;
    ++d.task.attempt;
    d.task.rule = "give_up";
    d.task.uncounted_attempts = 2;
    d.task.uncounted_time = Ms{90'061'007};
    d.task.moved_from = "orders";
    d.attempt->task = task.id;
    d.attempt->attempt = d.task.attempt;
    d.attempt->due_at = *task.next_at;
    d.attempt->rule = "payments[3]";
    return d;
  };
  const Event event{id, event::Claim{}};
  const Decision written = must(store_->apply({&event, 1}, fence, changes)).front();
  EXPECT_TRUE(get(*store_, id) == written.task);
  EXPECT_EQ(get(*store_, id).uncounted_time, Ms{90'061'007});
  EXPECT_EQ(must(store_->history(id)).front().attempt.rule, "payments[3]");
}

// The claim says none; the failure says one; what comes later and says none leaves it, also in one call.
TEST_P(StoreContract, TheRuleOfAnAttemptStandsUntilAnotherIsSaid) {
  const Fence fence = join(*store_, "a");
  const TaskId id = due_task(*store_, fence);
  const auto write = [&](std::vector<std::string> rules) {
    const std::vector<Event> events(rules.size(), Event{id, event::Claim{}});
    std::size_t next = 0;
    must(store_->apply(events, fence, [&](const Task& task, const Happening&, const Circumstances&) {
      Decision d{Decision::Verdict::applied, "", task, Attempt{}, false};
      ++d.task.version;
      d.attempt->task = task.id;
      d.attempt->attempt = 1;
      d.attempt->due_at = *task.next_at;
      d.attempt->rule = rules[next++ % rules.size()];
      return d;
    }));
    return must(store_->history(id)).front().attempt.rule;
  };
  EXPECT_EQ(write({""}), "");
  EXPECT_EQ(write({"payments[3]"}), "payments[3]");
  EXPECT_EQ(write({""}), "payments[3]");
  EXPECT_EQ(write({"", "give_up", ""}), "give_up");
}

// The store lost everything after the first delivery: the row is brought up to the delivery's attempt.
TEST_P(StoreContract, AFailureOfALaterAttemptIsWrittenWithWhatItOvertook) {
  const Fence fence = join(*store_, "a");
  const TaskId id = due_task(*store_, fence);
  Climb happens(*store_, fence);
  happens.deliver(id, 1);
  event::Failed third{3, "no stock", "", {}};
  third.proven = true;
  third.level = 2;
  const Decision d = happens(id, third);
  ASSERT_EQ(d.verdict, Verdict::applied) << d.reason;
  EXPECT_TRUE(get(*store_, id) == d.task);
  EXPECT_EQ(d.task.attempt, 3);
  EXPECT_EQ(d.task.level, 3);
  const auto rows = must(store_->history(id));
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].attempt.attempt, 1);
  EXPECT_EQ(rows[0].attempt.outcome, Outcome::failed);
  EXPECT_TRUE(rows[0].attempt.published_at) << "what stood there stays";
  EXPECT_EQ(rows[1].attempt.attempt, 3);
  EXPECT_EQ(rows[1].attempt.level, 2);
  EXPECT_EQ(rows[1].attempt.outcome, Outcome::failed);
  EXPECT_FALSE(rows[1].attempt.published_at);
  EXPECT_EQ(rows[1].node, "") << "nobody knows who sent it";
}

TEST_P(StoreContract, ReturnedIsAFailureWithATime) {
  const Fence fence = join(*store_, "a");
  const TaskId id = due_task(*store_, fence);
  Climb climb(*store_, fence);
  climb(id, event::Claim{});
  const EpochMs at = climb.now();
  ASSERT_EQ(climb(id, event::Returned{1, at, "NO_ROUTE"}).verdict, Verdict::applied);
  const auto row = must(store_->history(id)).at(0).attempt;
  EXPECT_EQ(row.outcome, Outcome::returned);
  EXPECT_EQ(row.published_at, at);
  EXPECT_EQ(row.error, "NO_ROUTE");
  EXPECT_EQ(get(*store_, id).level, 2);
}

TEST_P(StoreContract, ADeferredAttemptLeavesNoTrace) {
  const Fence fence = join(*store_, "a");
  const TaskId id = due_task(*store_, fence);
  Climb climb(*store_, fence);
  climb(id, event::Claim{});
  ASSERT_EQ(climb(id, event::Deferred{1, Ms{1}, "alarm"}).verdict, Verdict::applied);
  EXPECT_TRUE(must(store_->history(id)).empty());
  EXPECT_EQ(get(*store_, id).attempt, 0);
  climb.deliver(id, 1);
  EXPECT_EQ(must(store_->history(id)).size(), 1U);
}

TEST_P(StoreContract, SuccessReportedPresumedAndTakenBack) {
  const Fence fence = join(*store_, "a");
  const TaskId reported = due_task(*store_, fence);
  const TaskId presumed = due_task(*store_, fence, "presumed");
  const TaskId strict = due_task(*store_, fence, "strict");
  Climb climb(*store_, fence);
  for (const TaskId id : {reported, presumed, strict}) climb.deliver(id, 1);
  ASSERT_EQ(climb(reported, event::Succeeded{1}).verdict, Verdict::applied);
  EXPECT_EQ(get(*store_, reported).finished_by, FinishedBy::reported);
  EXPECT_EQ(get(*store_, reported).state, State::succeeded);
  for (const TaskId id : {presumed, strict}) {
    wait_until([&] { return climb(id, event::SilenceOver{}).verdict == Verdict::applied; });
  }
  EXPECT_EQ(get(*store_, presumed).finished_by, FinishedBy::presumed);
  EXPECT_EQ(get(*store_, strict).state, State::scheduled);
  EXPECT_EQ(must(store_->history(strict)).at(0).attempt.outcome, Outcome::timed_out);
  // A late failure reopens the presumed success.
  ASSERT_EQ(climb(presumed, event::Failed{1, "late", "", {}}).verdict, Verdict::applied);
  const Task t = get(*store_, presumed);
  EXPECT_EQ(t.state, State::scheduled);
  EXPECT_EQ(t.finished_by, FinishedBy::nobody);
  EXPECT_FALSE(t.finished_at);
  EXPECT_EQ(must(store_->history(presumed)).at(0).attempt.outcome, Outcome::failed);
}

TEST_P(StoreContract, ByPeople) {
  const Fence fence = join(*store_, "a");
  const TaskId cancelled = due_task(*store_, fence);
  const TaskId finished = due_task(*store_, fence);
  Climb person(*store_, Fence{});  // the command line holds no lease
  ASSERT_EQ(person(cancelled, event::Cancel{}).verdict, Verdict::applied);
  EXPECT_EQ(get(*store_, cancelled).state, State::cancelled);
  EXPECT_EQ(apply_one(*store_, fence, cancelled, event::Claim{}).verdict, Verdict::stale);
  EXPECT_EQ(person(cancelled, event::Redrive{}).verdict, Verdict::refused);
  ASSERT_EQ(person(finished, event::Finish{true, ""}).verdict, Verdict::applied);
  EXPECT_EQ(get(*store_, finished).state, State::succeeded);
  const Decision none = person(TaskId{4711}, event::Cancel{});
  EXPECT_EQ(none.verdict, Verdict::refused);
  EXPECT_EQ(none.reason, "no such task");
}

TEST_P(StoreContract, WhoTakesAFailureInOfAForeignShardTakesTheTask) {
  const Fence a = join(*store_, "a", {0});
  const Fence b = join(*store_, "b", {5});
  NewTask n = task();
  n.task.shard = 0;
  must(store_->insert(std::span(&n, 1), a));
  apply_one(*store_, a, n.task.id, event::Claim{});
  apply_one(*store_, a, n.task.id, event::Confirmed{1, must(store_->now())});
  ASSERT_EQ(apply_one(*store_, b, n.task.id, event::Failed{1, "e", "", {}}).verdict, Verdict::applied);
  EXPECT_EQ(get(*store_, n.task.id).shard, 5);
  wait_until([&] { return apply_one(*store_, b, n.task.id, event::Claim{}).verdict == Verdict::applied; });
}

TEST_P(StoreContract, ANewOwnerFindsAndClaimsWhatTheOldOneLeft) {
  const Fence old = join(*store_, "a");
  const TaskId id = due_task(*store_, old);
  apply_one(*store_, old, id, event::Claim{});
  EXPECT_TRUE(must(store_->stranded(old.leases, 10)).empty());
  const Fence fresh = join(*store_, "a");  // the same node, started again
  const auto left = must(store_->stranded(fresh.leases, 10));
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].id, id);
  EXPECT_EQ(left[0].shard, get(*store_, id).shard);
  ASSERT_EQ(apply_one(*store_, fresh, id, event::Claim{.again = true}).verdict, Verdict::applied);
  EXPECT_EQ(get(*store_, id).attempt, 1);
  EXPECT_EQ(get(*store_, id).epoch, 2U);
  EXPECT_TRUE(must(store_->stranded(fresh.leases, 10)).empty());
  EXPECT_EQ(apply_one(*store_, old, id, event::Claim{}).verdict, Verdict::stale);
}

TEST_P(StoreContract, NowIsTheDatabasesAndNeverAhead) {
  const Fence fence = join(*store_, "a");
  const TaskId id = due_task(*store_, fence);
  const EpochMs before = must(store_->now());
  EpochMs seen;
  const Event event{id, event::Claim{}};
  must(store_->apply(std::span(&event, 1), fence,
                     [&](const Task& task, const Happening&, const Circumstances& at) {
                       seen = at.now;
                       EXPECT_GE(at.random, 0.0);
                       EXPECT_LT(at.random, 1.0);
                       EXPECT_EQ(at.node, fence.node);
                       EXPECT_EQ(at.epoch, 1U);
                       EXPECT_EQ(at.home_shard, -1);
                       return Decision{Verdict::stale, "", task, {}, false};
                     }));
  EXPECT_LE(before, seen);
  EXPECT_LE(seen, must(store_->now()));
}

}  // namespace
}  // namespace rung::test
