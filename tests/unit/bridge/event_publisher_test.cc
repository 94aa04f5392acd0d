// Events for other systems, from the store to the broker, in virtual time.
#include "src/bridge/upkeep/event_publisher.h"

#include <gmock/gmock.h>

#include "tests/unit/bridge/flow_fixture.h"

namespace rung::bridge {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class PublishedEvents : public testing::Test {
 protected:
  PublishedEvents() {
    OutgoingKinds kinds;
    kinds.add(OutgoingKind::task_parked);
    world.db->publish_events(kinds);
    flow.take_shards();
    publisher.start();
  }
  void park(const std::string& queue) {
    world.insert(queue, world.now(), 5, [](Task& task) {
      task.state = State::parked;
      task.next_at.reset();
    });
  }
  // What is left in the database.
  std::size_t kept() { return world.eyes->outgoing_events(1000).value().size(); }
  std::vector<std::string> bodies(std::string_view queue) {
    std::vector<std::string> out;
    for (const Message& message : flow.broker.contents(queue)) out.push_back(message.body.str());
    return out;
  }
  std::int64_t published(std::size_t outcome) {
    const auto& all = publisher.counts().published;
    const auto found = all.find({OutgoingKind::task_parked, outcome});
    return found == all.end() ? 0 : found->second;
  }

  World world;
  Flow flow{world};
  bool may_publish = true;
  EventPublisher publisher{
      world.loop,
      {flow.jobs, flow.shards, flow.outbox, flow.clock, flow.health, [this] { return may_publish; }, "",
       [this](Store&, const OutgoingEvent& event, const std::string&) -> Result<std::optional<std::string>> {
         if (event.queue == "broken") return permanent("its row cannot be read");
         if (event.queue == "silent") return std::nullopt;
         return "body of " + event.queue;
       }}};
};

// The memory broker routes by queue name alone: the key "task_parked.orders" reaches that queue.
TEST_F(PublishedEvents, AreDeletedWhenTheBrokerHasThem) {
  flow.broker.declare("task_parked.orders");
  park("orders");
  park("orders");
  world.loop.run_for(Ms{3000});
  EXPECT_THAT(bodies("task_parked.orders"), ElementsAre("body of orders", "body of orders"));
  const Message first = flow.broker.contents("task_parked.orders").at(0);
  EXPECT_EQ(first.properties.type, "rung.task_parked");
  EXPECT_EQ(first.properties.content_type, "application/json");
  EXPECT_EQ(first.properties.message_id, "1");
  EXPECT_EQ(kept(), 0U);
  EXPECT_EQ(published(0), 2);
}

TEST_F(PublishedEvents, WithoutAQueueTheyAreCountedAndDeleted) {
  park("orders");
  world.loop.run_for(Ms{3000});
  EXPECT_EQ(kept(), 0U);
  EXPECT_EQ(published(0), 0);
  EXPECT_EQ(published(1), 1);
}

TEST_F(PublishedEvents, WaitWhileNothingMayBePublished) {
  flow.broker.declare("task_parked.orders");
  may_publish = false;
  park("orders");
  world.loop.run_for(Ms{5000});
  EXPECT_EQ(kept(), 1U);
  may_publish = true;
  world.loop.run_for(Ms{2000});
  EXPECT_EQ(kept(), 0U);
  EXPECT_THAT(bodies("task_parked.orders"), ElementsAre("body of orders"));
}

TEST_F(PublishedEvents, AreSentAgainAfterAnOutage) {
  flow.broker.declare("task_parked.orders");
  flow.broker.go_away();
  park("orders");
  world.loop.run_for(Ms{3000});
  EXPECT_EQ(kept(), 1U);
  flow.broker.come_back();
  world.loop.run_for(Ms{5000});
  EXPECT_EQ(kept(), 0U);
  EXPECT_THAT(bodies("task_parked.orders"), ElementsAre("body of orders"));
}

TEST_F(PublishedEvents, ThatAreNotToBePublishedAreDeleted) {
  flow.broker.declare("task_parked.silent");
  park("silent");
  world.loop.run_for(Ms{2000});
  EXPECT_THAT(bodies("task_parked.silent"), IsEmpty());
  EXPECT_EQ(kept(), 0U);
}

TEST_F(PublishedEvents, AThousandGoOutInSecondsNotInThousands) {
  flow.broker.declare("task_parked.orders");
  for (int i = 0; i < 1000; ++i) park("orders");
  world.loop.run_for(Ms{3000});
  EXPECT_EQ(kept(), 0U);
  EXPECT_EQ(published(0), 1000);
}

TEST_F(PublishedEvents, OneThatCannotBeReadHoldsUpNoOther) {
  flow.broker.declare("task_parked.orders");
  park("broken");
  park("orders");
  world.loop.run_for(Ms{3000});
  EXPECT_THAT(bodies("task_parked.orders"), ElementsAre("body of orders"));
  EXPECT_EQ(kept(), 0U);
}

// A full queue refuses its copy, and others behind the exchange have theirs: each try is a repeat for them.
TEST_F(PublishedEvents, AfterARefusalThePauseGrowsAndAProblemSaysWhy) {
  flow.broker.declare("task_parked.orders");
  park("orders");
  flow.broker.nack_next(1'000'000);
  world.loop.run_for(Ms{5000});
  const auto tries = [&] { return flow.broker.published().size(); };
  const std::size_t soon = tries();
  EXPECT_GE(soon, 2U);
  world.loop.run_for(Ms{600'000});
  EXPECT_LE(tries() - soon, 14U) << "at last once in a minute";
  EXPECT_TRUE(flow.health.has("events"));
  EXPECT_EQ(kept(), 1U);
  flow.broker.nack_next(0);
  world.loop.run_for(EventPublisher::kLongestPause + Ms{2000});
  EXPECT_EQ(kept(), 0U);
  EXPECT_FALSE(flow.health.has("events"));
}

// The topology is repaired every half minute; what waits must not be taken for events that nobody wants.
TEST_F(PublishedEvents, WaitForTheirExchange) {
  EventPublisher other{
      world.loop,
      {flow.jobs, flow.shards, flow.outbox, flow.clock, flow.health, [] { return true; }, "rung.gone",
       [](Store&, const OutgoingEvent&, const std::string&) {
         return Result<std::optional<std::string>>("body");
       }}};
  publisher.stop();
  other.start();
  park("orders");
  world.loop.run_for(Ms{10'000});
  EXPECT_EQ(kept(), 1U);
  EXPECT_TRUE(flow.health.has("events"));
}

TEST_F(PublishedEvents, OnTheLaneOfProbesHoldUpNoRetry) {
  flow.broker.declare("task_parked.orders");
  park("orders");
  world.loop.run_for(Ms{2000});
  ASSERT_EQ(flow.broker.published().size(), 1U);
  EXPECT_EQ(flow.broker.published()[0].outgoing.lane, PublishLane::probe);
}

TEST_F(PublishedEvents, AreDeletedAfterAWhileWithoutAPublisher) {
  publisher.stop();
  EventPublisher silent{world.loop,
                        {flow.jobs,
                         flow.shards,
                         flow.outbox,
                         flow.clock,
                         flow.health,
                         [] { return true; },
                         "rung.events",
                         {},
                         Ms{90'000}}};
  silent.start();
  park("orders");
  world.loop.run_for(Ms{70'000});
  EXPECT_EQ(kept(), 1U) << "it is not old yet";
  world.loop.run_for(std::chrono::hours{1});
  EXPECT_EQ(kept(), 0U);
}

TEST_F(PublishedEvents, OfADrainAreLeftToTheNextOwner) {
  flow.broker.declare("task_parked.orders");
  flow.broker.hold_confirms();
  park("orders");
  world.loop.run_for(Ms{2000});
  EXPECT_EQ(publisher.unanswered(), 1U);
  EXPECT_EQ(flow.outbox.under_way(), publisher.unanswered()) << "nothing else is under way";
  publisher.stop();
  park("orders");
  flow.broker.release_confirms();
  world.loop.run_for(Ms{5000});
  EXPECT_EQ(kept(), 1U) << "what came later is not read";
}

}  // namespace
}  // namespace rung::bridge
