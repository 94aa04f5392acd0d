// A pause of the intake gives back what is unacked, and takes nothing more.
#include "tests/contract/broker/fixture.h"

namespace rung::test {
namespace {

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
