// Every transition of docs/state-machine.md, written and read back.
#include "tests/contract/store/world.h"

namespace rung::test {
namespace {

using Verdict = Decision::Verdict;

class Climb {  // a task under way, as a starting point
 public:
  Climb(Store& store, Fence fence) : store_(store), fence_(std::move(fence)) {}
  Decision operator()(TaskId id, Happening what) {
    const Event event{id, std::move(what)};
    return must(store_.apply(std::span(&event, 1), fence_, decider())).at(0);
  }
  EpochMs now() { return must(store_.now()); }
  // Claimed and confirmed: awaiting attempt `n`.
  void deliver(TaskId id, int n) {
    wait_until([&] { return (*this)(id, event::Claim{}).verdict == Verdict::applied; });
    EXPECT_EQ((*this)(id, event::Confirmed{n, now()}).verdict, Verdict::applied);
  }

 private:
  Store& store_;
  Fence fence_;
};

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

// A row that somebody changed by hand may still have the expected version, although it differs.
TEST_P(StoreContract, WhatWasChangedByHandIsDecidedAsItIs) {
  if (!mysql_) GTEST_SKIP() << "the memory store has nobody who changes rows by hand";
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
TEST_P(StoreContract, AnAttemptWhoseRowIsGoneIsWrittenAnew) {
  if (!mysql_) GTEST_SKIP() << "the memory store has nobody who deletes rows";
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
      EXPECT_TRUE(d.reason == kNotPublishedYet || d.reason == kBeingPublished) << d.reason;
    }
    EXPECT_EQ(apply_one(*store_, fence, n.task.id, event::Cancel{""}).verdict, Verdict::refused);
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
  third.proven = third.asked_again = true;
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
  ASSERT_EQ(person(cancelled, event::Cancel{"not wanted"}).verdict, Verdict::applied);
  EXPECT_EQ(get(*store_, cancelled).state, State::cancelled);
  EXPECT_EQ(apply_one(*store_, fence, cancelled, event::Claim{}).verdict, Verdict::stale);
  EXPECT_EQ(person(cancelled, event::Redrive{}).verdict, Verdict::refused);
  ASSERT_EQ(person(finished, event::Finish{true, ""}).verdict, Verdict::applied);
  EXPECT_EQ(get(*store_, finished).state, State::succeeded);
  const Decision none = person(TaskId{4711}, event::Cancel{""});
  EXPECT_EQ(none.verdict, Verdict::refused);
  EXPECT_EQ(none.reason, "no such task");
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
  ASSERT_EQ(apply_one(*store_, fresh, id, event::Claim{}).verdict, Verdict::applied);
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
