// What an instance knows of pauses and gates, and what each report of them costs.
#include "src/bridge/flight/gates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>

#include "tests/unit/bridge/flow_fixture.h"

namespace rung::bridge {
namespace {

std::vector<std::string> closed(const Gates& gates) {
  std::vector<std::string> queues;
  gates.each_closed([&](const std::string& queue, const Gates::Closed&) { queues.push_back(queue); });
  return queues;
}

using testing::ElementsAre;
using testing::IsEmpty;

class GatesTest : public testing::Test {
 protected:
  GatesTest() { world.read_clock(flow.clock); }
  ~GatesTest() override { world.db->fail_next(0); }

  World world;
  Flow flow{world};
  test::VirtualJobs& jobs = flow.jobs;
  int changes = 0;
  Gates gates{flow.sidecar, [this](auto&&) { ++changes; }};
};

TEST_F(GatesTest, NothingIsKnownBeforeTheFirstRead) {
  world.pause("orders");
  jobs.by_hand(Lane::gates);
  gates.start();
  world.loop.run_for(Ms{2000});
  EXPECT_FALSE(gates.known());
  ASSERT_TRUE(jobs.run_next(Lane::gates));
  world.loop.run_for(Ms{1});
  EXPECT_TRUE(gates.known());
  EXPECT_THAT(closed(gates), ElementsAre("orders"));
  EXPECT_EQ(changes, 1) << "known and closed are told at once: in between, it would look open";
}

// Until the database's clock is read, "now" is the time since the machine's start: on a machine that is up
// for 16 minutes it would be 00:16.
TEST_F(GatesTest, AWindowIsJudgedByTheDatabasesClockAlone) {
  QueueRules gated = world.rules->queue("orders");
  gated.gate.window = std::make_shared<const TimeWindow>(*TimeWindow::parse({"00:00-01:00"}, "UTC"));
  world.rules = book_of({Ms{1000}}, {{"orders", gated}}, world.rules->queue("invoices"));
  Flow unread(world);
  Gates judged(unread.sidecar, [](auto&&) {});
  judged.start();
  world.loop.run_for(Ms{2000});
  EXPECT_FALSE(judged.known());
  world.read_clock(unread.clock);
  judged.clock_measured();
  EXPECT_TRUE(judged.known());
  ASSERT_NE(judged.why_closed("orders"), nullptr) << "it is 08:16";
  EXPECT_EQ(judged.why_closed("orders")->by, GateKind::window);
  judged.stop();
}

TEST_F(GatesTest, APauseAndItsEndAreKnownWithinASecond) {
  gates.start();
  world.loop.run_for(Ms{100});
  EXPECT_THAT(closed(gates), IsEmpty());
  world.pause("orders");
  world.pause("invoices");
  world.loop.run_for(Ms{510});
  EXPECT_THAT(closed(gates), ElementsAre("invoices", "orders"));
  world.resume("orders");
  world.loop.run_for(Ms{510});
  EXPECT_THAT(closed(gates), ElementsAre("invoices"));
  EXPECT_EQ(changes, 3);
  world.loop.run_for(kAMinute);
  EXPECT_EQ(changes, 3);
}

TEST_F(GatesTest, APauseEndsInItsMsAndNotBefore) {
  gates.start();
  const EpochMs until = world.now() + Ms{10'123};
  world.pause("orders", until);
  world.run_until(until - Ms{1});
  EXPECT_THAT(closed(gates), ElementsAre("orders"));
  world.run_until(until);
  EXPECT_THAT(closed(gates), IsEmpty());
}

TEST_F(GatesTest, WithoutTheDatabaseTheLastPausesApplyAndEndByItsClock) {
  gates.start();
  const EpochMs until = world.now() + kAMinute;
  world.pause("orders", until);
  world.pause("invoices");
  world.loop.run_for(Ms{1000});
  world.db->fail_next(1'000'000);
  world.run_until(until - Ms{1});
  EXPECT_TRUE(gates.known());
  EXPECT_THAT(closed(gates), ElementsAre("invoices", "orders"));
  world.run_until(until);
  EXPECT_THAT(closed(gates), ElementsAre("invoices"));
}

TEST_F(GatesTest, AResumedQueueIsOpenEvenIfOurClockIsBehind) {
  gates.start();
  world.pause("orders");
  world.loop.run_for(Ms{1000});
  world.read_clock(flow.clock, Ms{5000});
  world.resume("orders");
  world.loop.run_for(Ms{501});
  EXPECT_THAT(closed(gates), IsEmpty());
}

TEST_F(GatesTest, AfterInvalidateOnlyALaterReadCounts) {
  gates.start();
  world.loop.run_for(Ms{100});
  jobs.by_hand(Lane::gates);
  world.loop.run_for(Ms{500});  // one is on its way
  gates.invalidate();
  EXPECT_FALSE(gates.known());
  ASSERT_TRUE(jobs.run_next(Lane::gates));
  world.loop.run_for(Ms{1});
  EXPECT_FALSE(gates.known());
  world.pause("orders");
  ASSERT_TRUE(jobs.run_next(Lane::gates));
  world.loop.run_for(Ms{1});
  EXPECT_TRUE(gates.known());
  EXPECT_THAT(closed(gates), ElementsAre("orders"));
}

TEST_F(GatesTest, WhereTheyCannotBeReadAfterTheStartOrLostLeasesItIsAProblem) {
  jobs.by_hand(Lane::gates);
  gates.start();
  world.loop.run_for(Ms{4000});
  EXPECT_FALSE(flow.health.has("gates"));
  world.loop.run_for(Ms{2000});
  EXPECT_TRUE(flow.health.has("gates"));
  EXPECT_TRUE(flow.health.problems().at(0).not_ready);
  jobs.by_itself(Lane::gates);
  world.loop.run_for(Ms{1000});
  EXPECT_TRUE(gates.known());
  EXPECT_FALSE(flow.health.has("gates"));
  jobs.by_hand(Lane::gates);
  gates.invalidate();
  gates.invalidate();
  world.loop.run_for(Ms{4000});
  EXPECT_FALSE(flow.health.has("gates"));
  world.loop.run_for(Ms{2000});
  EXPECT_TRUE(flow.health.has("gates"));
  jobs.by_itself(Lane::gates);
  world.loop.run_for(Ms{1000});
  EXPECT_FALSE(flow.health.has("gates"));
}

// A backup was restored.
TEST_F(GatesTest, APauseWhoseRowIsGoneEndsWithTheNextFullRead) {
  const auto restore = world.db->back_up();
  gates.start();
  world.pause("orders");
  world.loop.run_for(Ms{1000});
  EXPECT_THAT(closed(gates), ElementsAre("orders"));
  restore();
  world.loop.run_for(Ms{31'000});
  EXPECT_THAT(closed(gates), IsEmpty());
}

TEST_F(GatesTest, KnowsForHowLongATaskHasWaited) {
  gates.start();
  const EpochMs due = world.now();
  EXPECT_FALSE(gates.was_closed("orders", due));
  world.loop.run_for(kAMinute);
  world.pause("orders");
  world.loop.run_for(kAMinute);
  world.read_clock(flow.clock);
  world.resume("orders");
  world.loop.run_for(kAMinute);
  world.pause("orders");
  world.loop.run_for(kAMinute);
  world.resume("orders");
  world.loop.run_for(kAMinute);
  world.read_clock(flow.clock);
  EXPECT_EQ(gates.closed_since("orders", due), 2 * kAMinute) << "both pauses, and not the time between them";
  EXPECT_TRUE(gates.was_closed("orders", due));
  EXPECT_EQ(gates.closed_since("orders", due + Ms{210'000}), Ms{30'000});
  EXPECT_FALSE(gates.was_closed("orders", world.now() - Ms{1000}));
  EXPECT_EQ(gates.closed_since("invoices", due), Ms{0});

  Gates after_a_restart(flow.sidecar, [](auto&&) {});
  after_a_restart.start();
  world.loop.run_for(Ms{100});
  EXPECT_EQ(after_a_restart.closed_since("orders", due), kAMinute) << "the latest pause";
}

// --- the cost of what arrives

// Microseconds of the loop for one report of one queue, with so many queues that have a breaker.
double report_us(int queues) {
  QueueRules rules{.ladder = "default", .silence = {}, .catch_up = 1000};
  rules.gate.breaker = BreakerRules{};
  RuleBook::Queues listed;
  const auto name = [](int i) { return "queue-" + std::to_string(i); };
  for (int i = 0; i < queues; ++i) listed[name(i)] = rules;
  World world;
  world.rules = book_of({Ms{1000}}, listed, rules);
  Flow flow(world);
  flow.take_shards();
  flow.gates.start();
  world.loop.run_for(Ms{100});
  GateState state;
  const auto report = [&](int i) {
    state.queue = name(i % queues);
    state.seen_at = world.now();
    state.breaker.outcomes = i % 2 == 0 ? "..x" : ".x.";
    state.breaker.last_probe = i;  // it differs from the one before
    flow.gates.arrived({state});
  };
  for (int i = 0; i < queues; ++i) report(i);
  constexpr int kReports = 2000;
  const std::clock_t begun = std::clock();  // of the processor: a busy machine changes nothing
  for (int i = 0; i < kReports; ++i) report(queues + i);
  return static_cast<double>(std::clock() - begun) * 1e6 / CLOCKS_PER_SEC / kReports;
}

TEST(GatesCost, OfAReportIsTheSameHoweverManyQueuesThereAre) {
  const double few = report_us(100), more = report_us(1000), many = report_us(10'000);
  std::printf("a report costs the loop %.1f us with 100 queues, %.1f us with 1,000, %.1f us with 10,000\n",
              few, more, many);
  EXPECT_LT(many, few * 20 + 50) << "not a hundred times as much";
}

}  // namespace
}  // namespace rung::bridge
