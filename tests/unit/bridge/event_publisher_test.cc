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
  EventPublisher publisher{world.loop,
                           {flow.jobs, flow.shards, flow.outbox, [this] { return may_publish; }, "",
                            [](Store&, const std::vector<OutgoingEvent>& events, const std::string&) {
                              std::vector<std::optional<std::string>> out;
                              for (const OutgoingEvent& event : events) {
                                out.emplace_back("body of " + event.queue);
                                if (event.queue == "silent") out.back().reset();
                              }
                              return Result<decltype(out)>(std::move(out));
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
  EXPECT_EQ(first.properties.type, "task_parked");
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

}  // namespace
}  // namespace rung::bridge
