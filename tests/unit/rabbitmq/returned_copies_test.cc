// Returned copies, from the publish to the ack.
#include "plugin/rabbitmq/consume/returned_copies.h"

#include <gmock/gmock.h>

namespace rung::rabbit {
namespace {

using How = PublishResult::How;

class Caller final : public BrokerSink {
 public:
  void on_deliveries(std::vector<Delivery>) override {}
  void on_published(std::vector<PublishResult> batch) override {
    for (const PublishResult& one : batch) tokens.push_back(one.token);
  }
  void on_status(const BrokerStatus&) override {}
  void on_topology(const TopologyReport&) override {}
  void on_copy_dropped(const DroppedCopy& copy) override {
    dropped.push_back(copy.error_queue + ", " + copy.retry_id + ", " + copy.message_id);
  }
  std::vector<std::uint64_t> tokens;
  std::vector<std::string> dropped;
};

class CopiesOfOneQueue : public testing::Test {
 protected:
  static Message text(const std::string& body) {
    Message message;
    message.body = body;
    message.headers.emplace();
    return message;
  }
  // Their delivery tags are 1, 2 ...
  std::size_t put_back(const std::vector<Message>& messages) {
    std::vector<Delivery> deliveries;
    for (const Message& message : messages) {
      Delivery& delivery = deliveries.emplace_back();
      delivery.tag.tag = deliveries.size();
      delivery.source = "orders_error";
      delivery.message = message;
    }
    return copies.put_back(std::move(deliveries));
  }
  void answer(How how) {
    std::vector<PublishResult> results{{1, How::confirmed, {}}};  // another's
    for (const Outgoing& outgoing : published) results.push_back({outgoing.token, how, {}});
    copies.on_published(std::move(results));
    EXPECT_THAT(caller.tokens, testing::ElementsAre(1));
  }

  Caller caller;
  std::vector<Outgoing> published;
  std::vector<std::uint64_t> acked, requeued;
  ReturnedCopies copies{caller,
                        {.publish = [this](std::vector<Outgoing> batch) { published = std::move(batch); },
                         .ack =
                             [this](const auto& tags) {
                               for (const DeliveryTag& tag : tags) acked.push_back(tag.tag);
                             },
                         .requeue =
                             [this](const auto& tags) {
                               for (const DeliveryTag& tag : tags) requeued.push_back(tag.tag);
                             }}};
};

TEST_F(CopiesOfOneQueue, AreAckedOnceTheyAreConfirmed) {
  EXPECT_EQ(put_back({text("a"), text("b")}), 2U);
  ASSERT_EQ(published.size(), 2U);
  EXPECT_EQ(published[0].exchange, "");
  EXPECT_EQ(published[0].routing_key, "orders_error");
  EXPECT_EQ(published[0].message, text("a"));
  EXPECT_THAT(acked, testing::IsEmpty());
  answer(How::confirmed);
  EXPECT_THAT(acked, testing::ElementsAre(1, 2));
  EXPECT_THAT(requeued, testing::IsEmpty());
}

TEST_F(CopiesOfOneQueue, AreRequeuedIfTheyCannotBePublished) {
  put_back({text("a")});
  answer(How::nacked);
  EXPECT_THAT(acked, testing::IsEmpty());
  EXPECT_THAT(requeued, testing::ElementsAre(1));
}

// A connection that was lost between the publish and the ack has left them. A quorum queue counts.
TEST_F(CopiesOfOneQueue, OfTwoThatAreEqualOneGoesBackAndTheOtherIsTold) {
  Message copy = text("a");
  copy.headers->emplace_back("retry-id", "4711");
  copy.properties.message_id = "m-1";
  Message counted = copy;
  counted.headers->emplace_back("x-delivery-count", 1);
  EXPECT_EQ(put_back({counted, copy}), 1U);
  EXPECT_EQ(published.size(), 1U);
  EXPECT_THAT(caller.dropped, testing::IsEmpty());
  answer(How::confirmed);
  EXPECT_THAT(acked, testing::ElementsAre(1, 2));
  EXPECT_THAT(caller.dropped, testing::ElementsAre("orders_error, 4711, m-1"));
}

TEST_F(CopiesOfOneQueue, NoneIsDroppedIfNoneWentBack) {
  put_back({text("a"), text("a")});
  answer(How::lost);
  EXPECT_THAT(requeued, testing::ElementsAre(1, 2));
  EXPECT_THAT(caller.dropped, testing::IsEmpty());
}

// I4: consumers and tools publish messages with the headers of a copy.
TEST_F(CopiesOfOneQueue, ThoseThatDifferInAnythingGoBackEach) {
  Message header = text("a"), mode = text("a");
  header.headers = Table{{"event", 1}};
  mode.properties.delivery_mode = std::uint8_t{2};
  EXPECT_EQ(put_back({text("a"), header, mode}), 3U);
}

TEST_F(CopiesOfOneQueue, GoToTheirQueueOnly) {
  Message message = text("a");
  message.headers = Table{{"CC", "elsewhere"}, {"BCC", "elsewhere"}, {"app", 1}};
  message.properties.user_id = "ann";
  message.properties.expiration = "1000";
  put_back({message});
  EXPECT_EQ(published.at(0).message.headers, (Table{{"app", 1}}));
  EXPECT_EQ(published.at(0).message.properties.user_id, std::nullopt);
  EXPECT_EQ(published.at(0).message.properties.expiration, std::nullopt);
}

}  // namespace
}  // namespace rung::rabbit
