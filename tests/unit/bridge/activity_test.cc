// Activity: which deliveries count as failed, retried and succeeded.
#include <gtest/gtest.h>

#include "tests/unit/bridge/flow_fixture.h"

namespace rung::bridge {
namespace {

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

}  // namespace
}  // namespace rung::bridge
