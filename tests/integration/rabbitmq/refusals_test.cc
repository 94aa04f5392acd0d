// A publish that makes the broker close the channel, or hang up: it is rejected, the others arrive.
#include "plugin/rabbitmq/wire/calls.h"
#include "plugin/rabbitmq/wire/wire.h"
#include "tests/integration/rabbitmq/fixture.h"

namespace rung::test {
namespace {

class Refusals : public RabbitTest {
 protected:
  // 500 good messages with `bad` among them: it is rejected; the others are in the queue, or reported lost.
  void one_bad_among_many(Outgoing bad, const std::string& because, How expected = How::rejected) {
    start_up();
    std::vector<Outgoing> batch;
    for (std::uint64_t i = 1; i <= 500; ++i) batch.push_back(outgoing(i, text(std::to_string(i))));
    bad.token = 1000;
    batch.insert(batch.begin() + 250, std::move(bad));
    broker_->publish(std::move(batch));
    ASSERT_TRUE(sink_.published(501));
    EXPECT_EQ(how(1000), expected);
    EXPECT_THAT(sink_.result(1000)->reason, HasSubstr(because));
    auto ways = sink_.ways();
    EXPECT_FALSE(ways.contains(-1));
    EXPECT_EQ(ways[static_cast<int>(expected)], 1);
    // Those behind it are never lost.
    for (std::uint64_t i = 251; i <= 500; ++i) EXPECT_EQ(how(i), How::confirmed) << i;
    EXPECT_LE(ways[static_cast<int>(How::lost)], 250);
    // Publishing continues as before.
    broker_->publish({outgoing(2000)});
    EXPECT_EQ(how(2000), How::confirmed);
    const auto counts = [&] {
      for (const BrokerStatus& s : sink_.statuses()) {
        if (s.reason.find("closed") != std::string::npos) return false;
      }
      return true;
    };
    EXPECT_TRUE(counts());
  }
};

TEST_F(Refusals, UserIdOfSomebodyElse) {
  Message m;
  m.properties.user_id = "bob";
  one_bad_among_many(outgoing(0, m), "user_id property set to 'bob'");
}

// A closed channel leaves the others unanswered: they would be published again.
TEST_F(Refusals, ADirectReplyToRepeatsNoOtherMessage) {
  start_up();
  std::vector<Outgoing> batch;
  Message bad = text("bad");
  bad.properties.reply_to = "amq.rabbitmq.reply-to";
  Message answerable = text("answerable");  // as the broker gives it to a consumer
  answerable.properties.reply_to = "amq.rabbitmq.reply-to.g1h2AA5yZXBseUA.x==";
  for (std::uint64_t i = 1; i <= 500; ++i) batch.push_back(outgoing(i, i % 100 == 50 ? bad : answerable));
  broker_->publish(std::move(batch));
  ASSERT_TRUE(sink_.published(500));
  for (std::uint64_t i = 1; i <= 500; ++i)
    EXPECT_EQ(how(i), i % 100 == 50 ? How::rejected : How::confirmed) << i;
  EXPECT_THAT(sink_.result(50)->reason, HasSubstr("amq.rabbitmq.reply-to"));
  EXPECT_EQ(probe().depth(queue_), 495U);
}

// Refusals of exchanges that were never used close no channel that others use: nothing is in doubt, nothing
// arrives twice.
TEST_F(Refusals, UnprovenExchangesThatRefuseHurtNobody) {
  start_up();
  constexpr std::uint64_t kRounds = 30, kGood = 20;
  std::uint64_t token = 0;
  std::vector<std::uint64_t> good, bad;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    std::vector<Outgoing> batch;
    for (std::uint64_t i = 0; i < kGood; ++i) {
      good.push_back(++token);
      batch.push_back(outgoing(token, text(std::to_string(token))));
    }
    const std::string none = options_.prefix + ".none" + std::to_string(round);
    for (const std::string& exchange : {none, std::string("amq.rabbitmq.trace")}) {
      bad.push_back(++token);
      batch.insert(batch.begin() + kGood / 2, Outgoing{token, exchange, "k", text("bad")});
    }
    broker_->publish(std::move(batch));
    ASSERT_TRUE(eventually([&] { return sink_.ways().size() > 0; }));
  }
  ASSERT_TRUE(sink_.published(token, Ms{120'000}));
  for (const std::uint64_t one : good) EXPECT_EQ(how(one), How::confirmed) << one;
  for (const std::uint64_t one : bad) EXPECT_EQ(how(one), How::returned) << one;
  EXPECT_EQ(probe().depth(queue_), good.size()) << "a repeat";
}

// Once an exchange has taken a message, its messages go beside the others.
TEST_F(Refusals, AnExchangeIsProvenByItsFirstMessage) {
  start_up();
  const std::string exchange = options_.prefix + ".x";
  probe().declare_exchange(exchange);
  probe().bind(queue_, exchange);
  std::vector<Outgoing> batch;
  for (std::uint64_t i = 1; i <= 1000; ++i) batch.push_back({i, exchange, "k", text(std::to_string(i))});
  broker_->publish(std::move(batch));
  ASSERT_TRUE(sink_.published(1000, Ms{120'000}));
  EXPECT_EQ(sink_.ways()[static_cast<int>(How::confirmed)], 1000);
  EXPECT_EQ(probe().depth(queue_), 1000U);
  // Deleted later: the channel is closed once more, and the exchange is unproven again.
  probe().remove_exchange(exchange);
  broker_->publish({Outgoing{2000, exchange, "k", text("late")}});
  EXPECT_EQ(how(2000), How::returned);
  broker_->publish({outgoing(2001)});
  EXPECT_EQ(how(2001), How::confirmed);
}

}  // namespace
}  // namespace rung::test
