// The whole flow, with a broker and a database in memory: behaviour that no component shows alone.
#include "src/bridge/bridge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "src/core/machine/headers.h"
#include "tests/support/memory/memory_broker.h"
#include "tests/support/memory/memory_store.h"
#include "tests/support/virtual_time.h"

namespace rung::bridge {
namespace {

class BridgeTest : public testing::Test {
 protected:
  ~BridgeTest() override {
    db_->fail_next(0);
    if (bridge_) bridge_->stop(Ms{5000});
  }
  void start(Ms lease = Ms{10'000}) {
    BridgeSettings settings;
    settings.identity = {"a", "0", "here", 42};
    settings.lease = lease;
    settings.heartbeat = Ms{500};
    for (const char* queue : {"orders", "stuck", "rung.parked"}) broker_.declare(queue);
    const QueueRules defaults{.ladder = "default", .silence = {}, .publish_parked = true};
    const auto rules =
        std::make_shared<RuleBook>(RuleBook::Ladders{{"default", *levels::Ladder::from_list({Ms{1000}})}},
                                   RuleBook::Queues{}, RuleBook::Tags{}, defaults);
    bridge_ = std::make_unique<Bridge>(
        loop_, broker_,
        [this](StoreJobs::OnStatus on_status) {
          return std::make_unique<test::VirtualJobs>(
              loop_, [this] { return open_memory_store(db_); }, std::move(on_status));
        },
        settings, rules, [] {});
    loop_.after_each([this] {
      while (broker_.pump()) {
      }
    });
    ASSERT_TRUE(bridge_->start());
    ASSERT_TRUE(
        until([&] { return bridge_->vitals().shards == kShards && bridge_->vitals().broker_publishing; }));
  }
  bool until(const std::function<bool()>& condition, Ms most = Ms{10'000}) {
    return loop_.run_until(condition, most);
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
    bridge_->submit(std::move(batch),
                    [&](const Result<std::vector<Submitted>>& answer) { answered = answer.has_value(); });
    ASSERT_TRUE(until([&] { return answered; }));
  }
  // A failed message that its consumer gives up on.
  void fail_for_good(const std::string& queue, std::size_t body) {
    Message message{{}, Table{}, std::string(body, 'b')};
    message.headers->emplace_back(std::string(header::kQueue), queue);
    message.headers->emplace_back(std::string(header::kNever), true);
    ASSERT_TRUE(broker_.put("rung.failed", "", message));
  }

  const std::shared_ptr<test::VirtualClock> clock_ = std::make_shared<test::VirtualClock>();
  const std::shared_ptr<MemoryDb> db_ = std::make_shared<MemoryDb>(clock_, 1);
  MemoryBroker broker_{{}, MemoryBroker::Pace::by_hand, clock_};
  test::VirtualLoop loop_{*clock_};
  std::unique_ptr<Bridge> bridge_;
};

// Nothing knows the original routing key any more: the consumer has to send it.
TEST_F(BridgeTest, SaysOnceForEachQueueThatFailuresComeWithoutTheirOrigin) {
  start();
  const auto fail = [&](const char* queue, Table more) {
    Message message{{}, Table{{"retry-queue", queue}}, "body"};
    message.headers->insert(message.headers->end(), more.begin(), more.end());
    ASSERT_TRUE(broker_.put("rung.failed", queue, message));
  };
  const Table origin{{"retry-origin-exchange", "topics"}, {"retry-origin-routing-key", "order.paid"}};
  const Table direct{{"retry-origin-exchange", ""}, {"retry-origin-routing-key", "orders"}};
  for (int i = 0; i < 3; ++i) fail("orders", {});
  fail("stuck", {});
  fail("named", origin);
  fail("direct", direct);
  ASSERT_TRUE(broker_.put("orders", Message{{}, {}, "rejected"}));
  ASSERT_TRUE(broker_.reject("orders"));
  const auto store = open_memory_store(db_);
  ASSERT_TRUE(until([&] { return store->list({}).size() == 7; }));
  EXPECT_TRUE(until([&] { return bridge_->vitals().without_origin == 4; }));
  std::vector<std::string> queues;
  const auto recorded = [&] {
    queues.clear();
    for (const SystemEvent& event : std::vector<SystemEvent>(store->events(100)))
      if (event.kind == "origin_missing") queues.push_back(event.subject);
    return queues.size() >= 2;
  };
  ASSERT_TRUE(until(recorded));
  std::ranges::sort(queues);
  EXPECT_EQ(queues, (std::vector<std::string>{"orders", "stuck"}));
  for (const TaskRow& row : std::vector<TaskRow>(store->list({}))) {
    if (row.task.queue == "named") {
      EXPECT_EQ(row.task.exchange, "topics");
      EXPECT_EQ(row.task.routing_key, "order.paid");
    }
  }
}

TEST_F(BridgeTest, AKeyOfTokensThatCannotBeUsedIsReadAgainUntilAPersonHasMendedIt) {
  const auto store = open_memory_store(db_);
  store->set_setting("result_token_key", "not hexadecimal");
  start();
  submit("orders", Ms{0});
  loop_.run_for(Ms{20'000});
  EXPECT_FALSE(bridge_->vitals().database);
  EXPECT_EQ(broker_.depth("orders"), 0U);
  store->set_setting("result_token_key", std::string(64, 'a'));
  EXPECT_TRUE(until([&] { return broker_.depth("orders") == 1; }));
}

// A backup is restored beside the running process.
TEST_F(BridgeTest, ADatabaseThatWentBackInTimeIsReportedAndTheFlowGoesOn) {
  start();
  const auto restore = db_->back_up();
  submit("orders", Ms{0});
  ASSERT_TRUE(until([&] { return broker_.depth("orders") == 1; }));
  loop_.run_for(Ms{5000});  // heartbeats that the backup does not have
  restore();
  const auto store = open_memory_store(db_);
  EXPECT_TRUE(until([&] {
    const std::vector<SystemEvent> events = store->events(100);
    return std::ranges::any_of(events, [](const auto& one) { return one.kind == "database_restored"; });
  }));
  const auto problems = bridge_->vitals().problems;
  EXPECT_TRUE(std::ranges::any_of(problems, [](const auto& one) { return one.name == "restored"; }));
  submit("orders", Ms{0});
  EXPECT_TRUE(until([&] { return broker_.depth("orders") == 2; }));
}

// One queue that never answers must not keep the fence closed for all the others.
TEST_F(BridgeTest, APublishWithoutAnAnswerDoesNotOutliveTheLeases) {
  start(Ms{900});
  broker_.hold_confirms();
  submit("stuck", Ms{0});
  ASSERT_TRUE(until([&] { return broker_.depth("stuck") == 1; }));
  db_->fail_next(1'000'000);
  loop_.run_for(Ms{1500});  // the leases run out meanwhile
  db_->fail_next(0);
  submit("orders", Ms{100});
  EXPECT_TRUE(until([&] { return broker_.depth("orders") == 1; }));
}

// Messages that wait for a broker in alarm when the leases expire belong to another instance by then.
TEST_F(BridgeTest, WhatStillWaitsForTheBrokerWhenTheLeasesRunOutDoesNotLeave) {
  start(Ms{900});
  broker_.block();
  submit("orders", Ms{0});
  loop_.run_for(Ms{100});
  broker_.unblock();
  loop_.run_for(Ms{100});
  ASSERT_EQ(broker_.depth("orders"), 1U) << "an alarm alone holds it up, and no more";
  submit("orders", Ms{80});
  loop_.run_for(Ms{40});  // claimed ahead
  broker_.block();
  ASSERT_TRUE(until([&] { return broker_.waiting() == 1; }));
  db_->fail_next(1'000'000);
  loop_.run_for(Ms{2000});
  broker_.unblock();
  loop_.run_for(Ms{100});
  EXPECT_EQ(broker_.depth("orders"), 1U);
  EXPECT_EQ(broker_.published().back().how, PublishResult::How::fenced);
  db_->fail_next(0);
  EXPECT_TRUE(until([&] { return broker_.depth("orders") == 2; })) << "it goes out under the next lease";
}

// Another instance had the shards in between, and they are ours again in the same cycle.
TEST_F(BridgeTest, WhatWaitsUnderALostLeaseDoesNotLeaveUnderTheNextOne) {
  start(Ms{900});
  submit("orders", Ms{80});
  loop_.run_for(Ms{40});  // claimed ahead
  broker_.block();
  ASSERT_TRUE(until([&] { return broker_.waiting() == 1; }));
  std::vector<int> all;
  for (int s = 0; s < kShards; ++s) all.push_back(s);
  ASSERT_EQ(open_memory_store(db_)->acquire(1, 42, all, Ms{900}, 0).size(), all.size());
  loop_.run_for(Ms{400});
  ASSERT_EQ(broker_.published().size(), 1U);
  EXPECT_EQ(broker_.published()[0].how, PublishResult::How::fenced);
  broker_.unblock();
  loop_.run_for(Ms{5000});
  EXPECT_EQ(broker_.depth("orders"), 1U) << "claimed again, and published once";
}

// More bodies are claimed than may be held at once, and the claim returns during a drain, when no fetch
// starts any more.
TEST_F(BridgeTest, ADrainEndsAlthoughItMeetsAClaimOfManyBytes) {
  start();
  submit("orders", Ms{400}, 16, 2'000'000);
  db_->fail_next(1'000'000);
  loop_.run_for(Ms{600});  // the claim is tried again and again
  bool drained = false;
  bridge_->drain([&] { drained = true; });
  db_->fail_next(0);
  EXPECT_TRUE(until([&] { return drained; }));
}

// The first step is found by the poll. What a step takes, and up to 200 ms of that, is made up for.
TEST_F(BridgeTest, ABulkKeepsTheRateThatWasAskedFor) {
  start();
  submit("orders", Ms{3'600'000}, 60);
  const auto store = open_memory_store(db_);
  NewBulk asked;
  asked.action = BulkAction::cancel;
  asked.filter.queue = "orders";
  asked.rate = 10;
  asked.who = "ann";
  const Bulk bulk = store->create_bulk(asked);
  const auto done = [&] { return store->bulk(bulk.id).value().done; };
  ASSERT_TRUE(until([&] { return done() > 0; }));
  EXPECT_FALSE(until([&] { return done() == 60; }, Ms{5500})) << "a rate is the most";
  EXPECT_TRUE(until([&] { return done() == 60; }, Ms{600}));
}

TEST_F(BridgeTest, ParkedCopiesOnTheirWayAreBoundedInBytes) {
  start();
  broker_.hold_confirms();
  for (int i = 0; i < 30; ++i) fail_for_good("orders", 1'000'000);
  ASSERT_TRUE(until([&] { return broker_.depth("rung.parked") >= 16; }));
  loop_.run_for(Ms{2500});
  EXPECT_LE(broker_.depth("rung.parked"), 18U);
  broker_.release_confirms();
  EXPECT_TRUE(until([&] { return broker_.depth("rung.parked") == 30; }));
}

// By a shovel, or in the management UI: to its queue, to another one, to rung.failed.
TEST_F(BridgeTest, AParkedCopyThatIsMovedByHandAndFailsAgainIsNeverAckedAndGone) {
  start();
  broker_.declare("invoices");
  const auto store = open_memory_store(db_);
  const auto rows = [&] { return store->list({}); };
  const auto all_acked = [&] { return broker_.unacked() == 0 && broker_.depth("rung.failed") == 0; };
  fail_for_good("orders", 10);
  ASSERT_TRUE(until([&] { return broker_.depth("rung.parked") == 1; }));
  const TaskId id = rows().at(0).task.id;
  const Message copy = *broker_.take("rung.parked");

  ASSERT_TRUE(broker_.put("orders", copy));
  ASSERT_TRUE(broker_.reject("orders"));
  ASSERT_TRUE(until([&] { return rows().at(0).task.state == State::scheduled; }));
  EXPECT_EQ(rows().at(0).task.level, 1);
  EXPECT_EQ(rows().at(0).task.last_error, "dead-lettered: rejected (queue orders)") << "not the one before";
  EXPECT_EQ(store->history(id).back().attempt.error, rows().at(0).task.last_error);
  EXPECT_EQ(store->audit(id).at(0).reason, kCameBack);
  ASSERT_TRUE(until([&] { return broker_.depth("orders") == 1; })) << "it climbs";
  // Its ack was lost.
  ASSERT_TRUE(broker_.put("rung.failed", "", copy));
  ASSERT_TRUE(until(all_acked));
  EXPECT_EQ(rows().size(), 1U);

  ASSERT_TRUE(broker_.reject("orders"));  // the ladder's end
  ASSERT_TRUE(until([&] { return broker_.depth("rung.parked") == 1; }));
  const Message second = *broker_.take("rung.parked");
  ASSERT_TRUE(broker_.put("invoices", second));
  ASSERT_TRUE(broker_.reject("invoices"));
  ASSERT_TRUE(until([&] { return rows().size() == 2; })) << "of another queue: a task of its own";
  EXPECT_EQ(rows().at(0).task.parent, id);
  EXPECT_EQ(rows().at(0).task.queue, "invoices");
  EXPECT_EQ(store->find(id)->task.state, State::parked);

  ASSERT_TRUE(broker_.put("rung.failed", "", second));  // straight there: it is tried again
  ASSERT_TRUE(until([&] { return store->find(id)->task.state == State::scheduled; }));
  bridge_->change({{id, event::Cancel{}, ByHand{"ann", {}}}}, [](const auto&) {});
  ASSERT_TRUE(until([&] { return store->find(id)->task.state == State::cancelled; }));
  ASSERT_TRUE(broker_.put("orders", copy));  // the first one, much later
  ASSERT_TRUE(broker_.reject("orders"));
  ASSERT_TRUE(until([&] { return rows().size() == 3; })) << "it has ended: a task of its own";
  EXPECT_EQ(rows().at(0).task.parent, id);
  EXPECT_EQ(rows().at(0).task.queue, "orders");
}

// Regression: only queues of tasks counted as blocked, so copies beside one silent queue waited forever.
TEST_F(BridgeTest, AParkedCopyBehindASilentQueueGoesOutByAnotherConnection) {
  start();
  broker_.hold_confirms();
  submit("stuck", Ms{0});
  ASSERT_TRUE(until([&] { return broker_.depth("stuck") == 1; }));
  fail_for_good("orders", 10);
  ASSERT_TRUE(until([&] { return broker_.depth("rung.parked") == 1; }));
  EXPECT_TRUE(until([&] { return broker_.depth("rung.parked") == 2; }, Ms{30'000}))
      << "the connection was given up, and the copy went out again";
}

}  // namespace
}  // namespace rung::bridge
