// Submissions from other threads: batched, answered after the commit, and not lost when a shard changes
// hands.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/unit/bridge/flow_fixture.h"

namespace rung::bridge {
namespace {

constexpr Ms kLongLease{2000};

class SubmissionsTest : public testing::Test {
 protected:
  void until(const std::function<bool()>& condition) {
    EXPECT_TRUE(world.loop.run_until(condition)) << "the condition did not come";
  }
  static Submission submission(const std::string& queue, Ms delay = Ms{60'000}) {
    Submission made;
    made.task.message = std::make_shared<Message>(Message{{}, {}, "hello"});
    made.task.task.queue = queue;
    made.delay = delay;
    return made;
  }
  using Answer = Result<std::vector<Submitted>>;
  Answer submit(std::vector<Submission> batch) {
    std::optional<Answer> answer;
    submissions.submit(std::move(batch), [&](Answer a) { answer = std::move(a); });
    until([&] { return answer.has_value(); });
    return answer ? std::move(*answer) : Answer(tl::unexpected(Error{Error::Kind::transient, "no answer"}));
  }
  Result<std::vector<Decision>> change(Event event) {
    std::optional<Result<std::vector<Decision>>> answer;
    submissions.change({std::move(event)}, [&](auto a) { answer = std::move(a); });
    until([&] { return answer.has_value(); });
    return std::move(*answer);
  }

  World world;
  Flow flow{world, {.lease = kLongLease}};
  Inserts& submissions = flow.inserts;
};

TEST_F(SubmissionsTest, ABatchIsInTheDatabaseWhenItIsAnswered) {
  flow.take_shards();
  const auto answer = submit({submission("orders"), submission("invoices", Ms{5000})});
  ASSERT_TRUE(answer);
  ASSERT_EQ(answer->size(), 2U);
  for (const Submitted& one : *answer) {
    EXPECT_EQ(one.answer.how, Inserted::How::inserted);
    const auto row = world.eyes->find(one.answer.id);
    ASSERT_TRUE(row);
    EXPECT_EQ(row->task.kind, Kind::delay);
    EXPECT_GE(*row->task.next_at, row->task.created_at + Ms{5000}) << "a delay is never cut short";
    EXPECT_TRUE(flow.shards.held(row->task.shard));
  }
  EXPECT_EQ(flow.horizon.loaded(), 2U) << "the heap knows them";
  EXPECT_NE(answer->at(0).answer.id, answer->at(1).answer.id);
}

TEST_F(SubmissionsTest, WhatIsHandedInBeforeAShardIsHeldWaitsForIt) {
  world.read_clock(flow.clock);
  std::optional<Answer> answer;
  submissions.submit({submission("orders")}, [&](Answer a) { answer = std::move(a); });
  world.loop.run_for(Ms{1000});
  EXPECT_FALSE(answer);
  flow.take_shards();
  until([&] { return answer.has_value(); });
  EXPECT_TRUE(*answer);
}

TEST_F(SubmissionsTest, WithoutAShardItIsGivenUpAfterAWhileAndNothingIsWritten) {
  world.read_clock(flow.clock);
  const auto answer = submit({submission("orders")});
  ASSERT_FALSE(answer);
  EXPECT_TRUE(answer.error().is_transient());
  EXPECT_TRUE(world.eyes->list({}).empty());
}

TEST_F(SubmissionsTest, WhatALostShardRefusedGoesIntoAnother) {
  flow.take_shards();
  // All shards get another epoch behind our back; the next cycle notices.
  for (int i = 0; i < kShards; ++i)
    world.eyes->acquire(flow.shards.node(), 42, std::vector<int>{i}, kLongLease);
  const auto answer = submit({submission("orders")});
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->at(0).answer.how, Inserted::How::inserted);
  EXPECT_EQ(world.eyes->list({}).size(), 1U);
}

TEST_F(SubmissionsTest, AChangeIsAnsweredWithWhatItCameTo) {
  flow.take_shards();
  flow.dispatch.open(false);
  const TaskId id = submit({submission("orders")})->at(0).answer.id;
  auto answer = change({id, event::Fire{}, ByHand{"ann", 1}});
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->at(0).verdict, Decision::Verdict::applied);
  until([&] { return flow.dispatch.ready() == 1; });  // the heap hears of it
  answer = change({id, event::Cancel{}, ByHand{"ann", 1}});
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->at(0).reason, kChangedMeanwhile);
  EXPECT_EQ(world.eyes->audit(id).size(), 1U);
}

TEST_F(SubmissionsTest, TheEndIsSaidToWhoeverWaits) {
  world.read_clock(flow.clock);
  std::optional<Answer> answer;
  submissions.submit({submission("orders")}, [&](Answer a) { answer = std::move(a); });
  world.loop.post([&] { submissions.drain(); });
  until([&] { return answer.has_value(); });
  EXPECT_FALSE(*answer);
  EXPECT_FALSE(submit({submission("orders")}));
}

TEST_F(SubmissionsTest, TheEndIsSaidToThoseWhomTheDatabaseRefusesTogetherMeanwhile) {
  world.read_clock(flow.clock);
  std::vector<Answer> answers;
  for (int i = 0; i < 2; ++i)
    submissions.submit({submission("orders")}, [&](Answer a) { answers.push_back(std::move(a)); });
  world.loop.run_for(Ms{10});  // they wait for a shard, and so go together
  flow.jobs.by_hand(Lane::flow);
  flow.take_shards();
  submissions.flush();
  ASSERT_EQ(flow.jobs.waiting(Lane::flow), 1U);
  submissions.drain();
  world.db->fail_next(1, Error::Kind::permanent);
  ASSERT_TRUE(flow.jobs.run_next(Lane::flow));
  until([&] { return answers.size() == 2; });
  for (const Answer& answer : answers) EXPECT_FALSE(answer);
}

}  // namespace
}  // namespace rung::bridge
