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

TEST_F(IntakeBytes, NothingOfAConnectionThatIsGoneStands) {
  TcpProxy& proxy = through_proxy();
  start_up();
  publish(1, 10);
  const Delivery first = next();
  EXPECT_TRUE(broker_->stands(first.tag));
  proxy.cut();
  const Delivery again = next();
  EXPECT_FALSE(broker_->stands(first.tag));
  EXPECT_TRUE(broker_->stands(again.tag));
  broker_->requeue({first.tag});  // no longer unacked: does nothing
  broker_->requeue({again.tag});  // by the same thread, after it
  EXPECT_EQ(sink_.deliveries(1).size(), 1U);
  publish(1, 10);
  const Delivery marker = next();
  EXPECT_FALSE(marker.redelivered);
}

// ---- Error queues have an intake of their own: whatever happens to it, Rung's own queues are consumed as
// before.

class ErrorIntake : public RabbitTest {
 protected:
  ErrorIntake() {
    errors_ = options_.prefix + "-orders_error";
    others_ = options_.prefix + "-others_error";
    const auto dialect = std::make_shared<const Dialect>();  // it reads nothing
    options_.error_queues = std::make_shared<const ErrorQueues>(
        std::vector{ErrorQueue{.from = errors_, .dialect = dialect, .to = queue_},
                    ErrorQueue{.from = others_, .dialect = dialect, .to = queue_}});
  }
  void TearDown() override {
    RabbitTest::TearDown();
    AmqpProbe probe;
    for (const std::string& queue : {errors_, others_}) probe.remove(queue);
  }
  bool consumed(const std::vector<std::string>& queues) {
    return sink_.error_queues([&](const ErrorQueueReport& report) { return report.consumed == queues; });
  }
  bool has_problem(const std::string& what) {
    return sink_.error_queues(
        [&](const ErrorQueueReport& report) { return report.problem.find(what) != std::string::npos; });
  }
  bool has_no_problem() {
    return sink_.error_queues([](const ErrorQueueReport& report) { return report.problem.empty(); });
  }

  std::string errors_, others_;
};

TEST_F(ErrorIntake, ARefusedQueueClosesNoChannelOfOurOwn) {
  probe().declare(errors_);
  start_up();
  ASSERT_TRUE(consumed({errors_}));
  ASSERT_TRUE(probe().publish(failed(), "", text("own")));
  const Delivery own = next();
  auto owner = std::make_unique<AmqpProbe>();
  owner->declare(others_);
  owner->consume(others_, 1, true);  // the broker refuses every other consumer
  ASSERT_TRUE(has_problem("error queue " + others_ + ": "));
  ASSERT_TRUE(probe().publish(failed(), "", text("after")));
  const Delivery after = next();
  EXPECT_EQ(after.message.body, "after");
  EXPECT_EQ(after.tag.session, own.tag.session) << "the same channel";
  EXPECT_TRUE(broker_->stands(own.tag));
  for (const BrokerStatus& status : sink_.statuses()) EXPECT_EQ(status.reason, "");
  // The other error queue goes on.
  ASSERT_TRUE(probe().publish("", errors_, text("failed")));
  EXPECT_EQ(next().source, errors_);
  // It is tried again, and the problem ends.
  EXPECT_FALSE(sink_.error_queues().problem.empty());
  owner.reset();
  ASSERT_TRUE(consumed({errors_, others_}));
  EXPECT_TRUE(has_no_problem());
  broker_->pause_intake(true);
  EXPECT_TRUE(eventually([&] { return probe().depth(failed()) == 2U; })) << "none was redelivered before";
}

// A refused queue closes the channel, and what the others were sent on it counts as delivered once more.
TEST_F(ErrorIntake, RefusedQueuesDoNotUseUpTheDeliveryLimitOfTheOthers) {
  const std::int32_t limit = 3;
  const auto dialect = std::make_shared<const Dialect>();
  std::vector<ErrorQueue> entries = {{.from = errors_, .dialect = dialect, .to = queue_}};
  AmqpProbe owner;
  for (int i = 0; i < 2 * limit; ++i) {
    const std::string refused = options_.prefix + "-refused_" + std::to_string(i);  // sorted after errors_
    entries.push_back({.from = refused, .dialect = dialect, .to = queue_});
    owner.declare(refused);
    owner.consume(refused, 1, true);
  }
  options_.error_queues = std::make_shared<const ErrorQueues>(entries);
  probe().declare(errors_, {{"x-queue-type", "quorum"}, {"x-delivery-limit", limit}});
  ASSERT_TRUE(probe().publish("", errors_, text("failed")));
  start_up();
  ASSERT_TRUE(consumed({errors_}));
  EXPECT_EQ(next().message.body, "failed");
  broker_->stop(Ms{2000});
  for (std::size_t i = 1; i < entries.size(); ++i) owner.remove(entries[i].from);
}

// Nothing is acked: each intake has its own room.
TEST_F(ErrorIntake, ABacklogTakesNoRoomOfOurOwn) {
  constexpr std::size_t kBytes = 64 * 1024, kCount = 2000;
  options_.prefetch = 500;
  options_.max_intake_bytes = 21 * kBytes;  // a quarter is room for five with their headers
  probe().declare(errors_);
  probe().publish_all("", errors_, std::vector<Message>(kCount, text(std::string(kBytes, 'x'))));
  start_up();
  std::size_t of_errors = sink_.deliveries(5).size();
  ASSERT_TRUE(probe().publish(failed(), "", text(std::string(10 * kBytes, 'y'))));
  std::optional<Delivery> fresh;
  ASSERT_TRUE(eventually([&] {
    for (Delivery& delivery : sink_.deliveries(1, Ms{100})) {
      of_errors += delivery.inlet == Inlet::error ? 1 : 0;
      if (delivery.inlet == Inlet::failed) fresh = std::move(delivery);
    }
    return fresh.has_value();
  }));
  EXPECT_FALSE(fresh->redelivered);
  EXPECT_EQ(of_errors, 5U) << "a quarter of the bytes";
  EXPECT_TRUE(eventually([&] { return probe().depth(errors_) == kCount - options_.prefetch / 10; }))
      << "a tenth of the prefetch";
}

}  // namespace
}  // namespace rung::test
