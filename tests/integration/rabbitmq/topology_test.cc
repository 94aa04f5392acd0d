// The declared topology, and failures to declare it.
#include "plugin/rabbitmq/topology/return_route.h"
#include "tests/integration/rabbitmq/fixture.h"
#include "tests/support/clock.h"
#include "tests/support/http_client.h"

namespace rung::test {
namespace {

class Topology : public RabbitTest {
 protected:
  // As Rung declares the inlet `queue`: what expires in it goes to another one.
  Table own(const std::string& type, const std::string& queue) const {
    const bool is_failed = queue == options_.prefix + ".failed";
    Table arguments{{"x-queue-type", type},
                    {"x-dead-letter-exchange", options_.prefix + (is_failed ? ".delay" : ".failed")}};
    if (type == "quorum") arguments.emplace_back("x-delivery-limit", std::int32_t{2147483647});
    return arguments;
  }
  Table own(const std::string& type) const { return own(type, options_.prefix + ".failed"); }
};

TEST_F(Topology, ExchangesAndQueuesAreDeclaredDurableAndBound) {
  options_.rabbitmq.queue_type = "classic";
  start_up();
  for (const char* name : {".failed", ".delay", ".results", ".parked"}) {
    const std::string full = options_.prefix + name;
    EXPECT_TRUE(probe().exchange_exists(full)) << full;
    EXPECT_TRUE(probe().queue_exists(full)) << full;
    const Table arguments = full.ends_with(".parked") ? Table{} : own("classic", full);
    EXPECT_NO_THROW(probe().declare(full, arguments)) << "not durable, or with other arguments";
    EXPECT_NO_THROW(probe().declare_exchange(full, "fanout"));
  }
  EXPECT_TRUE(probe().publish(options_.prefix + ".parked", "any key", text("kept")));
  EXPECT_EQ(probe().take(options_.prefix + ".parked", 1).size(), 1U);
  EXPECT_EQ(probe().consumers(failed()), 1U);
  EXPECT_EQ(probe().consumers(options_.prefix + ".results"), 1U);
  EXPECT_EQ(probe().consumers(options_.prefix + ".delay"), 1U);
}

TEST_F(Topology, QuorumQueuesHaveADeliveryLimitThatNeverBites) {
  options_.rabbitmq.queue_type = "quorum";
  start_up();
  EXPECT_NO_THROW(probe().declare(failed(), own("quorum")));
  // More deliveries than RabbitMQ 4 allows by default (20) lose nothing.
  ASSERT_TRUE(probe().publish(failed(), "", text("again and again")));
  for (int i = 0; i < 25; ++i) {
    const Delivery got = next();
    EXPECT_EQ(got.redelivered, i > 0);
    broker_->stop(Ms{1000});
    start();
  }
}

// What waits in it must be taken in, whatever others have made of it.
TEST_F(Topology, AQueueWithOtherArgumentsIsUsedAsItIsAndTold) {
  Table arguments = own("classic");
  arguments.emplace_back("x-max-length", std::int32_t{5});
  probe().declare(failed(), arguments);
  start_up();
  ASSERT_TRUE(probe().publish(failed(), "", text("one")));
  EXPECT_EQ(sink_.deliveries(1).size(), 1U);
  EXPECT_TRUE(sink_.topology([&](const TopologyReport& r) {
    return r.problem.find(failed()) != std::string::npos &&
           r.problem.find("x-max-length") != std::string::npos;
  }));
}

TEST_F(Topology, AnEmptyClassicQueueBecomesTheQuorumQueueThatTheConfigWants) {
  options_.rabbitmq.queue_type = "classic";
  start_up();
  broker_->stop(Ms{1000});
  ASSERT_TRUE(probe().publish(options_.prefix + ".results", "", text("waits")));
  options_.rabbitmq.queue_type = "quorum";
  start();
  EXPECT_EQ(sink_.deliveries(1).size(), 1U);
  EXPECT_NO_THROW(probe().declare(failed(), own("quorum")));
  const std::string results = options_.prefix + ".results";
  EXPECT_NO_THROW(probe().declare(results, own("classic", results))) << "it was not empty";
  // Bound as before, and to nothing else.
  ASSERT_TRUE(probe().publish(failed(), "", text("one")));
  EXPECT_EQ(sink_.deliveries(1).size(), 1U);
  broker_->stop(Ms{1000});
  EXPECT_TRUE(eventually([&] { return probe().depth(failed()) == 1U; }));
  EXPECT_TRUE(eventually([&] { return probe().depth(results) == 1U; }));
}

// An upgrade of Rung or of the broker changes nothing about queues that are there: nothing to repair or to
// tell.
TEST_F(Topology, QueuesOfEitherTypeStayAsTheyAre) {
  options_.rabbitmq.topology_check = Ms{200};
  const std::string results = options_.prefix + ".results";
  probe().declare(failed(), own("classic"));
  probe().declare(results, own("quorum", results));
  start_up();
  for (const std::string& queue : {failed(), results}) {
    ASSERT_TRUE(probe().publish("", queue, text(queue)));
    const Delivery one = next();
    broker_->ack({one.tag});
    ASSERT_TRUE(eventually([&] { return probe().depth(queue) == 0U; }));
  }
  // Deleted while it is consumed: again as it was.
  probe().remove(results);
  ASSERT_TRUE(eventually([&] { return probe().consumers(results) == 1U; }));
  EXPECT_TRUE(sink_.topology([&](const TopologyReport& r) { return !r.repaired.empty(); }));
  EXPECT_TRUE(
      sink_.topology([](const TopologyReport& r) { return r.repaired.empty() && r.problem.empty(); }));
}

// In the same session: so it is for a classic queue.
TEST_F(Topology, AnInletDeletedUnderWayIsDeclaredAndConsumedAgain) {
  options_.rabbitmq.queue_type = "classic";
  start_up();
  ASSERT_TRUE(probe().publish(failed(), "", text("one")));
  const Delivery one = next();
  probe().remove(failed());
  ASSERT_TRUE(eventually([&] { return probe().consumers(failed()) == 1U; }));
  broker_->ack({one.tag});  // of a queue that is gone: nothing happens
  ASSERT_TRUE(probe().publish(failed(), "", text("two")));
  const Delivery two = next();
  EXPECT_EQ(two.message.body, "two");
  EXPECT_EQ(two.tag.session, one.tag.session);
  EXPECT_EQ(probe().consumers(options_.prefix + ".results"), 1U);
}

// The refusal closes a channel, and with it its delivery tags end: not the one that consumes.
TEST_F(Topology, AnInletDeletedWhileTheReturnExchangeIsRefused) {
  probe().declare_exchange(options_.prefix + ".return", "topic");
  start_up();
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(probe().publish(failed(), "", text("before")));
    const Delivery got = next();
    broker_->ack({got.tag});
  }
  ASSERT_TRUE(eventually([&] { return probe().depth(failed()) == 0U; }));
  probe().remove(failed());
  ASSERT_TRUE(eventually([&] { return probe().consumers(failed()) == 1U; }));
  ASSERT_TRUE(probe().publish(failed(), "", text("after")));
  const Delivery after = next();
  broker_->ack({after.tag});
  broker_->stop(Ms{60'000});
  // The queue gets back what is unacked when it loses its consumer.
  ASSERT_TRUE(eventually([&] { return probe().consumers(failed()) == 0U; }));
  EXPECT_EQ(probe().depth(failed()), 0U) << "it was acked";
}

// Objects that somebody deletes while Rung runs are restored: checked every 200 ms here.
class TopologyRepair : public Topology {
 protected:
  void SetUp() override {
    options_.rabbitmq.topology_check = Ms{200};
    probe().declare(queue_, {{"x-dead-letter-exchange", failed()}});
    start();
    ASSERT_TRUE(sink_.up()) << sink_.statuses().back().reason;
  }
  bool repaired(const std::string& what, Ms within = BrokerRecorder::kWithin) {
    return sink_.topology([&](const TopologyReport& r) { return std::ranges::count(r.repaired, what) > 0; },
                          within);
  }
  // What goes between a check's look and its declare is declared again and not reported.
  bool repaired_after(const std::function<void()>& remove, const std::string& what) {
    return eventually([&] {
      remove();
      return repaired(what, Ms{2000});
    });
  }
  // Rejects a message; whether it arrives at Rung.
  bool rejected_arrives() {
    if (!probe().publish("", queue_, text("rejected"))) return false;
    const auto received = probe().get_within(queue_);
    if (!received) return false;
    probe().reject(*received);
    return sink_.deliveries(1).size() == 1U;
  }
};

TEST_F(TopologyRepair, ADeletedExchangeIsDeclaredAndBoundAgain) {
  ASSERT_TRUE(repaired_after([&] { probe().remove_exchange(failed()); }, "exchange " + failed()));
  EXPECT_TRUE(rejected_arrives());
  EXPECT_EQ(sink_.repairs("exchange " + failed()), 1U);
}

TEST_F(TopologyRepair, ADeletedBindingIsRestored) {
  ASSERT_NE(amqp_queue_unbind(probe().raw(), 1, amqp_cstring_bytes(failed().c_str()),
                              amqp_cstring_bytes(failed().c_str()), amqp_empty_bytes, amqp_empty_table),
            nullptr);
  ASSERT_TRUE(eventually([&] { return probe().publish(failed(), "", text("routed")); }));
  ASSERT_EQ(sink_.deliveries(1).size(), 1U);
  EXPECT_TRUE(rejected_arrives());
}

TEST_F(TopologyRepair, ADeletedQueueIsDeclaredAgainAndReported) {
  const std::string parked = options_.prefix + ".parked";  // not consumed: nobody is told that it went
  ASSERT_TRUE(repaired_after([&] { probe().remove(parked); }, "queue " + parked));
  // RabbitMQ 4.3 may answer a bind before it routes by it.
  EXPECT_TRUE(eventually([&] { return probe().publish(parked, "", text("kept")); }));
  probe().remove(failed());
  ASSERT_TRUE(repaired("queue " + failed()));
  ASSERT_TRUE(eventually([&] { return probe().publish(failed(), "", text("routed")); }));
  ASSERT_EQ(sink_.deliveries(1).size(), 1U);
  EXPECT_TRUE(rejected_arrives());
}

TEST_F(TopologyRepair, WhatCannotBeRepairedIsReportedAndConsumingGoesOn) {
  ASSERT_TRUE(probe().publish(failed(), "", text("before")));
  const Delivery before = next();
  const std::string results = options_.prefix + ".results";
  probe().remove_exchange(results);
  probe().declare_exchange(results, "topic");
  ASSERT_TRUE(sink_.topology([&](const TopologyReport& r) {
    return r.problem.find("exchange " + results + ": PRECONDITION_FAILED") != std::string::npos &&
           r.problem.find("delete exchange name=" + results) != std::string::npos;
  }));
  ASSERT_TRUE(probe().publish(failed(), "", text("after")));
  const Delivery after = next();
  EXPECT_EQ(after.tag.session, before.tag.session);
  probe().remove_exchange(results);
  ASSERT_TRUE(repaired("exchange " + results));
  sink_.forget_topology();
  EXPECT_TRUE(
      sink_.topology([](const TopologyReport& r) { return r.problem.empty() && r.repaired.empty(); }));
}

// ---- Messages by <prefix>.return: they keep their routing key unless the broker refuses to bind their
// queue. A broker that does not answer the binding makes them wait.

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
