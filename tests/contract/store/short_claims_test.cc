// Claims of many tasks at once: the attempts alone say so, until the confirm (src/core/machine/machine.h).
#include "tests/contract/store/world.h"

namespace rung::test {
namespace {

class ShortClaims : public StoreContract {
 protected:
  void SetUp() override {
    StoreContract::SetUp();
    std::vector<int> even, odd;  // shards, of two epochs
    for (int shard = 0; shard < kShards; ++shard) (shard % 2 == 0 ? even : odd).push_back(shard);
    fence_ = join("a", even);
    const auto later = store_->acquire(fence_.node, kIncarnation, odd, kTtl, fence_.leases[0].epoch);
    fence_.leases.insert(fence_.leases.end(), later.begin(), later.end());
    std::vector<NewTask> tasks;
    for (std::size_t i = 0; i < kShortClaims; ++i) {
      tasks.push_back(task());
      tasks.back().task.shard = static_cast<int>(i % 2);
      ids_of_.push_back(tasks.back().task.id);
    }
    store_->insert(tasks, fence_);
  }

  std::vector<Decision> claim(const Fence& fence, std::vector<TaskId> ids, event::Claim what = {}) {
    std::vector<Event> events;
    for (const TaskId id : ids) events.push_back({id, what});
    return store_->claim(events, fence, decider(), 1'000'000).decisions;
  }
  // All of them.
  std::vector<Decision> claim() {
    auto claimed = claim(fence_, ids_of_);
    for (const Decision& d : claimed) EXPECT_TRUE(d.verdict == Verdict::applied && d.short_claim);
    return claimed;
  }
  std::vector<Event> confirms(const std::vector<Decision>& claimed, bool expected) {
    std::vector<Event> events;
    for (const Decision& d : claimed) {
      const event::Confirmed confirmed{d.task.attempt, db_now(), d.task.epoch};
      events.push_back({d.task.id, confirmed});
      if (expected) events.back().expected = std::make_shared<const Task>(d.task);
    }
    return events;
  }
  // The row as it is, and what it says with its claim. What is not written is the claim's epoch.
  void expect_awaiting(const std::vector<Decision>& claimed) {
    for (const Decision& d : claimed) {
      Task row = get(d.task.id);
      EXPECT_EQ(row.state, State::awaiting);
      EXPECT_EQ(row.version, d.task.version + 1);
      row.epoch = d.task.epoch;
      row.next_at = d.task.next_at;
      row.state = d.task.state;
      row.version = d.task.version;
      EXPECT_TRUE(row.said);
      row.said = d.task.said;
      EXPECT_TRUE(row == d.task);
      const auto history = store_->history(row.id);
      ASSERT_EQ(history.size(), 1U);
      EXPECT_TRUE(history[0].attempt.published_at);
      EXPECT_EQ(history[0].attempt.due_at, *d.task.next_at);
    }
  }

  Fence fence_;
  std::vector<TaskId> ids_of_;
};

TEST_P(ShortClaims, AreInTheHistoryAndNotYetInTheRows) {
  const std::vector<Decision> claimed = claim();
  for (const Decision& d : claimed) {
    EXPECT_EQ(d.task.state, State::publishing);
    EXPECT_EQ(d.task.attempt, 1);
    EXPECT_EQ(d.task.node, fence_.node);
    EXPECT_EQ(d.task.copy_number, d.task.version);
    const Task row = get(d.task.id);
    EXPECT_EQ(row.state, State::scheduled);
    EXPECT_EQ(row.attempt, 0);
    EXPECT_EQ(row.version + 1, d.task.version);
    const auto history = store_->history(row.id);
    ASSERT_EQ(history.size(), 1U);
    EXPECT_EQ(history[0].attempt.attempt, 1);
    EXPECT_EQ(history[0].attempt.outcome, Outcome::pending);
    EXPECT_FALSE(history[0].attempt.published_at);
  }
  EXPECT_TRUE(store_->due(State::publishing, all_shards(), {}, db_now(), 100).empty());
}

TEST_P(ShortClaims, FewAreInTheRows) {
  ids_of_.pop_back();
  for (const Decision& d : claim(fence_, ids_of_)) {
    EXPECT_FALSE(d.short_claim);
    EXPECT_TRUE(get(d.task.id) == d.task);
  }
}

// What changes more than the claim is in the row.
TEST_P(ShortClaims, WhatMustBeSeenAtOnceIsInTheRows) {
  std::vector<Event> events;
  for (const TaskId id : ids_of_) events.push_back({id, event::Claim{}});
  events[0].what = event::Claim{Ms{0}, Ms{5}, 0};
  events[1].what = event::Claim{Ms{0}, Ms{0}, 7};
  const auto claimed = store_->claim(events, fence_, decider(), 1'000'000).decisions;
  for (std::size_t i = 0; i < claimed.size(); ++i) {
    EXPECT_EQ(claimed[i].short_claim, i > 1) << i;
    EXPECT_EQ(get(claimed[i].task.id) == claimed[i].task, i <= 1) << i;
  }
}

TEST_P(ShortClaims, AConfirmWritesBoth) {
  const auto claimed = claim();
  for (int time = 0; time < 2; ++time) {  // twice, as after a lost answer
    for (const Decision& d : store_->apply(confirms(claimed, true), fence_, decider()))
      EXPECT_EQ(d.verdict, Verdict::applied) << d.reason;
    expect_awaiting(claimed);
  }
}

TEST_P(ShortClaims, AConfirmThatHasToReadWritesBoth) {
  const auto claimed = claim();
  for (const Decision& d : store_->apply(confirms(claimed, false), fence_, decider())) {
    EXPECT_EQ(d.verdict, Verdict::applied) << d.reason;
    EXPECT_TRUE(get(d.task.id) == d.task);
  }
  expect_awaiting(claimed);
}

// An operator may have raised the version meanwhile, by SQL.
class ShortClaimsChangedByHand : public ShortClaims {};
INSTANTIATE_TEST_SUITE_P(Stores, ShortClaimsChangedByHand, testing::Values("mysql"));

TEST_P(ShortClaimsChangedByHand, AConfirmOfAnotherVersionIsDecidedAsItIs) {
  const auto claimed = claim();
  mysql_->exec("UPDATE rung_tasks SET version = version + 1 WHERE id = " + ids_of_[3].str());
  for (const Decision& d : store_->apply(confirms(claimed, true), fence_, decider())) {
    EXPECT_EQ(d.verdict, Verdict::applied) << d.reason;
    EXPECT_EQ(get(d.task.id).state, State::awaiting);
    EXPECT_EQ(get(d.task.id).attempt, 1);
  }
}

TEST_P(ShortClaims, APersonFindsThemBeingPublished) {
  claim();
  const EpochMs later = db_now() + Ms{60'000};
  const std::vector<Happening> changes{event::Cancel{}, event::Discard{}, event::Reschedule{later},
                                       event::Redrive{Target{"elsewhere", "", ""}}};
  for (const Happening& what : changes) {
    const Decision d = apply_one(Fence{}, ids_of_[0], what);
    EXPECT_EQ(d.verdict, Verdict::refused);
    EXPECT_NE(d.reason.find("it is publishing"), std::string::npos) << d.reason;
  }
  EXPECT_EQ(apply_one(Fence{}, ids_of_[0], event::Fire{}).verdict, Verdict::stale);
  const Decision finish = apply_one(Fence{}, ids_of_[0], event::Finish{true, ""});
  EXPECT_EQ(finish.reason, kBeingPublished);
  // The row's version is not the task's any more.
  const Task row = get(ids_of_[1]);
  const Event seen{row.id, event::Cancel{}, ByHand{"alice", row.version}};
  EXPECT_EQ(store_->apply(std::span(&seen, 1), Fence{}, decider()).at(0).reason, kChangedMeanwhile);
}

// A consumer may be quicker than the confirm.
TEST_P(ShortClaims, AnAnswerWaitsForTheConfirm) {
  const auto claimed = claim();
  const Decision early = apply_one(fence_, ids_of_[0], event::Succeeded{1});
  EXPECT_EQ(early.verdict, Verdict::applied);  // a success needs no confirm
  EXPECT_EQ(get(ids_of_[0]).state, State::succeeded);
  EXPECT_EQ(get(ids_of_[0]).attempt, 1);
  EXPECT_EQ(apply_one(fence_, ids_of_[1], event::Failed{1, "no answer", "", {}}).reason, kBeingPublished);
  store_->apply(confirms(claimed, true), fence_, decider());
  EXPECT_EQ(get(ids_of_[0]).state, State::succeeded);
  applied(fence_, ids_of_[1], event::Failed{1, "no answer", "", {}});
  EXPECT_EQ(get(ids_of_[1]).attempt, 1);
}

TEST_P(ShortClaims, ARefusedPublishGivesTheAttemptBack) {
  claim();
  std::vector<Event> events;
  for (const TaskId id : ids_of_) events.push_back({id, event::Deferred{1, Ms{0}, "no room"}});
  for (const Decision& d : store_->apply(events, fence_, decider())) {
    EXPECT_EQ(d.verdict, Verdict::applied) << d.reason;
    EXPECT_TRUE(get(d.task.id) == d.task);
    EXPECT_EQ(d.task.state, State::scheduled);
    EXPECT_EQ(d.task.attempt, 0);
    EXPECT_TRUE(store_->history(d.task.id).empty());
  }
  applied(Fence{}, ids_of_[0], event::Cancel{});
  ids_of_.push_back(insert(task(), fence_));
  const auto again = claim(fence_, {ids_of_.begin() + 1, ids_of_.end()});
  for (const Decision& d : again) EXPECT_EQ(d.task.attempt, 1);
}

TEST_P(ShortClaims, AreWrittenToTheRowsLater) {
  const auto claimed = claim();
  store_->write_claims(ids_of_);
  for (const Decision& d : claimed) EXPECT_TRUE(get(d.task.id) == d.task);
  store_->write_claims(ids_of_);  // again: nothing is left to write
  for (const Decision& d : claimed) EXPECT_TRUE(get(d.task.id) == d.task);
  store_->apply(confirms(claimed, true), fence_, decider());
  expect_awaiting(claimed);
  store_->write_claims(ids_of_);
  expect_awaiting(claimed);
}

// The answer of a claim was lost: claimed once more, it is the same attempt.
TEST_P(ShortClaims, AreRepeatedByTheirOwner) {
  claim();
  for (const Decision& d : claim(fence_, ids_of_)) {
    EXPECT_EQ(d.verdict, Verdict::applied);
    EXPECT_TRUE(d.claimed_again);
    EXPECT_EQ(d.task.attempt, 1);
    EXPECT_TRUE(get(d.task.id) == d.task);
  }
}

// The next owner of the shards must not treat them as unclaimed: the former owner may still publish them.
TEST_P(ShortClaims, AreTakenOverAsWhatIsBeingPublished) {
  claim();
  store_->release(fence_.node, fence_.leases);
  const Fence next = join("b");
  for (const Decision& d : claim(next, ids_of_)) EXPECT_EQ(d.verdict, Verdict::stale);
  EXPECT_THAT(store_->short_claims(next.leases), testing::UnorderedElementsAreArray(ids_of_));
  EXPECT_TRUE(store_->short_claims(fence_.leases).empty());
  EXPECT_TRUE(store_->stranded(next.leases, 100).empty());
  store_->write_claims(ids_of_);
  EXPECT_TRUE(store_->short_claims(next.leases).empty());
  EXPECT_EQ(store_->stranded(next.leases, 100).size(), ids_of_.size());
  EXPECT_TRUE(store_->due(State::scheduled, all_shards(), {}, db_now(), 100).empty());
  for (const Decision& d : claim(next, ids_of_)) EXPECT_EQ(d.verdict, Verdict::stale);
  for (const Decision& d : claim(next, ids_of_, event::Claim{.again = true})) {
    EXPECT_TRUE(d.verdict == Verdict::applied && d.claimed_again);
    EXPECT_EQ(d.task.attempt, 1);
    EXPECT_EQ(d.task.node, next.node);
    EXPECT_TRUE(get(d.task.id) == d.task);
  }
}

// A delay ends with its delivery. The same message, published again by its consumer, is another task.
TEST_P(ShortClaims, ADelayGivesItsKeyToTheNext) {
  NewTask delay = task();
  delay.task.kind = Kind::delay;
  delay.task.next_at = delay.task.created_at;
  delay.intake_key = "0123456789abcdef";
  insert(delay, fence_);
  NewTask next = task();
  next.task.kind = Kind::delay;
  next.intake_key = delay.intake_key;
  EXPECT_EQ(store_->insert(std::span(&next, 1), fence_).at(0).how, Inserted::How::duplicate);
  ids_of_.push_back(delay.task.id);
  claim();
  insert(next, fence_);
}

INSTANTIATE_TEST_SUITE_P(Stores, ShortClaims, testing::Values("memory", "mysql"),
                         [](const auto& p) { return p.param; });

}  // namespace
}  // namespace rung::test
