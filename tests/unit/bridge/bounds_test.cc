// What strangers name (queues, exchanges) takes bounded memory, and harms no queue of the config. Each
// container of the table in docs/design.md is filled beyond its bound.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/bridge/base/observers.h"
#include "src/bridge/base/queue_names.h"
#include "src/bridge/flight/gates.h"
#include "src/bridge/watch/attachments.h"
#include "tests/unit/bridge/flow_fixture.h"

namespace rung::bridge {
namespace {

constexpr std::size_t kStrangers = 5000;

std::string stranger(std::size_t i) { return "stranger-" + std::to_string(i); }

// Every queue, also one that the config does not name, has a breaker that opens after two failures.
RuleBookPtr breakers_for_all() {
  QueueRules defaults{.ladder = "default", .silence = {}, .catch_up = 1000};
  defaults.gate.breaker = BreakerRules{};
  defaults.gate.breaker->open_after = 2;
  defaults.gate.breaker->of_last = 4;
  return book_of({Ms{1000}, Ms{2000}, Ms{5000}}, {{"orders", defaults}}, defaults);
}

class Strangers : public testing::Test {
 protected:
  Strangers() {
    world.rules = breakers_for_all();
    flow = std::make_unique<Flow>(world);
    flow->gates.start();
    world.loop.run_for(Ms{1000});
  }
  static Task task_of(const std::string& queue) {
    Task task;
    task.id = TaskId{1};
    task.queue = queue;
    task.attempt = 1;
    return task;
  }
  void succeed(const std::string& queue) { flow->gates.decided(ended(queue, Outcome::succeeded)); }
  void fail(const std::string& queue) { flow->gates.decided(ended(queue, Outcome::failed)); }
  static Decision ended(const std::string& queue, Outcome outcome) {
    Decision decision;
    decision.verdict = Decision::Verdict::applied;
    decision.task = task_of(queue);
    decision.attempt.emplace();
    decision.attempt->outcome = outcome;
    return decision;
  }
  bool is_open(const std::string& queue) const {
    const GateState* state = flow->gates.state(queue);
    return state != nullptr && state->breaker.state == Breaker::State::open;
  }

  World world;
  std::unique_ptr<Flow> flow;
};

TEST_F(Strangers, OutcomesOfTheirDeliveriesAreBounded) {
  fail("orders");
  for (std::size_t i = 0; i < kStrangers; ++i) {
    succeed(stranger(i));
    ASSERT_LE(flow->gates.pending(), Gates::kMostPending + 1);
  }
  fail("orders");
  ASSERT_TRUE(world.loop.run_until([&] { return is_open("orders"); }))
      << "no outcome of a listed queue is lost";
}

TEST_F(Strangers, StatesOfTheirGatesAreBounded) {
  // Almost all that the bound allows, opened by other instances.
  constexpr std::size_t kThere = Gates::kMostUnlisted - 10;
  for (std::size_t i = 0; i < kThere; ++i) {
    world.eyes->change_gate(stranger(i), [](GateState& state, EpochMs now) {
      state.breaker.state = Breaker::State::open;
      state.breaker.opened_at = state.breaker.since = state.seen_at = now;
      state.breaker.until = now + Ms{3'600'000};
      return std::vector<SystemEvent>{};
    });
  }
  world.loop.run_for(Ms{1000});  // the gates are read twice a second
  for (std::size_t i = kThere; i < kThere + 200; ++i) {
    fail(stranger(i));
    if (i % 50 == 0) world.loop.run_for(Ms{600});
  }
  world.loop.run_for(Ms{1000});
  const auto states = world.eyes->gate_states();
  EXPECT_GE(states.size(), Gates::kMostUnlisted) << "those within the bound have one";
  EXPECT_LE(states.size(), Gates::kMostUnlisted + 60) << "more only between two reads";
  EXPECT_TRUE(std::ranges::all_of(
      states, [&](const GateState& one) { return flow->gates.state(one.queue) != nullptr; }));
  EXPECT_EQ(flow->counts.totals.breakers.size(), Gates::kMostTotals + 1);
  EXPECT_EQ(flow->counts.totals.breakers.at("(other)").opened,
            static_cast<std::int64_t>(kThere - Gates::kMostTotals));
  EXPECT_FALSE(flow->gates.keeps(stranger(kStrangers)));
  EXPECT_TRUE(flow->gates.keeps("orders"));
  fail("orders");
  fail("orders");
  ASSERT_TRUE(world.loop.run_until([&] { return is_open("orders"); }));
  EXPECT_EQ(flow->counts.totals.breakers.at("orders").opened, 1);
}

// As those of the config do, however many strangers there are.
TEST(Bounds, QueueNames) {
  QueueNames names;
  names.reserve("orders");
  const std::uint32_t orders = names.number("orders"), early = names.number("early");
  for (std::size_t i = 0; i < QueueNames::kMost + kStrangers; ++i) names.number(stranger(i));
  EXPECT_EQ(names.number("late"), QueueNames::kNone) << "it shares no number, and so no gate, with another";
  EXPECT_EQ(names.others(), QueueNames::kMost);
  names.reserve("added");  // by a reload
  names.reserve("early");
  const std::uint32_t added = names.number("added");
  EXPECT_NE(added, QueueNames::kNone);
  EXPECT_EQ(names.name(added), "added");
  EXPECT_EQ(names.number("early"), early);
  const std::uint32_t kept = names.number(stranger(7));
  std::vector<bool> used(names.size());
  used[kept] = true;
  std::size_t freed = 0;
  names.free_unused(used, [&](std::uint32_t number, const std::string& name) {
    EXPECT_EQ(names.name(number), name);
    ++freed;
  });
  EXPECT_EQ(freed, QueueNames::kMost - 2) << "but for early and the one that is used";
  for (const char* name : {"orders", "early", "added"}) EXPECT_NE(names.find(name), QueueNames::kNone);
  EXPECT_EQ(names.number("orders"), orders);
  EXPECT_EQ(names.number(stranger(7)), kept);
  EXPECT_EQ(names.find(stranger(8)), QueueNames::kNone);
  const std::size_t size = names.size();
  EXPECT_NE(names.number("late"), QueueNames::kNone);
  EXPECT_EQ(names.name(names.number("late")), "late");
  EXPECT_EQ(names.size(), size) << "it got a number that was given back";
}

TEST(Bounds, NamesInTheLog) {
  OncePerName told;
  for (std::size_t i = 0; i < kStrangers; ++i) EXPECT_EQ(told.is_news(stranger(i)), i < OncePerName::kMost);
}

}  // namespace
}  // namespace rung::bridge
