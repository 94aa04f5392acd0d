// Permits to publish, which instances ask for: rates and limits in flight hold over all of them.
#include "tests/contract/store/world.h"

namespace rung::test {
namespace {

class PermitContract : public StoreContract {
 protected:
  static GateRules in_flight(int most) {
    GateRules rules;
    rules.in_flight = most;
    return rules;
  }
  static GateRules rate(double per_second) {
    GateRules rules;
    rules.rate = per_second;
    return rules;
  }
  static NewPermits request(const std::string& queue, const GateRules& rules, PermitCounts wanted, int node,
                            int unused = 0) {
    return {queue, rules, {std::move(wanted), "", {}}, rules.rate, node, unused};
  }
  int granted(Store& store, const NewPermits& wanted) {
    int sum = 0;
    for (const auto& [value, count] : must(store.permits(wanted))) sum += count;
    return sum;
  }
  int granted(const NewPermits& wanted) { return granted(*store_, wanted); }
  TaskId claimed(const Fence& fence, const std::string& queue) {
    const TaskId id = due_task(*store_, fence, queue);
    EXPECT_EQ(apply_one(*store_, fence, id, event::Claim{}).verdict, Decision::Verdict::applied);
    return id;
  }
  std::map<int, GateState::Unused> unused(const std::string& queue) {
    for (const GateState& one : must(store_->gate_states())) {
      if (one.queue == queue) return one.unused;
    }
    return {};
  }
};

TEST_P(PermitContract, ARateHoldsOverAllHandles) {
  auto other = open();
  // A burst of one and 200 ms of the rate.
  EXPECT_EQ(granted(request("orders", rate(5), {{"", 10}}, 1)), 2);
  const EpochMs empty = must(store_->now());
  int more = granted(*other, request("orders", rate(5), {{"", 10}}, 2));
  EXPECT_EQ(granted(request("orders ", rate(5), {{"", 10}}, 1)), 2) << "a blank makes it another queue";
  while (more < 3) more += granted(*other, request("orders", rate(5), {{"", 10}}, 2));
  EXPECT_GE(must(store_->now()) - empty, Ms{500}) << "3 at 5/s take 600 ms, some of them before we looked";
}

TEST_P(PermitContract, EachValueOfAHeaderHasItsRate) {
  GateRules rules;
  rules.rate_by = RateBy{"tenant", 0.001};
  const std::string odd = "\u00fc \U0001F600 'quoted' \\ \"\"";
  const PermitCounts wanted{{"", 7}, {"a", 3}, {"a ", 3}, {"A", 3}, {odd, 3}};
  const PermitCounts expected{{"", 7}, {"a", 1}, {"a ", 1}, {"A", 1}, {odd, 1}};
  EXPECT_EQ(must(store_->permits(request("orders", rules, wanted, 1))), expected);
  auto other = open();
  EXPECT_EQ(must(other->permits(request("orders", rules, wanted, 2))), (PermitCounts{{"", 7}}));
  EXPECT_EQ(must(other->permits(request("orders", rules, {{"b", 2}}, 2))), (PermitCounts{{"b", 1}}));
  EXPECT_EQ(must(other->permits(request("a", rules, wanted, 2))), expected) << "of that queue";
}

TEST_P(PermitContract, ValuesOfAsManyBytesAsATaskKeepsHaveTheirRate) {
  GateRules rules;
  rules.rate_by = RateBy{"tenant", 0.001};
  const std::string first = std::string(254, 'v') + "1", second = std::string(254, 'v') + "2";
  for (const std::string& value : {first, second})
    EXPECT_EQ(granted(request("orders", rules, {{value, 2}}, 1)), 1);
  EXPECT_EQ(granted(request("orders", rules, {{first, 2}}, 1)), 0);
}

TEST_P(PermitContract, WhatIsInFlightCountsForItsQueueOnly) {
  const Fence fence = join(*store_, "a");
  claimed(fence, "orders");
  const TaskId awaiting = claimed(fence, "orders");
  apply_one(*store_, fence, awaiting, event::Confirmed{1, must(store_->now())});
  const TaskId answered = claimed(fence, "orders");
  apply_one(*store_, fence, answered, event::Confirmed{1, must(store_->now())});
  apply_one(*store_, fence, answered, event::Succeeded{1});
  due_task(*store_, fence, "orders");
  for (const char* other : {"orders ", "Orders", "invoices"}) claimed(fence, other);
  ASSERT_EQ(get(*store_, awaiting).state, State::awaiting);
  ASSERT_EQ(get(*store_, answered).state, State::succeeded);
  EXPECT_EQ(granted(request("orders", in_flight(5), {{"", 10}}, 1)), 3);
  EXPECT_EQ(granted(request("orders ", in_flight(5), {{"", 10}}, 1)), 4);
  EXPECT_EQ(granted(request("empty", in_flight(5), {{"", 10}}, 1)), 5);
}

TEST_P(PermitContract, PermitsThatAreNotUsedYetCount) {
  auto other = open();
  EXPECT_EQ(granted(request("orders", in_flight(5), {{"", 3}}, 1)), 3);
  EXPECT_EQ(unused("orders").at(1).permits, 3);
  EXPECT_EQ(granted(*other, request("orders", in_flight(5), {{"", 3}}, 2)), 2);
  EXPECT_EQ(granted(request("orders", in_flight(5), {{"", 3}}, 1, 3)), 0);
  // Two of them have been used, and answered.
  EXPECT_EQ(granted(request("orders", in_flight(5), {{"", 3}}, 1, 1)), 2);
  EXPECT_EQ(unused("orders").at(1).permits, 3);
  // This one says that it has none.
  EXPECT_EQ(granted(*other, request("orders", in_flight(5), {}, 2)), 0);
  EXPECT_FALSE(unused("orders").contains(2));
}

TEST_P(PermitContract, PermitsOfAnInstanceThatHasDiedExpire) {
  EXPECT_EQ(granted(request("orders", in_flight(5), {{"", 5}}, 1)), 5);
  const auto aged = [&](Ms age) {
    must(store_->change_gate("orders", [&](GateState& state, EpochMs now) {
      state.unused.at(1).at = now - age;
      return std::vector<SystemEvent>{};
    }));
  };
  aged(Ms{8000});
  EXPECT_EQ(granted(request("orders", in_flight(5), {{"", 5}}, 2)), 0);
  aged(Ms{10'001});
  EXPECT_EQ(granted(request("orders", in_flight(5), {{"", 5}}, 2)), 5);
  EXPECT_FALSE(unused("orders").contains(1));
}

TEST_P(PermitContract, AskingKeepsWhatElseIsKnownOfTheQueue) {
  must(store_->change_gate("orders", [](GateState& state, EpochMs now) {
    state.limited = {now, now + Ms{60'000}, "rate 5/s"};
    state.breaker.outcomes = "..x";
    return std::vector<SystemEvent>{};
  }));
  const GateState before = must(store_->gate_states()).at(0);
  granted(request("orders", in_flight(5), {{"", 1}}, 1));
  GateState after = must(store_->gate_states()).at(0);
  EXPECT_EQ(after.unused.size(), 1U);
  after.unused.clear();
  EXPECT_EQ(after, before);
}

TEST_P(PermitContract, AfterABreakerHasClosedTheFlowGrowsAgain) {
  must(store_->change_gate("orders", [](GateState& state, EpochMs now) {
    state.breaker.since = now;
    return std::vector<SystemEvent>{};
  }));
  // 10 % of 1000/s, with a burst of one and 200 ms of that.
  const int first = granted(request("orders", rate(1000), {{"", 500}}, 1));
  EXPECT_GE(first, 21);
  EXPECT_LE(first, 100);
}

TEST_P(PermitContract, ConcurrentRequestsDoNotExceedTheLimit) {
  std::atomic<int> sum = 0;
  std::vector<std::thread> threads;
  for (int node = 1; node <= 4; ++node) {
    threads.emplace_back([&, node] {
      try {
        const auto mine = open();
        int held = 0;
        for (int i = 0; i < 10; ++i) {
          const int more = granted(*mine, request("orders", in_flight(17), {{"", 2}}, node, held));
          held += more;
          sum += more;
        }
      } catch (const std::exception& e) {
        ADD_FAILURE() << e.what();
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(sum, 17);
}

TEST_P(PermitContract, TheValuesOfAHeaderAreFound) {
  NewTask with = task(), odd = task(), without = task();
  with.task.rule_headers = {{"tenant", "a"}, {"tier", "gold"}};
  odd.task.rule_headers = {{"tenant", " \u00fc \U0001F600 \"'\\ "}};
  for (const NewTask& n : {with, odd, without}) must(store_->insert(std::span(&n, 1), Fence{0, {}, true}));
  const TaskId gone{4711};
  const std::vector<TaskId> ids{with.task.id, odd.task.id, without.task.id, gone};
  const std::map<TaskId, std::string> expected{
      {with.task.id, "a"}, {odd.task.id, " \u00fc \U0001F600 \"'\\ "}, {without.task.id, ""}};
  EXPECT_EQ(must(store_->header_values(ids, "tenant")), expected);
  EXPECT_EQ(must(store_->header_values(ids, "tier")).at(with.task.id), "gold");
  EXPECT_TRUE(must(store_->header_values({}, "tenant")).empty());
}

TEST_P(PermitContract, UnusedBucketsAreDeleted) {
  GateRules rules;
  rules.rate_by = RateBy{"tenant", 0.001};
  const NewPermits wanted = request("orders", rules, {{"a", 1}}, 1);
  EXPECT_EQ(granted(wanted), 1);
  const EpochMs now = must(store_->now());
  must(store_->forget_rates(now - Ms{60'000}));
  EXPECT_EQ(granted(wanted), 0);
  must(store_->forget_rates(now + Ms{60'000}));
  EXPECT_EQ(granted(wanted), 1);
}

INSTANTIATE_TEST_SUITE_P(Stores, PermitContract, testing::Values("memory", "mysql"),
                         [](const auto& kind) { return kind.param; });

}  // namespace
}  // namespace rung::test
