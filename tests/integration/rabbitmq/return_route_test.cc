// Messages by <prefix>.return: they keep their routing key unless the broker refuses to bind their queue. A
// broker that does not answer the binding makes them wait.
#include "plugin/rabbitmq/topology/return_route.h"

#include "tests/integration/rabbitmq/fixture.h"
#include "tests/support/http_client.h"

namespace rung::test {
namespace {

class ReturnRoute : public RabbitTest {
 protected:
  void TearDown() override {
    probe().remove(other_);
    RabbitTest::TearDown();
  }
  Outgoing retry(std::uint64_t token, const std::string& queue, PublishLane lane) {
    Message message = text("retry " + std::to_string(token));
    return {token, "", kKey, std::move(message), lane, queue};
  }
  std::string key_of_next(const std::string& queue) {
    const auto received = probe().get_within(queue);
    return received ? received->routing_key : "no message";
  }

  const std::string kKey = "orders.created";
  const std::string other_ = unique_name("other");
};

TEST_F(ReturnRoute, AProbeBindsItsQueue) {
  start_up();
  broker_->publish({retry(1, queue_, PublishLane::probe)});
  EXPECT_EQ(how(1), How::confirmed);
  EXPECT_EQ(key_of_next(queue_), kKey);
}

// The caller asks again, as with a queue that does not answer.
TEST_F(ReturnRoute, AProbeWhoseBindingIsNotAnsweredIsLostAndKeepsItsKeyTheNextTime) {
  TcpProxy& proxy = through_proxy();
  proxy.deafen("(probe)", "queue:" + queue_);
  start_up();
  broker_->publish({retry(1, queue_, PublishLane::probe)});
  EXPECT_EQ(how(1), How::lost);
  EXPECT_TRUE(proxy.deafened());
  broker_->publish({retry(2, queue_, PublishLane::probe)});
  EXPECT_EQ(how(2), How::confirmed);
  EXPECT_EQ(key_of_next(queue_), kKey);
  EXPECT_EQ(probe().depth(queue_), 0U);
}

TEST_F(ReturnRoute, ARefusedBindingHoldsUpNoOtherQueue) {
  probe().declare(other_);
  probe().declare_exchange(rabbit::return_exchange(options_.prefix), "topic");
  start_up();
  broker_->publish({retry(1, queue_, PublishLane::main)});
  EXPECT_EQ(how(1), How::confirmed);
  broker_->publish({retry(2, other_, PublishLane::main)});
  EXPECT_EQ(how(2), How::confirmed);
  EXPECT_EQ(key_of_next(other_), other_);
}

TEST_F(ReturnRoute, ABindingThatIsNotAnsweredKeepsTheMessageWaiting) {
  TcpProxy& proxy = through_proxy();
  probe().declare(other_);
  proxy.deafen("(unproven exchanges)", "queue:" + queue_);
  start_up();
  broker_->publish({retry(1, queue_, PublishLane::main), retry(2, other_, PublishLane::main)});
  EXPECT_EQ(how(2), How::confirmed);
  EXPECT_TRUE(proxy.deafened());
  EXPECT_EQ(how(1), How::confirmed);
  EXPECT_EQ(key_of_next(queue_), kKey);
  EXPECT_EQ(key_of_next(other_), kKey);
}

// A policy can give every exchange an alternate one: a retry whose binding is gone would go there, and be
// confirmed. The exchange has its own as an argument, which no policy overrides.
TEST_F(ReturnRoute, AnAlternateExchangeByPolicyTakesNoRetry) {
  start_up();
  broker_->publish({retry(1, queue_, PublishLane::main)});
  EXPECT_EQ(how(1), How::confirmed);
  EXPECT_EQ(key_of_next(queue_), kKey);
  const std::string exchange = rabbit::return_exchange(options_.prefix), elsewhere = unique_name("elsewhere");
  probe().declare(other_);
  probe().declare_exchange(elsewhere, "fanout");
  probe().bind(other_, elsewhere);
  HttpClient http(parse_url(env("RUNG_TEST_MANAGEMENT"))->port);
  const HttpClient::Headers guest = {{"authorization", "Basic Z3Vlc3Q6Z3Vlc3Q="}};
  const std::string path = "/api/policies/%2f/" + elsewhere;
  ASSERT_LT(http.call("PUT", path,
                      R"({"pattern": ")" + options_.prefix +
                          R"(\\.return", "apply-to": "exchanges", "definition": )" +
                          R"({"alternate-exchange": ")" + elsewhere + R"("}})",
                      guest)
                .status,
            300);
  probe().remove(queue_);  // and its binding
  probe().declare(queue_);
  broker_->publish({retry(2, queue_, PublishLane::main)});
  EXPECT_EQ(how(2), How::confirmed);
  EXPECT_EQ(key_of_next(queue_), kKey);
  EXPECT_EQ(probe().depth(other_), 0U) << "it went elsewhere";
  http.call("DELETE", path, {}, guest);
  probe().remove_exchange(elsewhere);
}

}  // namespace
}  // namespace rung::test
