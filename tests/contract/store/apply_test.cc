// Every transition of docs/state-machine.md, written and read back.
#include "tests/contract/store/world.h"

namespace rung::test {
namespace {

TEST_P(StoreContract, AClaimIsAnAttemptAndItsHistoryBegins) {
  const TaskId id = due_task();
  const Task before = get(id);
  const Decision d = apply_one(id, event::Claim{});
  ASSERT_EQ(d.verdict, Verdict::applied) << d.reason;
  const Task t = get(id);
  EXPECT_TRUE(t == d.task);
  EXPECT_EQ(t.state, State::publishing);
  EXPECT_EQ(t.attempt, 1);
  EXPECT_EQ(t.epoch, 1U);
  EXPECT_EQ(t.node, fence().node);
  const auto rows = store_->history(id);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].attempt.due_at, *before.next_at);
  EXPECT_EQ(rows[0].attempt.outcome, Outcome::pending);
  EXPECT_FALSE(rows[0].attempt.published_at);
  EXPECT_EQ(rows[0].queue, "orders");
  EXPECT_EQ(rows[0].node, "a");
  // The same claim after a lost answer, by the same epoch: the same attempt.
  applied(id, event::Claim{});
  EXPECT_EQ(get(id).attempt, 1);
  EXPECT_EQ(store_->history(id).size(), 1U);
}

TEST_P(StoreContract, AClaimBringsTheMessagesOfTheFirstTasksThatItTook) {
  std::vector<Event> claims;
  for (int i = 0; i < 4; ++i) claims.push_back({due_task(), event::Claim{}});
  apply_one(claims[0].id, event::Cancel{});
  const std::size_t two = 2 * message_bytes(get(claims[1].id));
  const Claimed claimed = store_->claim(claims, fence(), decider(), two);
  ASSERT_EQ(claimed.decisions.size(), 4U);
  EXPECT_NE(claimed.decisions[0].verdict, Verdict::applied);
  for (std::size_t i = 1; i < 4; ++i) {
    EXPECT_EQ(claimed.decisions[i].verdict, Verdict::applied) << i;
    EXPECT_EQ(get(claims[i].id).state, State::publishing) << i;
  }
  std::vector<TaskId> with;
  for (const StoredMessage& stored : claimed.messages) {
    ASSERT_NE(stored.message, nullptr) << stored.broken;
    with.push_back(stored.id);
  }
  EXPECT_THAT(with, testing::UnorderedElementsAre(claims[1].id, claims[2].id));
  // Nothing left to claim: no messages, also not those of the call before.
  const std::span<const Event> none(claims.data(), 1);
  EXPECT_TRUE(store_->claim(none, fence(), decider(), two).messages.empty());
}

TEST_P(StoreContract, AClaimWithoutTheLeaseIsNotApplied) {
  const TaskId id = due_task();
  Fence stale = fence();
  for (Lease& l : stale.leases) --l.epoch;
  EXPECT_EQ(apply_one(stale, id, event::Claim{}).verdict, Verdict::stale);
  EXPECT_EQ(apply_one(Fence{}, id, event::Claim{}).verdict, Verdict::stale);
  EXPECT_EQ(apply_one(Fence{fence().node + 1, fence().leases}, id, event::Claim{}).verdict, Verdict::stale);
  EXPECT_EQ(get(id).state, State::scheduled);
  EXPECT_TRUE(store_->history(id).empty());
}

TEST_P(StoreContract, AFailureQuickerThanTheConfirmKeepsItsWordAndGetsItsTime) {
  const TaskId id = due_task();
  apply_one(id, event::Claim{});
  // As far as the database knows, the copy may not have been sent yet: the result waits for the confirm.
  const Decision early = apply_one(id, event::Failed{1, "quick", "", {}});
  EXPECT_EQ(early.verdict, Verdict::refused);
  EXPECT_EQ(early.reason, kBeingPublished);
  // Its owner is gone: nobody will record the publish's result, so the consumer's result counts.
  join("a");
  applied(id, event::Failed{1, "quick", "", {}});
  EXPECT_FALSE(store_->history(id).at(0).attempt.published_at);
  const Task before = get(id);
  const EpochMs at = db_now();
  applied(id, event::Confirmed{1, at});
  EXPECT_TRUE(get(id) == before);
  const auto row = store_->history(id).at(0).attempt;
  EXPECT_EQ(row.published_at, at);
  EXPECT_EQ(row.outcome, Outcome::failed);
  EXPECT_EQ(row.error, "quick");
}

// A caller without a lease (the command line), or with other leases, also sees that the claim's owner is
// alive.
TEST_P(StoreContract, NobodyEndsAnAttemptThatAnotherInstanceMayStillPublish) {
  const Fence a = join("a", {0});
  const Fence b = join("b", {5});
  NewTask n = task();
  n.task.shard = 0;
  n.task.next_at = db_now() + Ms{60};
  insert(n, a);
  applied(a, n.task.id, event::Claim{Ms{100}});
  for (const Fence& fence : {a, b, Fence{}}) {
    for (const Happening& what : {Happening{event::Finish{false, ""}}, Happening{event::Finish{true, ""}},
                                  Happening{event::Failed{1, "", "", {}}}}) {
      const Decision d = apply_one(fence, n.task.id, what);
      EXPECT_EQ(d.verdict, Verdict::refused) << fence.node;
      EXPECT_EQ(d.reason, kBeingPublished);
    }
    EXPECT_EQ(apply_one(fence, n.task.id, event::Cancel{}).verdict, Verdict::refused);
  }
  store_->release(a.node, a.leases);
  applied(Fence{}, n.task.id, event::Finish{false, ""});
}

TEST_P(StoreContract, ALadderIsClimbedToItsEndAndTheTaskParked) {
  const TaskId id = due_task("loud");
  for (int n = 1; n <= 3; ++n) {
    deliver(id);
    applied(id, event::Failed{n, "failure " + std::to_string(n), "", {}});
  }
  Task t = get(id);
  EXPECT_EQ(t.state, State::parked);
  EXPECT_EQ(t.last_error, "failure 3");
  EXPECT_TRUE(t.finished_at);
  ASSERT_TRUE(t.next_at);  // a copy for the parked queue is owed
  const auto owed = store_->due(State::parked, all_shards(), {}, db_now() + Ms{1000}, 10);
  ASSERT_EQ(owed.size(), 1U);
  EXPECT_EQ(owed[0].id, id);
  applied(id, event::ParkedCopySent{});
  EXPECT_FALSE(get(id).next_at);
  const auto rows = store_->history(id);
  ASSERT_EQ(rows.size(), 3U);
  for (int n = 1; n <= 3; ++n) {
    const Attempt& a = rows[static_cast<std::size_t>(n - 1)].attempt;
    EXPECT_EQ(a.attempt, n);
    EXPECT_EQ(a.level, n);
    EXPECT_EQ(a.error, "failure " + std::to_string(n));
    EXPECT_LE(a.due_at, *a.published_at);
    EXPECT_TRUE(a.outcome_at);
  }
  applied(id, event::Redrive{});
  t = get(id);
  EXPECT_EQ(t.state, State::scheduled);
  EXPECT_EQ(t.level, 1);
  EXPECT_EQ(t.attempt, 3);
  EXPECT_FALSE(t.finished_at);
  deliver(id);
  EXPECT_EQ(store_->history(id).size(), 4U);
}

// The claim says none; the failure says one; what comes later and says none leaves it, also in one call.
TEST_P(StoreContract, TheRuleOfAnAttemptStandsUntilAnotherIsSaid) {
  const TaskId id = due_task();
  const auto write = [&](std::vector<std::string> rules) {
    const std::vector<Event> events(rules.size(), Event{id, event::Claim{}});
    std::size_t next = 0;
    store_->apply(events, fence(), [&](const Task& task, const Happening&, const Circumstances&) {
      Decision d{Verdict::applied, "", task, Attempt{}, false};
      ++d.task.version;
      d.attempt->task = task.id;
      d.attempt->attempt = 1;
      d.attempt->due_at = *task.next_at;
      d.attempt->rule = rules[next++ % rules.size()];
      return d;
    });
    return store_->history(id).front().attempt.rule;
  };
  EXPECT_EQ(write({""}), "");
  EXPECT_EQ(write({"payments[3]"}), "payments[3]");
  EXPECT_EQ(write({""}), "payments[3]");
  EXPECT_EQ(write({"", "give_up", ""}), "give_up");
}

// The store lost everything after the first delivery: the row is brought up to the delivery's attempt.
TEST_P(StoreContract, AFailureOfALaterAttemptIsWrittenWithWhatItOvertook) {
  const TaskId id = due_task();
  deliver(id);
  event::Failed third{3, "no stock", "", {}};
  third.proven = true;
  third.level = 2;
  const Decision d = apply_one(id, third);
  ASSERT_EQ(d.verdict, Verdict::applied) << d.reason;
  EXPECT_TRUE(get(id) == d.task);
  EXPECT_EQ(d.task.attempt, 3);
  EXPECT_EQ(d.task.level, 3);
  const auto rows = store_->history(id);
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

TEST_P(StoreContract, SuccessReportedPresumedAndTakenBack) {
  const TaskId reported = due_task();
  const TaskId presumed = due_task("presumed");
  const TaskId strict = due_task("strict");
  for (const TaskId id : {reported, presumed, strict}) deliver(id);
  applied(reported, event::Succeeded{1});
  EXPECT_EQ(get(reported).finished_by, FinishedBy::reported);
  EXPECT_EQ(get(reported).state, State::succeeded);
  for (const TaskId id : {presumed, strict}) {
    wait_until_applied(id, event::SilenceOver{});
  }
  EXPECT_EQ(get(presumed).finished_by, FinishedBy::presumed);
  EXPECT_EQ(get(strict).state, State::scheduled);
  EXPECT_EQ(store_->history(strict).at(0).attempt.outcome, Outcome::timed_out);
  // A late failure reopens the presumed success.
  applied(presumed, event::Failed{1, "late", "", {}});
  const Task t = get(presumed);
  EXPECT_EQ(t.state, State::scheduled);
  EXPECT_EQ(t.finished_by, FinishedBy::nobody);
  EXPECT_FALSE(t.finished_at);
  EXPECT_EQ(store_->history(presumed).at(0).attempt.outcome, Outcome::failed);
}

TEST_P(StoreContract, WhoTakesAFailureInOfAForeignShardTakesTheTask) {
  const Fence a = join("a", {0});
  const Fence b = join("b", {5});
  NewTask n = task();
  n.task.shard = 0;
  insert(n, a);
  apply_one(a, n.task.id, event::Claim{});
  apply_one(a, n.task.id, event::Confirmed{1, db_now()});
  applied(b, n.task.id, event::Failed{1, "e", "", {}});
  EXPECT_EQ(get(n.task.id).shard, 5);
  wait_until([&] { return apply_one(b, n.task.id, event::Claim{}).verdict == Verdict::applied; });
}

TEST_P(StoreContract, ANewOwnerFindsAndClaimsWhatTheOldOneLeft) {
  const Fence old = join("a");
  const TaskId id = insert(task(), old);
  apply_one(old, id, event::Claim{});
  EXPECT_TRUE(store_->stranded(old.leases, 10).empty());
  const Fence fresh = join("a");  // the same node, started again
  const auto left = store_->stranded(fresh.leases, 10);
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].id, id);
  EXPECT_EQ(left[0].shard, get(id).shard);
  applied(fresh, id, event::Claim{.again = true});
  EXPECT_EQ(get(id).attempt, 1);
  EXPECT_EQ(get(id).epoch, 2U);
  EXPECT_TRUE(store_->stranded(fresh.leases, 10).empty());
  EXPECT_EQ(apply_one(old, id, event::Claim{}).verdict, Verdict::stale);
}

TEST_P(StoreContract, NowIsTheDatabasesAndNeverAhead) {
  const TaskId id = due_task();
  const EpochMs before = db_now();
  EpochMs seen;
  const Event event{id, event::Claim{}};
  store_->apply(std::span(&event, 1), fence(),
                [&](const Task& task, const Happening&, const Circumstances& at) {
                  seen = at.now;
                  EXPECT_GE(at.random, 0.0);
                  EXPECT_LT(at.random, 1.0);
                  EXPECT_EQ(at.node, fence().node);
                  EXPECT_EQ(at.epoch, 1U);
                  EXPECT_EQ(at.home_shard, -1);
                  return Decision{Verdict::stale, "", task, {}, false};
                });
  EXPECT_LE(before, seen);
  EXPECT_LE(seen, db_now());
}

// ---- Many events in one transaction: each row is as its decision says, whether it was read or came with the
// event.

// Events of many tasks are written with fewer statements than rows: each row must match its decision.
TEST_P(StoreContract, WhatHappensToManyAtOnceIsWrittenForEach) {
  std::vector<TaskId> ids;
  for (int i = 0; i < 40; ++i) ids.push_back(due_task());
  const auto apply_all = [&](const std::function<Happening(std::size_t)>& what) {
    std::vector<Event> events;
    for (std::size_t i = 0; i < ids.size(); ++i) events.push_back({ids[i], what(i)});
    const auto decisions = store_->apply(events, fence(), decider());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      EXPECT_EQ(decisions[i].verdict, Verdict::applied) << i << ": " << decisions[i].reason;
      EXPECT_TRUE(get(ids[i]) == decisions[i].task) << i;
    }
  };
  const EpochMs now = db_now();
  // Half are at their second attempt by then.
  for (std::size_t i = 0; i < 20; ++i) {
    applied(ids[i], event::Claim{});
    applied(ids[i], event::Returned{1, now, "no such queue"});
  }
  wait_until([&] { return db_now() > *get(ids[19]).next_at; });
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
    const auto rows = store_->history(ids[i]);
    ASSERT_EQ(rows.size(), static_cast<std::size_t>(attempt(i)));
    const Attempt& last = rows.back().attempt;
    EXPECT_EQ(last.published_at, published(i)) << i;
    EXPECT_EQ(last.outcome, Outcome::failed) << i;
    EXPECT_EQ(last.error, error(i)) << i;
    EXPECT_EQ(last.node, fence().node) << i;
    EXPECT_EQ(rows[0].attempt.outcome, i < 20 ? Outcome::returned : Outcome::failed) << i;
  }
}

Event confirm_as_expected(const Task& claimed, EpochMs published_at) {
  return {claimed.id, event::Confirmed{1, published_at}, {}, std::make_shared<const Task>(claimed)};
}

// With the confirm, the claimer passes the state of the tasks after its claim (`expected`): no row is read,
// and the result is the same as if it had been.
TEST_P(StoreContract, WhatWasSeenIsWrittenWhereItStillIsSo) {
  std::vector<Event> claims, confirms;
  for (int i = 0; i < 24; ++i) claims.push_back({due_task(), event::Claim{}});
  // Half are at their second attempt, and at a later version.
  for (std::size_t i = 0; i < 12; ++i) {
    applied(claims[i].id, event::Claim{});
    const event::Deferred refused{1, Ms{0}, "no room"};
    applied(claims[i].id, refused);
  }
  const auto claimed = store_->apply(claims, fence(), decider());
  const EpochMs now = db_now();
  for (const Decision& d : claimed) {
    ASSERT_EQ(d.verdict, Verdict::applied) << d.reason;
    confirms.push_back(confirm_as_expected(d.task, now));
  }
  // Applied twice, as after a lost answer: nothing changes.
  for (int time = 0; time < 2; ++time) {
    const auto confirmed = store_->apply(confirms, fence(), decider());
    for (std::size_t i = 0; i < confirmed.size(); ++i) {
      const Decision& d = confirmed[i];
      EXPECT_EQ(d.verdict, Verdict::applied) << d.reason;
      EXPECT_EQ(d.task.version, claimed[i].task.version + 1);
      const Task row = get(d.task.id);
      EXPECT_TRUE(row == d.task) << time << ", " << i;
      EXPECT_EQ(row.state, State::awaiting);
      const auto rows = store_->history(d.task.id);
      ASSERT_EQ(rows.size(), 1U);
      EXPECT_EQ(rows[0].attempt.published_at, now);
      EXPECT_EQ(rows[0].attempt.due_at, *claimed[i].task.next_at);
      EXPECT_EQ(rows[0].attempt.node, fence().node);
    }
  }
}

TEST_P(StoreContract, WhatIsNoLongerAsItWasSeenIsDecidedAsItIs) {
  std::vector<Event> claims, confirms;
  for (int i = 0; i < 24; ++i) claims.push_back({due_task(), event::Claim{}});
  const auto claimed = store_->apply(claims, fence(), decider());
  const EpochMs now = db_now();
  for (const Decision& d : claimed) confirms.push_back(confirm_as_expected(d.task, now));
  // One could not be sent; of one the consumer was quicker.
  const TaskId failed = claimed[7].task.id, succeeded = claimed[8].task.id;
  event::Failed unsendable{1, "boom", "E", {}};
  unsendable.by_publisher = true;
  apply_one(failed, unsendable);
  apply_one(succeeded, event::Succeeded{1});
  const auto confirmed = store_->apply(confirms, fence(), decider());
  for (std::size_t i = 0; i < confirmed.size(); ++i) {
    EXPECT_EQ(confirmed[i].verdict, Verdict::applied) << i << ": " << confirmed[i].reason;
    const Task row = get(confirmed[i].task.id);
    EXPECT_EQ(row.state, i == 7 ? State::scheduled : i == 8 ? State::succeeded : State::awaiting) << i;
    EXPECT_TRUE(row == confirmed[i].task) << i;
    const auto rows = store_->history(row.id);
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
  std::vector<Event> claims, confirms;
  for (int i = 0; i < 10; ++i) claims.push_back({due_task(), event::Claim{}});
  for (const Decision& d : store_->apply(claims, fence(), decider()))
    confirms.push_back(confirm_as_expected(d.task, d.task.created_at));
  mysql_->exec("UPDATE rung_tasks SET state = 'cancelled', next_at = NULL WHERE id = " +
               confirms[3].id.str());
  store_->apply(confirms, fence(), decider());
  EXPECT_EQ(get(confirms[3].id).state, State::cancelled);
  EXPECT_EQ(get(confirms[4].id).state, State::awaiting);
}

// For example, a person deleted history by hand: updates of those attempts are written all the same.
TEST_P(RowsChangedByHand, AnAttemptWhoseRowIsGoneIsWrittenAnew) {
  std::vector<TaskId> ids;
  std::vector<Event> claims, confirms;
  for (int i = 0; i < 12; ++i) ids.push_back(due_task());
  for (const TaskId id : ids) claims.push_back({id, event::Claim{}});
  store_->apply(claims, fence(), decider());
  mysql_->exec("DELETE FROM rung_attempts WHERE task_id = " + ids[5].str());
  const EpochMs now = db_now();
  for (const TaskId id : ids) confirms.push_back({id, event::Confirmed{1, now}});
  store_->apply(confirms, fence(), decider());
  for (const TaskId id : ids) {
    const auto rows = store_->history(id);
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(rows[0].attempt.published_at, now);
  }
}

TEST_P(StoreContract, EventsOfOneTaskInOneBatchFollowEachOther) {
  const TaskId id = due_task();
  const TaskId other = due_task();
  const EpochMs now = db_now();
  const std::vector<Event> events{{id, event::Claim{}},
                                  {other, event::Claim{}},
                                  {id, event::Confirmed{1, now}},
                                  {other, event::Deferred{1, Ms{0}, "alarm"}},
                                  {id, event::Failed{1, "one", "", {}}},
                                  {other, event::Claim{}},
                                  {id, event::Failed{1, "again", "", {}}},
                                  {TaskId{99}, event::Claim{}}};
  const auto decisions = store_->apply(events, fence(), decider());
  ASSERT_EQ(decisions.size(), events.size());
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(decisions[i].verdict, Verdict::applied) << i;
  EXPECT_EQ(decisions[6].verdict, Verdict::stale);
  EXPECT_EQ(decisions[7].verdict, Verdict::refused);
  const auto rows = store_->history(id);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].attempt.published_at, now);
  EXPECT_EQ(rows[0].attempt.error, "one");
  EXPECT_EQ(get(other).state, State::publishing);
  EXPECT_EQ(store_->history(other).size(), 1U);
}

}  // namespace
}  // namespace rung::test
