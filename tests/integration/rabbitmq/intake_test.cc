// Unacked deliveries: limited in bytes, returned on request, and valid only while their connection is open.
#include <set>

#include "tests/integration/rabbitmq/fixture.h"

namespace rung::test {
namespace {

class IntakeBytes : public RabbitTest {
 protected:
  void publish(std::size_t count, std::size_t bytes) {
    std::vector<Message> messages;
    for (std::size_t i = 0; i < count; ++i) {
      Message& message = messages.emplace_back(text(std::string(bytes, 'x')));
      message.properties.message_id = std::to_string(i);
    }
    probe().publish_all(failed(), "", messages);
  }
};

// The prefetch counts messages: messages over the byte limit are dropped and redelivered when there is room.
// All of them arrive, and never more than there is room for.
TEST_F(IntakeBytes, AreBoundedAndNothingIsLost) {
  constexpr std::size_t kCount = 40, kBytes = 300'000;
  options_.max_intake_bytes = 1'000'000;
  start_up();
  publish(kCount, kBytes);
  std::set<std::string> seen;
  while (seen.size() < kCount) {
    const auto batch = sink_.deliveries(1);
    ASSERT_FALSE(batch.empty()) << seen.size() << " of " << kCount << " came";
    EXPECT_LE(batch.size(), 3U) << "more than there is room for";
    std::vector<DeliveryTag> tags;
    for (const Delivery& delivery : batch) {
      EXPECT_EQ(delivery.message.body.size(), kBytes);
      EXPECT_TRUE(seen.insert(*delivery.message.properties.message_id).second) << "acked, and came again";
      tags.push_back(delivery.tag);
    }
    broker_->ack(std::move(tags));
  }
  broker_->stop(Ms{60'000});
  EXPECT_EQ(probe().depth(failed()), 0U);
}

TEST_F(IntakeBytes, WhatIsRequeuedComesAgain) {
  start_up();
  publish(2, 10);
  auto batch = sink_.deliveries(2);
  ASSERT_EQ(batch.size(), 2U);
  EXPECT_TRUE(broker_->stands(batch[0].tag));
  broker_->requeue({batch[0].tag});
  const auto again = sink_.deliveries(1);
  ASSERT_EQ(again.size(), 1U);
  EXPECT_TRUE(again[0].redelivered);
  EXPECT_EQ(again[0].message.properties.message_id, batch[0].message.properties.message_id);
  broker_->ack({batch[1].tag, again[0].tag});
  broker_->stop(Ms{60'000});
  EXPECT_EQ(probe().depth(failed()), 0U);
}

TEST_F(IntakeBytes, NothingOfAConnectionThatIsGoneStands) {
  TcpProxy& proxy = through_proxy();
  start_up();
  publish(1, 10);
  const auto first = sink_.deliveries(1);
  ASSERT_EQ(first.size(), 1U);
  EXPECT_TRUE(broker_->stands(first[0].tag));
  proxy.cut();
  const auto again = sink_.deliveries(1);
  ASSERT_EQ(again.size(), 1U);
  EXPECT_FALSE(broker_->stands(first[0].tag));
  EXPECT_TRUE(broker_->stands(again[0].tag));
  broker_->requeue({first[0].tag});  // no longer unacked: does nothing
  broker_->requeue({again[0].tag});  // by the same thread, after it
  EXPECT_EQ(sink_.deliveries(1).size(), 1U);
  publish(1, 10);
  const auto marker = sink_.deliveries(1);
  ASSERT_EQ(marker.size(), 1U);
  EXPECT_FALSE(marker[0].redelivered);
}

}  // namespace
}  // namespace rung::test
