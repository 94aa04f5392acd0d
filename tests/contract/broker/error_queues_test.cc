// What every Broker must do with error queues: their intake is apart from that of Rung's own queues.
#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "src/core/rules/dialect.h"
#include "tests/contract/broker/fixture.h"

namespace rung::test {
namespace {

class BrokerContractOfErrorQueues : public BrokerContract {
 protected:
  void SetUp() override {
    auto dialect = std::make_shared<Dialect>();
    dialect->name = "framework";
    dialect->queue = {{.from = Reading::From::header, .name = "fault-queue"}};
    dialect->error = {{.name = "fault"}};
    dialect->remove = {"fault*"};
    errors_ = unique_name("contract") + "_error";
    entry_ = {.from = errors_, .dialect = std::move(dialect)};
    BrokerOptions options;
    options.error_queues = std::make_shared<const ErrorQueues>(std::vector{entry_});
    build(std::move(options));
    world_->declare(errors_);
  }
  // As a framework does.
  void fail(const std::string& body) {
    Message message = text(body);
    message.headers = Table{{"app", 1}, {"fault", "no card"}, {"fault-queue", queue_}};
    ASSERT_TRUE(world_->put("", errors_, message));
  }
  // One delivery from rung.failed, and one from the error queue.
  std::pair<Delivery, Delivery> one_of_each() {
    std::vector<Delivery> got;
    eventually([&] {
      std::ranges::move(sink_.deliveries(1, Ms{200}), std::back_inserter(got));
      return got.size() >= 2;
    });
    if (got.size() != 2) throw std::runtime_error(std::to_string(got.size()) + " deliveries instead of two");
    if (got[0].inlet == Inlet::error) std::swap(got[0], got[1]);
    return {got[0], got[1]};
  }

  std::string errors_;
  ErrorQueue entry_;
};

TEST_P(BrokerContractOfErrorQueues, DeliverWithTheFactsThatTheDialectFinds) {
  start();
  fail("failed");
  const auto got = sink_.deliveries(1);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].inlet, Inlet::error);
  EXPECT_EQ(got[0].source, errors_);
  EXPECT_EQ(got[0].message.body, "failed");
  EXPECT_EQ(got[0].message.headers, (Table{{"app", 1}}));
  EXPECT_EQ(got[0].facts.failure.queue, queue_);
}

// The same numbers in both intakes: an ack is for one of them.
TEST_P(BrokerContractOfErrorQueues, HaveSessionsOfTheirOwn) {
  start();
  ASSERT_TRUE(world_->put(world_->prefix() + ".failed", "", text("own")));
  fail("failed");
  const auto [own, error] = one_of_each();
  EXPECT_FALSE(own.tag.session == error.tag.session);
  EXPECT_TRUE(world_->broker().stands(own.tag));
  EXPECT_TRUE(world_->broker().stands(error.tag));
  // What is not acked comes again, in order: what is not before the last marker has been acked. An ack that
  // was under way when the connection broke is lost, and then given again. The marker gives it time: a cut at
  // once would overtake it each time.
  std::optional<DeliveryTag> failed = error.tag;
  for (int tries = 0; failed && tries < 10; ++tries) {
    world_->broker().ack({*failed});
    const std::string marker = "marker " + std::to_string(tries);
    fail(marker);
    ASSERT_EQ(sink_.deliveries(1).size(), 1U);
    world_->cut();
    failed.reset();
    std::set<std::string> again;
    eventually([&] {
      for (const Delivery& delivery : sink_.deliveries(1, Ms{200})) {
        again.insert(delivery.message.body);
        if (delivery.message.body == "failed") failed = delivery.tag;
      }
      return again.contains("own") && again.contains(marker);
    });
    EXPECT_THAT(again, testing::IsSupersetOf({std::string("own"), marker}));
  }
  EXPECT_FALSE(failed) << "acked ten times, and delivered again";
  EXPECT_FALSE(world_->broker().stands(own.tag));
}

TEST_P(BrokerContractOfErrorQueues, ALostConnectionOfTheirsVoidsOnlyTheirDeliveries) {
  start();
  ASSERT_TRUE(world_->put(world_->prefix() + ".failed", "", text("own")));
  fail("failed");
  const auto [own, error] = one_of_each();
  world_->cut_error_intake();
  const auto again = sink_.deliveries(1);
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].message.body, "failed");
  EXPECT_TRUE(again[0].redelivered);
  EXPECT_TRUE(error.tag.session.before(again[0].tag.session));
  EXPECT_FALSE(own.tag.session.before(again[0].tag.session));
  EXPECT_FALSE(world_->broker().stands(error.tag));
  EXPECT_TRUE(world_->broker().stands(own.tag));
  for (const BrokerStatus& status : sink_.statuses()) EXPECT_EQ(status.reason, "") << "our own is up";
  world_->broker().ack({own.tag, again[0].tag});
  // A pause returns what is not acked: it would come before the markers.
  world_->broker().pause_intake(true);
  world_->broker().pause_intake(false);
  ASSERT_TRUE(world_->put(world_->prefix() + ".failed", "", text("marker")));
  fail("marker");
  for (const Delivery& delivery : sink_.deliveries(2)) EXPECT_EQ(delivery.message.body, "marker");
}

TEST_P(BrokerContractOfErrorQueues, APauseReturnsTheirsToo) {
  start();
  ASSERT_TRUE(world_->put(world_->prefix() + ".failed", "", text("own")));
  fail("failed");
  const auto [own, error] = one_of_each();
  world_->broker().pause_intake(true);
  EXPECT_TRUE(eventually([&] { return world_->depth(errors_) == 1; }));
  EXPECT_TRUE(eventually([&] { return world_->depth(world_->prefix() + ".failed") == 1; }));
  EXPECT_FALSE(world_->broker().stands(error.tag));
  world_->broker().ack({own.tag, error.tag});
  world_->broker().pause_intake(false);
  const auto again = one_of_each();
  EXPECT_TRUE(own.tag.session.before(again.first.tag.session));
  EXPECT_TRUE(error.tag.session.before(again.second.tag.session));
  world_->broker().requeue({again.second.tag});
  const auto third = sink_.deliveries(1);
  ASSERT_EQ(third.size(), 1U);
  EXPECT_EQ(third[0].inlet, Inlet::error);
}

TEST_P(BrokerContractOfErrorQueues, StoppedDeliverNothingMore) {
  start();
  fail("failed");
  const auto got = sink_.deliveries(1);
  ASSERT_EQ(got.size(), 1U);
  world_->broker().stop_intake();
  ASSERT_TRUE(eventually([&] {  // the order has been carried out
    fail("more");
    return world_->depth(errors_) > 0;
  }));
  EXPECT_TRUE(world_->broker().stands(got[0].tag)) << "what is unacked stays ours";
}

INSTANTIATE_TEST_SUITE_P(Every, BrokerContractOfErrorQueues, every_broker(), kind_name);

}  // namespace
}  // namespace rung::test
