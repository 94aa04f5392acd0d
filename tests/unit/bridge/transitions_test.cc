// What waits for what before it is recorded.
#include "src/bridge/flight/transitions.h"

#include <gtest/gtest.h>

#include "tests/unit/bridge/flow_fixture.h"

namespace rung::bridge {
namespace {

class TransitionsStory : public testing::Test {
 protected:
  struct Answer {
    std::optional<Result<Decision>> decision;
    Ms after{0};
    bool refused(std::string_view reason) const {
      return decision && *decision && (*decision)->verdict == Decision::Verdict::refused &&
             (*decision)->reason == reason;
    }
    bool applied() const {
      return decision && *decision && (*decision)->verdict == Decision::Verdict::applied;
    }
  };
  std::shared_ptr<Answer> add(Event event, const IntakeSession& session = {}) {
    auto answer = std::make_shared<Answer>();
    transitions.add(
        std::move(event),
        [this, answer, from = world.now()](const Result<Decision>& decision) {
          answer->decision = decision;
          answer->after = world.now() - from;
        },
        session);
    return answer;
  }
  static event::Failed failed(int attempt) { return {attempt, "no", "", {}}; }
  // Claimed by another instance, whose lease stands for so long.
  TaskId claimed_by(const Fence& peer) {
    const TaskId id = world.insert("orders", world.now());
    EXPECT_EQ(world.apply(peer, {id, event::Claim{}}).verdict, Decision::Verdict::applied);
    return id;
  }

  // Two tasks whose publishes have no answer before the broker's confirms are released.
  std::vector<TaskId> published_two() {
    flow.take_shards();
    flow.broker.hold_confirms();
    const std::vector<TaskId> ids{world.insert("orders", world.now()), world.insert("orders", world.now())};
    for (const TaskId id : ids) flow.hand_over(id);
    EXPECT_TRUE(world.loop.run_until([&] { return flow.broker.depth("orders") == 2; }));
    return ids;
  }

  World world;
  Flow flow{world};
  test::VirtualJobs& jobs = flow.jobs;
  Transitions& transitions = flow.transitions;
};

TEST_F(TransitionsStory, AnEventIsSentWithoutACallOfFlush) {
  const auto answer = add({world.insert_awaiting("orders"), failed(1)});
  world.loop.run_for(Ms{100});
  EXPECT_TRUE(answer->applied());
  EXPECT_LE(answer->after, Ms{30});
}

TEST_F(TransitionsStory, AFailureQuickerThanTheConfirmWaitsForItWithoutAskingTheDatabase) {
  const TaskId id = published_two().front();
  const std::size_t asked = jobs.submitted(Lane::flow);
  const auto answer = add({id, failed(1)});
  transitions.flush();
  world.loop.run_for(Ms{10'000});
  EXPECT_EQ(jobs.submitted(Lane::flow), asked);
  EXPECT_FALSE(transitions.idle());
  flow.broker.release_confirms();
  ASSERT_TRUE(world.loop.run_until([&] { return answer->decision.has_value(); }));
  EXPECT_TRUE(answer->applied());
  world.loop.run_for(Ms{100});
  EXPECT_TRUE(transitions.idle());
}

TEST_F(TransitionsStory, AWordOnWhatAnotherInstancePublishesIsAskedAgainUntilItsConfirm) {
  const Fence peer = world.peer("peer", Ms{60'000});
  const TaskId id = claimed_by(peer);
  const auto answer = add({id, failed(1)}, {1});
  transitions.flush();
  world.loop.run_for(Ms{3000});
  EXPECT_FALSE(answer->decision) << "its copy may leave yet";
  EXPECT_EQ(world.row(id).state, State::publishing);
  world.apply(peer, {id, event::Confirmed{1, world.now()}});
  world.loop.run_for(Ms{1100});
  EXPECT_TRUE(answer->applied());
  EXPECT_EQ(world.row(id).state, State::scheduled);
}

// It fills in the time of its attempt, and the attempt under way waits for a confirm of its own.
TEST_F(TransitionsStory, ALateConfirmOfAnEarlierAttemptDoesNotEndTheOneUnderWay) {
  const Fence peer = world.peer("peer", Ms{60'000});
  const TaskId id = world.insert("orders", world.now(), 5, [](Task& task) { task.attempt = 1; });
  ASSERT_EQ(world.apply(peer, {id, event::Claim{}}).task.attempt, 2);
  const auto answer = add({id, event::Confirmed{1, world.now()}});
  transitions.flush();
  world.loop.run_for(Ms{100});
  EXPECT_TRUE(answer->applied());
  EXPECT_EQ(world.row(id).state, State::publishing);
}

TEST_F(TransitionsStory, WhenTheClaimsLeaseIsOverTheWordCounts) {
  const TaskId id = claimed_by(world.peer("peer", Ms{2000}));
  const auto answer = add({id, failed(1)}, {1});
  transitions.flush();
  world.loop.run_for(Ms{1900});
  EXPECT_FALSE(answer->decision);
  world.loop.run_for(Ms{1200});
  EXPECT_TRUE(answer->applied());
}

TEST_F(TransitionsStory, APersonIsToldAfterTwoSecondsThatItIsBeingPublished) {
  const TaskId id = claimed_by(world.peer("peer", Ms{60'000}));
  const auto answer = add({id, event::Finish{true, ""}, ByHand{"ann", {}}});
  transitions.flush();
  world.loop.run_for(Ms{1990});
  EXPECT_FALSE(answer->decision);
  world.loop.run_for(Ms{1010});
  EXPECT_TRUE(answer->refused(kBeingPublished));
}

TEST_F(TransitionsStory, WhatIsRefusedForGoodTakesNoOtherDown) {
  std::vector<std::shared_ptr<Answer>> answers;
  for (int i = 0; i < 3; ++i) answers.push_back(add({world.insert_awaiting("orders"), failed(1)}));
  world.db->fail_next(2, Error::Kind::permanent);  // the batch, and then its first by itself
  transitions.flush();
  world.loop.run_for(Ms{10});
  ASSERT_TRUE(answers[0]->decision);
  EXPECT_FALSE(*answers[0]->decision);
  EXPECT_TRUE(answers[1]->applied());
  EXPECT_TRUE(answers[2]->applied());
}

TEST_F(TransitionsStory, AConfirmWaitsForCompanyAndAFailureForNobody) {
  jobs.by_hand(Lane::flow);
  const TaskId one = world.insert_awaiting("orders"), other = world.insert_awaiting("orders");
  add({one, event::Confirmed{1, world.now()}});
  transitions.flush();
  world.loop.run_for(Ms{14});
  EXPECT_EQ(jobs.waiting(Lane::flow), 0U);
  world.loop.run_for(Ms{1});
  ASSERT_EQ(jobs.waiting(Lane::flow), 1U);
  ASSERT_TRUE(jobs.run_next());
  world.loop.run_for(Ms{0});
  const auto confirm = add({one, event::Confirmed{1, world.now()}});
  transitions.flush();
  EXPECT_EQ(jobs.waiting(Lane::flow), 0U);
  const auto failure = add({other, failed(1)});
  transitions.flush();
  EXPECT_EQ(jobs.waiting(Lane::flow), 1U) << "both in one batch";
  ASSERT_TRUE(jobs.run_next());
  world.loop.run_for(Ms{0});
  EXPECT_TRUE(confirm->decision && failure->decision);
}

TEST_F(TransitionsStory, ItemsOfAnOlderSessionAreDropped) {
  const std::vector<TaskId> ids = published_two();
  const TaskId here = ids[0], another = ids[1];
  const TaskId there = world.insert("invoices", world.now(), 5, [&](Task& task) {
    task.state = State::publishing;
    task.attempt = 1;
    task.epoch = flow.shards.epoch(5);
  });
  const auto held = add({here, failed(1)}, {1}), asked = add({there, failed(1)}, {1});
  const auto newer = add({here, failed(1)}, {2}), of_another_intake = add({another, failed(1)}, {1, 1});
  transitions.flush();
  world.loop.run_for(Ms{100});
  transitions.forget_before({2});
  flow.broker.release_confirms();
  world.loop.run_for(Ms{70'000});
  EXPECT_FALSE(held->decision || asked->decision) << "the broker brings them again";
  EXPECT_TRUE(newer->applied());
  EXPECT_TRUE(of_another_intake->applied());
  EXPECT_EQ(world.row(there).state, State::awaiting) << "published again, without its failure";
}

class LeftUnackedTest : public testing::Test {
 protected:
  static void until(test::VirtualLoop& loop, const std::function<bool()>& condition) {
    EXPECT_TRUE(loop.run_until(condition));
  }

  test::VirtualClock clock;
  test::VirtualLoop loop{clock};
  Health health{clock, [] {}};
  LeftUnacked left{loop, health};
};

TEST_F(LeftUnackedTest, IsTriedUntilItSucceedsAndShowsMeanwhile) {
  int tries = 0;
  std::function<void()> again = [&] {
    if (++tries < 3) left.add({1}, "no", again);
  };
  left.add({1}, "no", again);
  EXPECT_TRUE(health.has("unrecorded"));
  until(loop, [&] { return tries == 3 && !health.has("unrecorded"); });
  EXPECT_EQ(left.size(), 0U);
}

TEST_F(LeftUnackedTest, ItemsOfAnOlderSessionAreDropped) {
  int tries = 0;
  left.add({1}, "no", [&] { ++tries; });
  left.add({}, "no", [&] { ++tries; });      // of no delivery: it stays
  left.add({1, 1}, "no", [&] { ++tries; });  // of another intake
  left.forget_before({2});
  EXPECT_EQ(left.size(), 2U);
  until(loop, [&] { return tries == 2; });
}

// What the database does not take for good, and nobody else would bring again.
TEST_F(LeftUnackedTest, ATransitionThatIsToBeKeptIsTriedAgainAndItsCallerHearsTheEndAlone) {
  World world;
  Flow flow(world);
  world.db->fail_next(2, Error::Kind::permanent);
  int answers = 0;
  const auto done = [&](const Result<Decision>& decision) {
    EXPECT_TRUE(decision);
    ++answers;
  };
  flow.transitions.add({TaskId{7}, event::Succeeded{1, ""}}, done, {3}, Transitions::OnError::keep);
  flow.transitions.flush();
  until(world.loop, [&] { return answers == 1; });
  until(world.loop, [&] { return !flow.health.has("unrecorded"); });
  world.db->fail_next(1, Error::Kind::permanent);
  bool failed = false;
  flow.transitions.add({TaskId{7}, event::Succeeded{1, ""}},
                       [&](const Result<Decision>& decision) { failed = !decision; });
  flow.transitions.flush();
  until(world.loop, [&] { return failed; });
  EXPECT_EQ(flow.left.size(), 0U);
}

}  // namespace
}  // namespace rung::bridge
