// Activity: which deliveries count as failed, retried and succeeded, and what of that reaches the database.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/bridge/upkeep/counts.h"
#include "tests/unit/bridge/flow_fixture.h"

namespace rung::bridge {
namespace {

using testing::IsEmpty;
using testing::SizeIs;
using How = PublishResult::How;

constexpr Ms kReportedWithin{3'600'000};

RuleBookPtr reporting_rules() {
  QueueRules rules;
  rules.silence = {Silence::Means::failure, kReportedWithin};
  return std::make_shared<RuleBook>(RuleBook::Ladders{{"default", *levels::Ladder::from_list({Ms{1000}})}},
                                    RuleBook::Queues{{"orders", rules}});
}

Task delivery_of(Kind kind, int attempt, State state = State::scheduled) {
  Task task;
  task.queue = "orders";
  task.kind = kind;
  task.attempt = attempt;
  task.state = state;
  return task;
}

Decision ended_with(Outcome outcome, State was = State::awaiting) {
  Decision decision;
  decision.verdict = Decision::Verdict::applied;
  decision.was = was;
  decision.task =
      delivery_of(Kind::retry, 1, outcome == Outcome::succeeded ? State::succeeded : State::scheduled);
  decision.attempt.emplace();
  decision.attempt->outcome = outcome;
  return decision;
}

ActivityCounts activity_of(const FlowCounts& counts) { return counts.by_queue().at("orders").activity(); }

TEST(ActivityCounted, FirstFailuresAndLaterOnes) {
  FlowCounts counts(reporting_rules());
  counts.inserted(delivery_of(Kind::retry, 0));
  EXPECT_EQ(activity_of(counts), (ActivityCounts{1, 0, 0}));
  counts.inserted(delivery_of(Kind::delay, 0));
  EXPECT_EQ(activity_of(counts), (ActivityCounts{1, 0, 0})) << "a delay has not failed";
  for (const Outcome outcome : {Outcome::failed, Outcome::timed_out, Outcome::returned, Outcome::pending})
    counts.decided(ended_with(outcome));
  EXPECT_EQ(activity_of(counts), (ActivityCounts{4, 0, 0}));
}

TEST(ActivityCounted, ConfirmedRetries) {
  FlowCounts counts(reporting_rules());
  for (const How how : {How::confirmed, How::returned, How::nacked, How::lost, How::fenced, How::rejected})
    counts.published(delivery_of(Kind::retry, 1), how, Ms{0}, Ms{0});
  EXPECT_EQ(activity_of(counts), (ActivityCounts{0, 1, 0}));
  counts.published(delivery_of(Kind::delay, 1), How::confirmed, Ms{0}, Ms{0});
  EXPECT_EQ(activity_of(counts), (ActivityCounts{0, 1, 0})) << "the first delivery of a delay is no retry";
  counts.published(delivery_of(Kind::delay, 2), How::confirmed, Ms{0}, Ms{0});
  EXPECT_EQ(activity_of(counts), (ActivityCounts{0, 2, 0}));
}

TEST(ActivityCounted, SuccessesReportedAndPresumedAndEachOnce) {
  FlowCounts counts(reporting_rules());
  counts.decided(ended_with(Outcome::succeeded));
  Decision presumed = ended_with(Outcome::succeeded);
  presumed.task.finished_by = FinishedBy::presumed;
  counts.decided(presumed);
  EXPECT_EQ(activity_of(counts), (ActivityCounts{0, 0, 2}));
  counts.decided(ended_with(Outcome::succeeded, State::succeeded));
  EXPECT_EQ(activity_of(counts), (ActivityCounts{0, 0, 2})) << "the report of one that was presumed";
}

// --- CountUpkeep

class ActivityStory : public testing::Test {
 protected:
  ActivityStory() {
    world.rules = reporting_rules();
    flow = std::make_unique<Flow>(world);
    flow->take_shards();
    jobs = std::make_unique<Jobs>(world.loop, flow->jobs, flow->shards);
    upkeep = std::make_unique<CountUpkeep>(*jobs, flow->clock, flow->counts, identity);
    world.loop.run_for(Ms{100});
  }
  void due_now(int count = 1) {
    for (int i = 0; i < count; ++i) flow->hand_over(world.insert("orders", world.now()));
    world.loop.run_for(Ms{100});
  }
  // Of all time.
  std::vector<ActivityPoint> stored(const std::string& queue, Ms step = kActivityMinute) {
    return world.eyes->activity({queue, EpochMs{0}, world.now() + kActivityKept, step}).value();
  }
  std::int64_t retried() {
    std::int64_t sum = 0;
    for (const ActivityPoint& point : stored(kAllQueues)) sum += point.counts.retried;
    return sum;
  }

  const NodeIdentity identity{"a", "0", "here", Flow::kIncarnation};
  World world;
  std::unique_ptr<Flow> flow;
  std::unique_ptr<Jobs> jobs;
  std::unique_ptr<CountUpkeep> upkeep;
};

TEST_F(ActivityStory, IsAddedEveryFewSecondsAndOnlyWhatIsNew) {
  jobs->start();
  due_now(2);
  world.loop.run_for(CountUpkeep::kEvery);
  ASSERT_THAT(stored("orders"), SizeIs(1));
  EXPECT_EQ(stored("orders")[0].counts, (ActivityCounts{0, 2, 0}));
  EXPECT_EQ(stored(kAllQueues), stored("orders"));
  EXPECT_THAT(stored(FlowCounts::kOther), IsEmpty());
  const std::size_t asked = flow->jobs.submitted(Lane::upkeep);
  world.loop.run_for(CountUpkeep::kEvery * 5);
  EXPECT_EQ(flow->jobs.submitted(Lane::upkeep), asked) << "nothing is new";
  due_now();
  world.loop.run_for(CountUpkeep::kEvery);
  EXPECT_EQ(retried(), 3);
}

TEST_F(ActivityStory, ALostAnswerCountsOnceAndAFailureLosesNothing) {
  due_now(2);
  world.db->lose_next_answers(1);
  upkeep->add();
  world.loop.run_for(Ms{1000});
  EXPECT_EQ(retried(), 2);
  due_now();
  world.db->fail_next(1, Error::Kind::refused);
  upkeep->add();
  world.loop.run_for(Ms{100});
  EXPECT_EQ(retried(), 2);
  due_now();
  upkeep->add();  // the batch that failed, and then what is new
  world.loop.run_for(Ms{100});
  upkeep->add();
  world.loop.run_for(Ms{100});
  EXPECT_EQ(retried(), 4);
}

TEST_F(ActivityStory, OldMinutesGoWhileThereIsTraffic) {
  const EpochMs old = world.now() - kActivityKept;
  for (int i = 0; i < 3000; ++i) {
    const std::string queue = "q" + std::to_string(i);
    ASSERT_TRUE(world.eyes->add_counts({{{queue, {}, {1, 0, 0}}}, old, queue, "1"}));
  }
  EXPECT_THAT(stored("q2999"), SizeIs(1));
  jobs->start();
  for (int i = 0; i < 6; ++i) {  // more than is deleted at a time
    due_now();
    world.loop.run_for(CountUpkeep::kEvery);
  }
  EXPECT_EQ(world.eyes->forget_counts(world.now(), 10'000).value(), 0) << "they are gone";
  EXPECT_EQ(retried(), 6);
}

}  // namespace
}  // namespace rung::bridge
