// What every Broker must do: the same suite over memory and RabbitMQ.
#include "tests/contract/broker/fixture.h"

namespace rung::test {
namespace {

TEST_P(BrokerContract, PublishesToAQueueAndConfirms) {
  world_->declare(queue_);
  start();
  const Message message = full_message();
  world_->broker().publish({outgoing(7, message)});
  EXPECT_EQ(how(7), How::confirmed);
  const std::optional<Message> taken = world_->take(queue_);
  ASSERT_TRUE(taken);
  EXPECT_TRUE(canonical(*taken) == canonical(message));
}

TEST_P(BrokerContract, TellsWhatHasNoQueueFromWhatHas) {
  world_->declare(queue_);
  start();
  std::vector<Outgoing> batch;
  for (std::uint64_t i = 1; i <= 300; ++i) {
    batch.push_back(outgoing(i, text("same"), i % 3 == 0 ? "nowhere-" + queue_ : queue_));
  }
  world_->broker().publish(std::move(batch));
  ASSERT_TRUE(sink_.published(300));
  for (std::uint64_t i = 1; i <= 300; ++i)
    EXPECT_EQ(how(i), i % 3 == 0 ? How::returned : How::confirmed) << i;
  EXPECT_THAT(sink_.result(3)->reason, testing::HasSubstr("nowhere-" + queue_));
  EXPECT_TRUE(eventually([&] { return world_->depth(queue_) == 200; }));
}

TEST_P(BrokerContract, DeliversWhatFailedToTheByte) {
  start();
  const Message message = full_message();
  ASSERT_TRUE(world_->put(world_->prefix() + ".failed", "some.key", message));
  ASSERT_TRUE(world_->put(world_->prefix() + ".results", "", text("word")));
  std::vector<Delivery> got = sink_.deliveries(2);
  ASSERT_EQ(got.size(), 2U);
  if (got[0].inlet != Inlet::failed) std::swap(got[0], got[1]);
  EXPECT_TRUE(canonical(got[0].message) == canonical(message));
  EXPECT_EQ(got[0].exchange, world_->prefix() + ".failed");
  EXPECT_EQ(got[0].routing_key, "some.key");
  EXPECT_FALSE(got[0].redelivered);
  EXPECT_EQ(got[1].inlet, Inlet::results);
  EXPECT_EQ(got[1].message, text("word"));
}

TEST_P(BrokerContract, ARejectedMessageComesWithTheFactsOfItsFailure) {
  world_->declare(queue_);
  start();
  Message message = text("failed");
  message.headers = Table{{"app", 1}};
  world_->broker().publish({outgoing(1, message)});
  ASSERT_EQ(how(1), How::confirmed);
  ASSERT_TRUE(world_->reject(queue_));
  const auto got = sink_.deliveries(1);
  ASSERT_EQ(got.size(), 1U);
  const FailureFacts& failure = got[0].facts.failure;
  EXPECT_EQ(failure.reason, "rejected");
  EXPECT_EQ(failure.queue, queue_);
  EXPECT_NE(failure.queue_by, "");
  EXPECT_EQ(failure.exchange, "");
  EXPECT_EQ(failure.routing_key, queue_);
  EXPECT_EQ(failure.count, 1);
  EXPECT_TRUE(failure.failed_at_s);
  EXPECT_EQ(got[0].message.headers, message.headers) << "the broker's own headers are off";
}

TEST_P(BrokerContract, NothingIsKnownOfAFailureThatAConsumerPublishes) {
  start();
  ASSERT_TRUE(world_->put(world_->prefix() + ".failed", "", text("failed")));
  const auto got = sink_.deliveries(1);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].facts.failure.queue, "");
  EXPECT_NE(got[0].facts.failure.record, "");
  EXPECT_EQ(got[0].facts.failure.count, 0);
  EXPECT_EQ(got[0].facts.headers, Table{});
}

TEST_P(BrokerContract, ToOneQueueUnderAnotherRoutingKey) {
  world_->declare(queue_);
  start();
  const auto to_queue = [](std::uint64_t token, std::string queue, std::string key) {
    return Outgoing{token, "", std::move(key), text("back"), PublishLane::main, std::move(queue)};
  };
  world_->broker().publish({to_queue(1, queue_, "order.paid")});
  EXPECT_EQ(how(1), How::confirmed);
  const auto back = world_->take(queue_);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->headers.value_or(Table{}), Table{}) << "whatever took it there is off";
  world_->broker().publish({to_queue(2, "nowhere-" + queue_, "order.paid")});
  EXPECT_EQ(how(2), How::returned);
  // The queue gets it, whether or not the broker can keep the routing key.
  const std::string long_name = queue_ + std::string(255 - queue_.size(), 'q');
  world_->declare(long_name);
  world_->broker().publish({to_queue(3, long_name, "order.paid"), to_queue(4, queue_, "queue:" + queue_)});
  EXPECT_EQ(how(3), How::confirmed);
  EXPECT_EQ(how(4), How::confirmed);
  EXPECT_TRUE(world_->take(long_name));
  EXPECT_TRUE(world_->take(queue_));
}

TEST_P(BrokerContract, AbsentIsNotEmpty) {
  start();
  Message bare = text("");
  Message empty = text("");
  empty.headers = Table{};
  empty.properties.correlation_id = "";
  ASSERT_TRUE(world_->put(world_->prefix() + ".failed", "", bare));
  ASSERT_TRUE(world_->put(world_->prefix() + ".failed", "", empty));
  const auto got = sink_.deliveries(2);
  ASSERT_EQ(got.size(), 2U);
  EXPECT_EQ(got[0].message, bare);
  EXPECT_EQ(got[1].message, empty);
}

TEST_P(BrokerContract, WaitingMessagesAreTakenIn) {
  start();
  ASSERT_TRUE(world_->put(world_->prefix() + ".delay", "", text("later")));
  const auto delayed = sink_.deliveries(1);
  ASSERT_EQ(delayed.size(), 1U);
  EXPECT_EQ(delayed[0].inlet, Inlet::delay);
}

TEST_P(BrokerContract, WhatIsAckedDoesNotComeAgainWhatIsNotDoes) {
  constexpr std::size_t kCount = 50;
  BrokerOptions options;
  options.prefetch = kCount;  // so that each further one arrives only after an ack was processed
  build(options);
  start();
  for (std::size_t i = 0; i < kCount; ++i) {
    ASSERT_TRUE(world_->put(world_->prefix() + ".failed", "", text(std::to_string(i))));
  }
  const auto got = sink_.deliveries(kCount);
  ASSERT_EQ(got.size(), kCount);
  std::vector<DeliveryTag> acks;
  for (std::size_t i = 0; i < kCount; ++i) {
    if (i % 5 != 2) acks.push_back(got[kCount - 1 - i].tag);  // holes, and from the back
  }
  const std::size_t acked = acks.size();
  acks.push_back(acks.front());  // twice: must not hurt
  acks.push_back({got[0].tag.session, 999999});
  world_->broker().ack(acks);
  for (std::size_t i = 0; i < acked; ++i)
    ASSERT_TRUE(world_->put(world_->prefix() + ".failed", "", text("marker")));
  ASSERT_EQ(sink_.deliveries(acked).size(), acked);
  world_->cut();
  const auto again = sink_.deliveries(kCount);
  EXPECT_EQ(again.size(), kCount) << "what was not acked, and the markers";
  for (const Delivery& d : again) {
    EXPECT_TRUE(d.redelivered);
    EXPECT_NE(d.tag.session, got[0].tag.session);
  }
  // An ack for an old connection does nothing; it does not ack the delivery that has the same tag now.
  std::vector<DeliveryTag> stale;
  for (const Delivery& d : again) stale.push_back({got[0].tag.session, d.tag.tag});
  world_->broker().ack(stale);
  ASSERT_TRUE(world_->put(world_->prefix() + ".results", "", text("marker")));
  ASSERT_EQ(sink_.deliveries(1).size(), 1U);
  world_->cut();
  EXPECT_EQ(sink_.deliveries(again.size() + 1).size(), again.size() + 1);
}

TEST_P(BrokerContract, TakesInNoMoreThanPrefetch) {
  BrokerOptions options;
  options.prefetch = 5;
  build(options);
  start();
  for (int i = 0; i < 12; ++i) ASSERT_TRUE(world_->put(world_->prefix() + ".failed", "", text("x")));
  auto got = sink_.deliveries(5);
  ASSERT_EQ(got.size(), 5U);
  EXPECT_EQ(world_->depth(world_->prefix() + ".failed"), 7U) << "ready: nobody has been given them";
  world_->broker().ack({got[0].tag, got[1].tag});
  EXPECT_EQ(sink_.deliveries(2).size(), 2U);
}

TEST_P(BrokerContract, NothingGoesOutBeforeItIsAllowedNorAfter) {
  world_->declare(queue_);
  ASSERT_TRUE(world_->broker().start(sink_).has_value());
  ASSERT_TRUE(sink_.up());
  world_->broker().publish({outgoing(1)});
  EXPECT_EQ(how(1), How::fenced);
  world_->broker().allow_publish_until(test_clock().boot() + kLong);
  world_->broker().publish({outgoing(2, text("in time"))});
  EXPECT_EQ(how(2), How::confirmed);
  world_->broker().allow_publish_until(test_clock().boot());
  world_->broker().publish({outgoing(3)});
  EXPECT_EQ(how(3), How::fenced);
  EXPECT_EQ(world_->take(queue_)->body, "in time");
  EXPECT_EQ(world_->depth(queue_), 0U);
}

TEST_P(BrokerContract, WhatWaitsForTheBrokerGoesOutWhenItIsBack) {
  world_->declare(queue_);
  start();
  world_->go_away();
  ASSERT_TRUE(sink_.status([](const BrokerStatus& s) { return !s.publishing && !s.consuming; }));
  EXPECT_NE(sink_.statuses().back().reason, "");
  world_->broker().publish({outgoing(1)});
  world_->come_back();
  EXPECT_EQ(how(1), How::confirmed);
  EXPECT_TRUE(sink_.up());
}

TEST_P(BrokerContract, WhatCannotBeSentIsRejectedAndHurtsNobody) {
  world_->declare(queue_);
  start();
  Message long_name;
  long_name.headers = Table{{std::string(256, 'h'), 1}};
  std::vector<Outgoing> batch;
  batch.push_back(outgoing(1, text("before")));
  batch.push_back(outgoing(2, {}, std::string(256, 'q')));
  batch.push_back(outgoing(3, {}, "\xFF\xFE"));
  batch.push_back(outgoing(4, long_name));
  batch.push_back({5, std::string(256, 'e'), "k", {}});
  batch.push_back(outgoing(6, text("after")));
  world_->broker().publish(std::move(batch));
  for (const std::uint64_t token : {2, 3, 4, 5}) {
    // No queue can have a name that is not UTF-8, so nothing is there to take it.
    EXPECT_EQ(how(token), token == 3 ? How::returned : How::rejected) << token;
    EXPECT_NE(sink_.result(token)->reason, "");
  }
  EXPECT_EQ(how(1), How::confirmed);
  EXPECT_EQ(how(6), How::confirmed);
  EXPECT_EQ(world_->take(queue_)->body, "before");
  EXPECT_EQ(world_->take(queue_)->body, "after");
}

TEST_P(BrokerContract, AnExchangeThatIsNotThereIsAReturnAndHurtsNobody) {
  world_->declare(queue_);
  start();
  world_->broker().publish({{1, world_->prefix() + ".no-such", "k", {}}});
  EXPECT_EQ(how(1), How::returned);
  world_->broker().publish({outgoing(2)});
  EXPECT_EQ(how(2), How::confirmed);
}

TEST_P(BrokerContract, AfterStopIntakeNothingComesAndAcksStillCount) {
  start();
  ASSERT_TRUE(world_->put(world_->prefix() + ".failed", "", text("one")));
  const auto got = sink_.deliveries(1);
  ASSERT_EQ(got.size(), 1U);
  world_->broker().stop_intake();
  ASSERT_TRUE(world_->put(world_->prefix() + ".failed", "", text("two")));
  world_->broker().ack({got[0].tag});
  world_->broker().stop(Ms{60'000});
  EXPECT_TRUE(sink_.deliveries(0).empty());
  EXPECT_TRUE(eventually([&] { return world_->depth(world_->prefix() + ".failed") == 1; }));
  EXPECT_EQ(world_->take(world_->prefix() + ".failed")->body, "two");
}

TEST_P(BrokerContract, OneResultEachAlsoAtStop) {
  world_->declare(queue_);
  start();
  constexpr std::uint64_t kCount = 5000;
  std::vector<Outgoing> batch;
  for (std::uint64_t i = 1; i <= kCount; ++i) batch.push_back(outgoing(i, text(std::string(200, 'b'))));
  world_->broker().publish(std::move(batch));
  world_->broker().stop(Ms{150});
  EXPECT_EQ(sink_.result_count(), kCount);
  auto ways = sink_.ways();
  EXPECT_FALSE(ways.contains(-1));
  EXPECT_EQ(ways[static_cast<int>(How::confirmed)] + ways[static_cast<int>(How::lost)],
            static_cast<int>(kCount));
  // Confirmed messages are in the queue.
  EXPECT_GE(static_cast<int>(world_->depth(queue_)), ways[static_cast<int>(How::confirmed)]);
}

TEST_P(BrokerContract, OneResultEachWhenTheConnectionBreaksUnderWay) {
  world_->declare(queue_);
  start();
  constexpr std::uint64_t kCount = 20000;
  for (std::uint64_t i = 0; i < kCount; i += 100) {
    std::vector<Outgoing> batch;
    for (std::uint64_t j = i + 1; j <= i + 100; ++j)
      batch.push_back(outgoing(j, text(std::string(300, 'b'))));
    world_->broker().publish(std::move(batch));
    if (i % 5000 == 2000) {
      sink_.published(i / 2);
      world_->cut();
    }
  }
  ASSERT_TRUE(sink_.published(kCount, Ms{120'000}));
  auto ways = sink_.ways();
  EXPECT_FALSE(ways.contains(-1));
  EXPECT_EQ(ways[static_cast<int>(How::confirmed)] + ways[static_cast<int>(How::lost)],
            static_cast<int>(kCount));
  EXPECT_GT(ways[static_cast<int>(How::confirmed)], 0);
}

TEST_P(BrokerContract, WhileTheBrokerIsAwayAStopDoesNotWaitForIt) {
  start();
  world_->go_away();
  ASSERT_TRUE(sink_.status([](const BrokerStatus& s) { return !s.publishing && !s.consuming; }));
  world_->broker().publish({outgoing(1)});
  world_->broker().stop(std::chrono::hours{1});
  EXPECT_EQ(how(1), How::lost);
}

INSTANTIATE_TEST_SUITE_P(Every, BrokerContract, every_broker(), kind_name);

// ---- A pause of the intake gives back what is unacked, and takes nothing more.

TEST_P(BrokerContract, APauseThatIsOverAtOnceGivesBackAllTheSame) {
  start();
  const std::string failed = world_->prefix() + ".failed";
  ASSERT_TRUE(world_->put(failed, "", text("one")));
  const auto got = sink_.deliveries(1);
  ASSERT_EQ(got.size(), 1U);
  world_->broker().pause_intake(true);
  world_->broker().pause_intake(false);
  const auto again = sink_.deliveries(1);
  ASSERT_EQ(again.size(), 1U);
  EXPECT_TRUE(again[0].redelivered);
  EXPECT_TRUE(got[0].tag.session.before(again[0].tag.session));
}

TEST_P(BrokerContract, WhilePausedWhatIsUnackedIsTheBrokersAgain) {
  start();
  const std::string failed = world_->prefix() + ".failed";
  for (const char* body : {"one", "two", "three"}) ASSERT_TRUE(world_->put(failed, "", text(body)));
  const auto got = sink_.deliveries(3);
  ASSERT_EQ(got.size(), 3U);
  world_->broker().ack({got[0].tag});
  world_->broker().pause_intake(true);
  EXPECT_TRUE(eventually([&] { return world_->depth(failed) == 2; }));
  EXPECT_FALSE(world_->broker().stands(got[1].tag));
  world_->broker().ack({got[1].tag});  // too late: any consumer may get it now
  ASSERT_TRUE(world_->put(failed, "", text("four")));
  EXPECT_EQ(world_->depth(failed), 3U);
  EXPECT_TRUE(sink_.deliveries(0).empty());

  world_->broker().pause_intake(false);
  auto again = sink_.deliveries(3);
  ASSERT_EQ(again.size(), 3U);
  std::ranges::sort(again, {}, [](const Delivery& d) { return d.message.body.str(); });
  EXPECT_EQ(again[0].message.body, "four");
  EXPECT_EQ(again[1].message.body, "three");
  EXPECT_EQ(again[2].message.body, "two");
  EXPECT_TRUE(again[2].redelivered);
  EXPECT_TRUE(got[2].tag.session.before(again[2].tag.session));
  EXPECT_TRUE(world_->broker().stands(again[2].tag));
  world_->broker().ack({again[0].tag, again[1].tag, again[2].tag});
  world_->broker().pause_intake(true);
  world_->broker().pause_intake(false);
  ASSERT_TRUE(world_->put(failed, "", text("five")));
  // Perhaps twice: if it arrives before the pause is carried out, the pause gives it back.
  const auto next = sink_.deliveries(1);
  ASSERT_FALSE(next.empty());
  for (const Delivery& delivery : next)
    EXPECT_EQ(delivery.message.body, "five") << "what was acked comes again";
}

// More often than RabbitMQ 4 lets a quorum queue deliver a message by default.
TEST_P(BrokerContract, PausedAgainAndAgainAQuorumQueueKeepsIts) {
  BrokerOptions options;
  options.rabbitmq.queue_type = "quorum";
  build(options);
  start();
  const std::string failed = world_->prefix() + ".failed";
  ASSERT_TRUE(world_->put(failed, "", text("one")));
  for (int i = 0; i < 25; ++i) {
    ASSERT_EQ(sink_.deliveries(1).size(), 1U) << i;
    world_->broker().pause_intake(true);
    ASSERT_TRUE(eventually([&] { return world_->depth(failed) == 1; })) << i;
    world_->broker().pause_intake(false);
  }
  const auto got = sink_.deliveries(1);
  ASSERT_EQ(got.size(), 1U);
  world_->broker().ack({got[0].tag});
  EXPECT_EQ(world_->depth(world_->prefix() + ".parked"), 0U);
}

// The connection is lost while intake is paused: the next one does not consume either.
TEST_P(BrokerContract, APauseOutlivesTheConnection) {
  start();
  const std::string failed = world_->prefix() + ".failed";
  world_->broker().pause_intake(true);
  world_->go_away();
  ASSERT_TRUE(sink_.status([](const BrokerStatus& s) { return !s.consuming; }));
  world_->come_back();
  ASSERT_TRUE(sink_.up());
  ASSERT_TRUE(world_->put(failed, "", text("one")));
  EXPECT_EQ(world_->depth(failed), 1U);
  EXPECT_TRUE(sink_.deliveries(0).empty());
  world_->broker().pause_intake(false);
  EXPECT_EQ(sink_.deliveries(1).size(), 1U);
}

}  // namespace
}  // namespace rung::test
