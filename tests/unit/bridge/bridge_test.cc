// The whole flow, with a broker and a database in memory: behaviour that no component shows alone.
#include "src/bridge/bridge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "src/core/machine/headers.h"
#include "tests/unit/bridge/flow_fixture.h"

namespace rung::bridge {
namespace {

class BridgeTest : public testing::Test {
 protected:
  void start(Ms lease = Ms{10'000}) {
    for (const char* queue : {"orders", "stuck", "rung.parked"}) broker.declare(queue);
    const QueueRules defaults{.ladder = "default", .silence = {}, .publish_parked = true};
    whole = std::make_unique<Whole>(world, broker, book_of({Ms{1000}}, {}, defaults),
                                    Whole::Options{.lease = lease});
    ASSERT_TRUE(bridge().start());
    ASSERT_TRUE(
        until([&] { return bridge().vitals().shards == kShards && bridge().vitals().broker_publishing; }));
  }
  Bridge& bridge() { return *whole->bridge; }
  bool until(const std::function<bool()>& condition, Ms most = Ms{10'000}) {
    return world.loop.run_until(condition, most);
  }
  void submit(const std::string& queue, Ms delay, int count = 1, std::size_t body = 10) {
    std::vector<Submission> batch;
    const auto message = std::make_shared<Message>(Message{{}, {}, std::string(body, 'b')});
    for (int i = 0; i < count; ++i) {
      Submission one;
      one.task.message = message;
      one.task.task.queue = queue;
      one.task.task.body_bytes = static_cast<std::int64_t>(body);
      one.delay = delay;
      batch.push_back(std::move(one));
    }
    bool answered = false;
    bridge().submit(std::move(batch),
                    [&](const Result<std::vector<Submitted>>& answer) { answered = answer.has_value(); });
    ASSERT_TRUE(until([&] { return answered; }));
  }
  // A failed message that its consumer gives up on.
  void fail_for_good(const std::string& queue, std::size_t body) {
    Message message{{}, Table{}, std::string(body, 'b')};
    message.headers->emplace_back(std::string(header::kQueue), queue);
    message.headers->emplace_back(std::string(header::kNever), true);
    ASSERT_TRUE(broker.put("rung.failed", "", message));
  }

  World world;
  MemoryBroker broker{{}, MemoryBroker::Pace::by_hand, world.clock};
  std::unique_ptr<Whole> whole;
};

// Nothing knows the original routing key any more: the consumer has to send it.
TEST_F(BridgeTest, SaysOnceForEachQueueThatFailuresComeWithoutTheirOrigin) {
  start();
  const auto fail = [&](const char* queue, Table more) {
    Message message{{}, Table{{"retry-queue", queue}}, "body"};
    message.headers->insert(message.headers->end(), more.begin(), more.end());
    ASSERT_TRUE(broker.put("rung.failed", queue, message));
  };
  const Table origin{{"retry-origin-exchange", "topics"}, {"retry-origin-routing-key", "order.paid"}};
  const Table direct{{"retry-origin-exchange", ""}, {"retry-origin-routing-key", "orders"}};
  for (int i = 0; i < 3; ++i) fail("orders", {});
  fail("stuck", {});
  fail("named", origin);
  fail("direct", direct);
  ASSERT_TRUE(broker.put("orders", Message{{}, {}, "rejected"}));
  ASSERT_TRUE(broker.reject("orders"));
  ASSERT_TRUE(until([&] { return world.rows().size() == 7; }));
  EXPECT_TRUE(until([&] { return bridge().vitals().without_origin == 4; }));
  std::vector<std::string> queues;
  const auto recorded = [&] {
    queues.clear();
    for (const SystemEvent& event : world.eyes->events(100))
      if (event.kind == "origin_missing") queues.push_back(event.subject);
    return queues.size() >= 2;
  };
  ASSERT_TRUE(until(recorded));
  std::ranges::sort(queues);
  EXPECT_EQ(queues, (std::vector<std::string>{"orders", "stuck"}));
  for (const TaskRow& row : world.rows()) {
    if (row.task.queue == "named") {
      EXPECT_EQ(row.task.exchange, "topics");
      EXPECT_EQ(row.task.routing_key, "order.paid");
    }
  }
}

TEST_F(BridgeTest, AKeyOfTokensThatCannotBeUsedIsReadAgainUntilAPersonHasMendedIt) {
  world.eyes->set_setting("result_token_key", "not hexadecimal");
  start();
  submit("orders", Ms{0});
  world.loop.run_for(Ms{20'000});
  EXPECT_FALSE(bridge().vitals().database);
  EXPECT_EQ(broker.depth("orders"), 0U);
  world.eyes->set_setting("result_token_key", std::string(64, 'a'));
  EXPECT_TRUE(until([&] { return broker.depth("orders") == 1; }));
}

// A backup is restored beside the running process.
TEST_F(BridgeTest, ADatabaseThatWentBackInTimeIsReportedAndTheFlowGoesOn) {
  start();
  const auto restore = world.db->back_up();
  submit("orders", Ms{0});
  ASSERT_TRUE(until([&] { return broker.depth("orders") == 1; }));
  world.loop.run_for(Ms{5000});  // heartbeats that the backup does not have
  restore();
  EXPECT_TRUE(until([&] {
    const std::vector<SystemEvent> events = world.eyes->events(100);
    return std::ranges::any_of(events, [](const auto& one) { return one.kind == "database_restored"; });
  }));
  EXPECT_TRUE(whole->problem("restored"));
  submit("orders", Ms{0});
  EXPECT_TRUE(until([&] { return broker.depth("orders") == 2; }));
}

// One queue that never answers must not keep the fence closed for all the others.
TEST_F(BridgeTest, APublishWithoutAnAnswerDoesNotOutliveTheLeases) {
  start(Ms{900});
  broker.hold_confirms();
  submit("stuck", Ms{0});
  ASSERT_TRUE(until([&] { return broker.depth("stuck") == 1; }));
  world.db->fail_next(1'000'000);
  world.loop.run_for(Ms{1500});  // the leases run out meanwhile
  world.db->fail_next(0);
  submit("orders", Ms{100});
  EXPECT_TRUE(until([&] { return broker.depth("orders") == 1; }));
}

// Messages that wait for a broker in alarm when the leases expire belong to another instance by then.
TEST_F(BridgeTest, WhatStillWaitsForTheBrokerWhenTheLeasesRunOutDoesNotLeave) {
  start(Ms{900});
  broker.block();
  submit("orders", Ms{0});
  world.loop.run_for(Ms{100});
  broker.unblock();
  world.loop.run_for(Ms{100});
  ASSERT_EQ(broker.depth("orders"), 1U) << "an alarm alone holds it up, and no more";
  submit("orders", Ms{80});
  world.loop.run_for(Ms{40});  // claimed ahead
  broker.block();
  ASSERT_TRUE(until([&] { return broker.waiting() == 1; }));
  world.db->fail_next(1'000'000);
  world.loop.run_for(Ms{2000});
  broker.unblock();
  world.loop.run_for(Ms{100});
  EXPECT_EQ(broker.depth("orders"), 1U);
  EXPECT_EQ(broker.published().back().how, PublishResult::How::fenced);
  world.db->fail_next(0);
  EXPECT_TRUE(until([&] { return broker.depth("orders") == 2; })) << "it goes out under the next lease";
}

// Another instance had the shards in between, and they are ours again in the same cycle.
TEST_F(BridgeTest, WhatWaitsUnderALostLeaseDoesNotLeaveUnderTheNextOne) {
  start(Ms{900});
  submit("orders", Ms{80});
  world.loop.run_for(Ms{40});  // claimed ahead
  broker.block();
  ASSERT_TRUE(until([&] { return broker.waiting() == 1; }));
  std::vector<int> all;
  for (int s = 0; s < kShards; ++s) all.push_back(s);
  ASSERT_EQ(world.eyes->acquire(1, 42, all, Ms{900}, 0).size(), all.size());
  world.loop.run_for(Ms{400});
  ASSERT_EQ(broker.published().size(), 1U);
  EXPECT_EQ(broker.published()[0].how, PublishResult::How::fenced);
  broker.unblock();
  world.loop.run_for(Ms{5000});
  EXPECT_EQ(broker.depth("orders"), 1U) << "claimed again, and published once";
}

// More bodies are claimed than may be held at once, and the claim returns during a drain, when no fetch
// starts any more.
TEST_F(BridgeTest, ADrainEndsAlthoughItMeetsAClaimOfManyBytes) {
  start();
  submit("orders", Ms{400}, 16, 2'000'000);
  world.db->fail_next(1'000'000);
  world.loop.run_for(Ms{600});  // the claim is tried again and again
  bool drained = false;
  bridge().drain([&] { drained = true; });
  world.db->fail_next(0);
  EXPECT_TRUE(until([&] { return drained; }));
}

// The first step is found by the poll. What a step takes, and up to 200 ms of that, is made up for.
TEST_F(BridgeTest, ABulkKeepsTheRateThatWasAskedFor) {
  start();
  submit("orders", Ms{3'600'000}, 60);
  NewBulk asked;
  asked.action = BulkAction::cancel;
  asked.filter.queue = "orders";
  asked.rate = 10;
  asked.who = "ann";
  const Bulk bulk = world.eyes->create_bulk(asked);
  const auto done = [&] { return world.eyes->bulk(bulk.id).value().done; };
  ASSERT_TRUE(until([&] { return done() > 0; }));
  EXPECT_FALSE(until([&] { return done() == 60; }, Ms{5500})) << "a rate is the most";
  EXPECT_TRUE(until([&] { return done() == 60; }, Ms{600}));
}

TEST_F(BridgeTest, ParkedCopiesOnTheirWayAreBoundedInBytes) {
  start();
  broker.hold_confirms();
  for (int i = 0; i < 30; ++i) fail_for_good("orders", 1'000'000);
  ASSERT_TRUE(until([&] { return broker.depth("rung.parked") >= 16; }));
  world.loop.run_for(Ms{2500});
  EXPECT_LE(broker.depth("rung.parked"), 18U);
  broker.release_confirms();
  EXPECT_TRUE(until([&] { return broker.depth("rung.parked") == 30; }));
}

// By a shovel, or in the management UI: to its queue, to another one, to rung.failed.
TEST_F(BridgeTest, AParkedCopyThatIsMovedByHandAndFailsAgainIsNeverAckedAndGone) {
  start();
  broker.declare("invoices");
  const auto all_acked = [&] { return broker.unacked() == 0 && broker.depth("rung.failed") == 0; };
  fail_for_good("orders", 10);
  ASSERT_TRUE(until([&] { return broker.depth("rung.parked") == 1; }));
  const TaskId id = world.rows().at(0).task.id;
  const Message copy = *broker.take("rung.parked");

  ASSERT_TRUE(broker.put("orders", copy));
  ASSERT_TRUE(broker.reject("orders"));
  ASSERT_TRUE(until([&] { return world.rows().at(0).task.state == State::scheduled; }));
  EXPECT_EQ(world.rows().at(0).task.level, 1);
  EXPECT_EQ(world.rows().at(0).task.last_error, "dead-lettered: rejected (queue orders)")
      << "not the one before";
  EXPECT_EQ(world.eyes->history(id).back().attempt.error, world.rows().at(0).task.last_error);
  EXPECT_EQ(world.eyes->audit(id).at(0).reason, kCameBack);
  ASSERT_TRUE(until([&] { return broker.depth("orders") == 1; })) << "it climbs";
  // Its ack was lost.
  ASSERT_TRUE(broker.put("rung.failed", "", copy));
  ASSERT_TRUE(until(all_acked));
  EXPECT_EQ(world.rows().size(), 1U);

  ASSERT_TRUE(broker.reject("orders"));  // the ladder's end
  ASSERT_TRUE(until([&] { return broker.depth("rung.parked") == 1; }));
  const Message second = *broker.take("rung.parked");
  ASSERT_TRUE(broker.put("invoices", second));
  ASSERT_TRUE(broker.reject("invoices"));
  ASSERT_TRUE(until([&] { return world.rows().size() == 2; })) << "of another queue: a task of its own";
  EXPECT_EQ(world.rows().at(0).task.parent, id);
  EXPECT_EQ(world.rows().at(0).task.queue, "invoices");
  EXPECT_EQ(world.eyes->find(id)->task.state, State::parked);

  ASSERT_TRUE(broker.put("rung.failed", "", second));  // straight there: it is tried again
  ASSERT_TRUE(until([&] { return world.eyes->find(id)->task.state == State::scheduled; }));
  bridge().change({{id, event::Cancel{}, ByHand{"ann", {}}}}, [](const auto&) {});
  ASSERT_TRUE(until([&] { return world.eyes->find(id)->task.state == State::cancelled; }));
  ASSERT_TRUE(broker.put("orders", copy));  // the first one, much later
  ASSERT_TRUE(broker.reject("orders"));
  ASSERT_TRUE(until([&] { return world.rows().size() == 3; })) << "it has ended: a task of its own";
  EXPECT_EQ(world.rows().at(0).task.parent, id);
  EXPECT_EQ(world.rows().at(0).task.queue, "orders");
}

// Regression: only queues of tasks counted as blocked, so copies beside one silent queue waited forever.
TEST_F(BridgeTest, AParkedCopyBehindASilentQueueGoesOutByAnotherConnection) {
  start();
  broker.hold_confirms();
  submit("stuck", Ms{0});
  ASSERT_TRUE(until([&] { return broker.depth("stuck") == 1; }));
  fail_for_good("orders", 10);
  ASSERT_TRUE(until([&] { return broker.depth("rung.parked") == 1; }));
  EXPECT_TRUE(until([&] { return broker.depth("rung.parked") == 2; }, Ms{30'000}))
      << "the connection was given up, and the copy went out again";
}

}  // namespace
}  // namespace rung::bridge
