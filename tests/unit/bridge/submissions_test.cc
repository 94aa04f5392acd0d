// Submissions from other threads: batched, answered after the commit, and not lost when a shard changes
// hands.
#include "src/bridge/changes/submissions.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/support/memory/memory_store.h"
#include "tests/support/virtual_time.h"

namespace rung::bridge {
namespace {

constexpr Ms kLongLease{2000};

class SubmissionsTest : public testing::Test {
 protected:
  SubmissionsTest() : eyes(open_memory_store(db)) {}
  void until(const std::function<bool()>& condition) {
    EXPECT_TRUE(loop.run_until(condition)) << "the condition did not come";
  }
  void take_shards() {
    shards.start();
    until([&] { return shards.any(); });
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

  const std::shared_ptr<test::VirtualClock> time = std::make_shared<test::VirtualClock>();
  test::VirtualLoop loop{*time};
  const std::shared_ptr<MemoryDb> db = std::make_shared<MemoryDb>(time, 1);
  const std::unique_ptr<Store> eyes;
  RuleBookPtr rules = std::make_shared<RuleBook>(
      RuleBook::Ladders{{"default", *levels::Ladder::from_list({Ms{1000}})}}, RuleBook::Queues{});
  DbClock clock{*time};
  struct Heard final : TaskObserver {
    void inserted(const NewTask& fresh) override { new_rows.push_back(fresh.task); }
    void holds_queue(const Task&, Ms) override {}
    void decided(const Decision& decision) override { decisions.push_back(decision); }
    std::vector<Task> new_rows;
    std::vector<Decision> decisions;
  };
  Heard heard;
  test::VirtualJobs jobs{loop, [this]() -> Result<std::unique_ptr<Store>> { return open_memory_store(db); }};
  Shards shards{loop,
                jobs,
                clock,
                {{"a", "0", "here", 42}, kLongLease, Ms{1000}},
                {[this](const std::vector<Gained>&) { submissions.flush(); }, [](const std::vector<int>&) {},
                 [](BootMs) {}, [] {}, [](const Shards::Notice&) {}}};
  Health health{*time, [] {}};
  LeftUnacked left{loop, health, [] {}};
  Transitions transitions{
      loop, {jobs, [this] { return shards.fence(); }, rules, [] {}, [](TaskId) { return false; }, left}};
  Submissions submissions{{loop, jobs, shards, transitions, clock, rules, heard}};
};

TEST_F(SubmissionsTest, ABatchIsInTheDatabaseWhenItIsAnswered) {
  take_shards();
  const auto answer = submit({submission("orders"), submission("invoices", Ms{5000})});
  ASSERT_TRUE(answer);
  ASSERT_EQ(answer->size(), 2U);
  for (const Submitted& one : *answer) {
    EXPECT_EQ(one.answer.how, Inserted::How::inserted);
    const auto row = *eyes->find(one.answer.id);
    ASSERT_TRUE(row);
    EXPECT_EQ(row->task.kind, Kind::delay);
    EXPECT_GE(*row->task.next_at, row->task.created_at + Ms{5000}) << "a delay is never cut short";
    EXPECT_TRUE(shards.held(row->task.shard));
  }
  EXPECT_EQ(heard.new_rows.size(), 2U) << "the heap knows them";
  EXPECT_NE(answer->at(0).answer.id, answer->at(1).answer.id);
}

TEST_F(SubmissionsTest, WhatIsHandedInBeforeAShardIsHeldWaitsForIt) {
  std::optional<Answer> answer;
  submissions.submit({submission("orders")}, [&](Answer a) { answer = std::move(a); });
  loop.run_for(Ms{1000});
  EXPECT_FALSE(answer);
  take_shards();
  until([&] { return answer.has_value(); });
  EXPECT_TRUE(*answer);
}

TEST_F(SubmissionsTest, WithoutAShardItIsGivenUpAfterAWhileAndNothingIsWritten) {
  const auto answer = submit({submission("orders")});
  ASSERT_FALSE(answer);
  EXPECT_TRUE(answer.error().is_transient());
  EXPECT_TRUE(eyes->list({})->empty());
}

TEST_F(SubmissionsTest, WhatALostShardRefusedGoesIntoAnother) {
  take_shards();
  // All shards get another epoch behind our back; the next cycle notices.
  for (int i = 0; i < kShards; ++i)
    ASSERT_TRUE(eyes->acquire(shards.node(), 42, std::vector<int>{i}, kLongLease));
  const auto answer = submit({submission("orders")});
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->at(0).answer.how, Inserted::How::inserted);
  EXPECT_EQ(eyes->list({})->size(), 1U);
}

TEST_F(SubmissionsTest, AChangeIsAnsweredWithWhatItCameTo) {
  take_shards();
  const TaskId id = submit({submission("orders")})->at(0).answer.id;
  auto answer = change({id, event::Fire{}, ByHand{"ann", 1}});
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->at(0).verdict, Decision::Verdict::applied);
  ASSERT_EQ(heard.decisions.size(), 1U) << "the heap hears of it";
  answer = change({id, event::Cancel{}, ByHand{"ann", 1}});
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->at(0).reason, kChangedMeanwhile);
  EXPECT_EQ(eyes->audit(id)->size(), 1U);
}

TEST_F(SubmissionsTest, TheEndIsSaidToWhoeverWaits) {
  std::optional<Answer> answer;
  submissions.submit({submission("orders")}, [&](Answer a) { answer = std::move(a); });
  loop.post([&] { submissions.drain(); });
  until([&] { return answer.has_value(); });
  EXPECT_FALSE(*answer);
  EXPECT_FALSE(submit({submission("orders")}));
}

}  // namespace
}  // namespace rung::bridge
