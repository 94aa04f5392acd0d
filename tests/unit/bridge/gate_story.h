// The fixture of tests of gates in the flow: one queue `orders` with the gates that begin() is told, and no
// other.
// Thread: one test's.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/unit/bridge/flow_fixture.h"

namespace rung::bridge {

inline constexpr Ms kSecond{1000};

// With `count` of them: orders, orders-1, orders-2 ...
inline RuleBookPtr gated(const GateRules& gate, int count = 1) {
  const QueueRules defaults{
      .ladder = "default", .silence = {Silence::Means::failure, Ms{3'600'000}}, .catch_up = 1000};
  QueueRules orders = defaults;
  orders.gate = gate;
  RuleBook::Queues queues;
  for (int i = 0; i < count; ++i) queues["orders" + (i == 0 ? "" : "-" + std::to_string(i))] = orders;
  return book_of({Ms{1000}, Ms{2000}, Ms{5000}}, queues, defaults);
}

// The same for all queues that match orders.*
inline RuleBookPtr gated_by_pattern(const GateRules& gate) {
  const RuleBookPtr one = gated(gate);
  return book_of({Ms{1000}, Ms{2000}, Ms{5000}}, {}, one->defaults(),
                 {{QueuePattern("orders.*"), one->queue("orders")}});
}

inline GateRules with_breaker() {
  GateRules gate;
  gate.breaker = BreakerRules{
      .open_after = 3, .of_last = 10, .only = {"Timeout*"}, .wait = {kSecond * 30, kSecond * 120}};
  return gate;
}

class GateStory : public testing::Test {
 protected:
  void begin(const GateRules& gate) { begin(gated(gate)); }
  void begin(RuleBookPtr rules) {
    world.rules = std::move(rules);
    flow = std::make_unique<Flow>(world);
    for (const auto& [queue, gate] : world.rules->queues()) flow->broker.declare(queue);
    flow->take_shards();
    start(*flow);
  }
  static void start(Flow& instance) {
    instance.world.read_clock(instance.clock);
    instance.janitor.start();
    instance.gates.start();
    instance.world.loop.run_for(Ms{100});
  }
  TaskId scheduled(const std::string& queue, Ms delay, const std::string& tenant = "") {
    const TaskId id = world.insert(queue, world.now() + delay, 5, [&](Task& task) {
      if (!tenant.empty()) task.rule_headers = {{"tenant", tenant}};
    });
    flow->schedule(id);
    return id;
  }
  std::vector<TaskId> sent(const std::string& queue = "orders") const {
    std::vector<TaskId> ids;
    for (const Message& message : flow->broker.contents(queue))
      ids.push_back(TaskId::parse(std::get<std::string>(find(message.headers, header::kId)->v)).value());
    return ids;
  }
  void fails(TaskId id, const std::string& type = "TimeoutError") {
    event::Failed failed;
    failed.attempt = world.row(id).attempt;
    failed.error = "no answer";
    failed.error_type = type;
    ASSERT_EQ(flow->say({id, failed})->verdict, Decision::Verdict::applied);
  }
  void succeeds(TaskId id) {
    ASSERT_EQ(flow->say({id, event::Succeeded{world.row(id).attempt}})->verdict, Decision::Verdict::applied);
  }
  Breaker breaker() {
    const auto states = world.eyes->gate_states();
    return states.empty() ? Breaker{} : states.front().breaker;
  }

  World world;
  std::unique_ptr<Flow> flow;
};

}  // namespace rung::bridge
