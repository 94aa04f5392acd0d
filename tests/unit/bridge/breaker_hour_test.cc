// A target that is down for an hour, and three instances that share its queue: how often they knock, what it
// costs the tasks, and how soon they flow again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/bridge/flow_fixture.h"

namespace rung::bridge {
namespace {

constexpr Ms kMinute{60'000};

RuleBookPtr hour_rules() {
  const Silence reported{Silence::Means::failure, Ms{3'600'000}};
  QueueRules orders{.ladder = "default", .silence = reported, .catch_up = 1000};
  orders.gate.breaker = BreakerRules{.open_after = 20, .of_last = 100, .only = {}};
  const QueueRules defaults{.ladder = "default", .silence = reported, .catch_up = 1000};
  return std::make_shared<RuleBook>(
      RuleBook::Ladders{
          {"default", *levels::Ladder::from_list({Ms{5000}, Ms{30'000}, Ms{120'000}, Ms{600'000}})}},
      RuleBook::Queues{{"orders", orders}}, RuleBook::Tags{}, defaults);
}

class BreakersHour : public testing::Test {
 protected:
  BreakersHour() {
    world.rules = hour_rules();
    for (const char* name : {"a", "b", "c"}) {
      Flow::Options options;
      options.name = name;
      flows.push_back(std::make_unique<Flow>(world, options));
    }
    for (const auto& flow : flows) {
      flow->shards.start();
      flow->janitor.start();
      flow->gates.start();
    }
    world.loop.run_for(kMinute);
  }
  // The target answers what it gets within `answers`.
  void run(Ms time, bool up, Ms answers = Ms{50}) {
    for (const EpochMs end = world.now() + time; world.now() < end; world.loop.run_for(answers)) {
      for (std::size_t i = 0; i < flows.size(); ++i) answer(*flows[i], answered[i], up);
    }
  }
  void answer(Flow& flow, std::size_t& from, bool up) {
    if (flow.broker.depth("orders") == from) return;
    const auto messages = flow.broker.contents("orders");
    for (; from < messages.size(); ++from) {
      const auto& headers = messages[from].headers;
      const TaskId id = TaskId::parse(std::get<std::string>(find(headers, header::kId)->v)).value();
      const int attempt = static_cast<int>(find(headers, header::kAttempt)->as_int().value());
      deliveries.push_back(world.now());
      event::Failed failed;
      failed.attempt = attempt;
      failed.error = "connection refused";
      Happening what = failed;
      if (up) what = event::Succeeded{attempt};
      if (up && !first_success) first_success = world.now();
      flow.transitions.add({id, what}, [&flow](const Result<Decision>& decision) {
        if (decision) flow.updates.decided(*decision);
      });
    }
    flow.transitions.flush();
  }
  int spent() {  // attempts that count
    int sum = 0;
    for (const TaskRow& row : rows()) sum += counted_attempts(row.task);
    return sum;
  }
  std::vector<TaskRow> rows() {
    Filter filter;
    filter.limit = 10'000;
    return world.eyes->list(filter).value();
  }

  World world;
  std::vector<std::unique_ptr<Flow>> flows;
  std::vector<std::size_t> answered = std::vector<std::size_t>(3);
  std::vector<EpochMs> deliveries;
  std::optional<EpochMs> first_success;
};

TEST_F(BreakersHour, OneProbeForEachWaitNoAttemptLostAndFlowAtOnce) {
  for (int i = 0; i < 300; ++i) world.insert("orders", world.now() + Ms{2000 + i * 10}, i % kShards);
  const EpochMs down = world.now();
  run(Ms{20'000}, false);
  const int before = spent();
  const auto delivered = deliveries.size();
  EXPECT_GE(before, 20);
  EXPECT_LE(before, 200) << "it opens within the first second of failures";

  run(kMinute * 60, false, Ms{1000});
  const auto probes = deliveries.size() - delivered;
  // The waits 30 s, 2 min, 10 min, 10 min ... fit seven times into the hour.
  EXPECT_GE(probes, 6U);
  EXPECT_LE(probes, 8U);
  EXPECT_EQ(spent(), before) << "neither a task that waits nor a probe loses an attempt";
  for (const TaskRow& row : rows()) EXPECT_EQ(row.task.state, State::scheduled);

  const auto hour = deliveries.size();
  run(kMinute * 11, true);
  ASSERT_TRUE(first_success);
  const auto in_two_seconds = std::ranges::count_if(
      deliveries, [&](EpochMs at) { return at >= *first_success && at <= *first_success + Ms{2000}; });
  EXPECT_GE(in_two_seconds, 100) << "it flows again";
  EXPECT_EQ(deliveries.size() - hour, 300U) << "each task once: none was delivered twice";
  for (const TaskRow& row : rows()) EXPECT_EQ(row.task.state, State::succeeded);
  std::printf(
      "down for an hour: %zu deliveries before it opened, %zu probes, counted attempts %d before and %d "
      "after; "
      "within 2 s of the first success %td deliveries; the breaker was open for %lld s\n",
      delivered, probes, before, before, in_two_seconds,
      static_cast<long long>((*first_success - down).count() / 1000));
}

}  // namespace
}  // namespace rung::bridge
