// The components of a Consumer, without a broker.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugin/rabbitmq/consume/error_queues.h"
#include "plugin/rabbitmq/consume/intake_state.h"
#include "plugin/rabbitmq/wire/codec.h"
#include "plugin/rabbitmq/wire/connection_loop.h"
#include "plugin/rabbitmq/wire/wire.h"

namespace rung::rabbit {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(IntakeSession, OnlyANewerOneOfTheSameIntakeVoidsIt) {
  const IntakeSession session{.number = 2, .intake = 1};
  EXPECT_TRUE(session.before({.number = 3, .intake = 1}));
  EXPECT_TRUE(session.before(session.next()));
  EXPECT_FALSE(session.before(session));
  EXPECT_FALSE(session.before({.number = 1, .intake = 1}));
  EXPECT_FALSE(session.before({.number = 3, .intake = 0}));
  EXPECT_FALSE(IntakeSession{}.before({.number = 3, .intake = 0})) << "of no delivery";
}

TEST(IntakeShares, ErrorQueuesHaveATenthOfThePrefetchAndAQuarterOfTheBytes) {
  BrokerOptions options;
  options.prefetch = 1000;
  options.max_intake_bytes = 64;
  EXPECT_EQ(own_intake_bytes(options), 64U);
  options.error_queues = std::make_shared<const ErrorQueues>(std::vector{ErrorQueue{.from = "orders_error"}});
  EXPECT_EQ(own_intake_bytes(options), 48U);
  EXPECT_EQ(error_intake_bytes(options), 16U);
  EXPECT_EQ(error_prefetch(options.prefetch), 100);
  EXPECT_EQ(error_prefetch(5), 1) << "0 would be no limit";
  EXPECT_EQ(error_prefetch(1'000'000), 65535);
}

// The settling frames in `out`: method, tag and bits.
struct Settled {
  std::uint32_t method;
  std::uint64_t tag;
  int bits;
  bool operator==(const Settled&) const = default;
};
std::vector<Settled> settled_in(std::string_view out) {
  std::vector<Settled> all;
  Frame frame;
  for (auto size = cut_frame(out, 1000, frame); size && *size > 0; size = cut_frame(out, 1000, frame)) {
    std::uint64_t tag = 0;
    for (const char byte : frame.payload.substr(4, 8)) tag = tag << 8 | static_cast<unsigned char>(byte);
    all.push_back({frame.method(), tag, frame.payload.at(12)});
    out.remove_prefix(*size);
  }
  EXPECT_TRUE(out.empty());
  return all;
}

class UnackedTest : public testing::Test {
 protected:
  void deliver(std::uint64_t first, std::uint64_t last) {
    for (std::uint64_t tag = first; tag <= last; ++tag) unacked_.delivered(tag);
  }
  std::vector<Settled> acked(std::vector<std::uint64_t> tags) {
    std::string out;
    unacked_.write_acks(std::move(tags), out);
    return settled_in(out);
  }
  std::vector<Settled> requeued() {
    std::string out;
    unacked_.write_requeues(out);
    return settled_in(out);
  }
  static Settled ack(std::uint64_t tag, int bits = 0) { return {AMQP_BASIC_ACK_METHOD, tag, bits}; }
  static Settled nack(std::uint64_t tag, int bits = 2) { return {AMQP_BASIC_NACK_METHOD, tag, bits}; }

  Unacked unacked_{100};
};

TEST_F(UnackedTest, BeyondTheLimitIsRequeuedOnceHalfOfItIsFree) {
  deliver(1, 3);
  EXPECT_TRUE(unacked_.take(1, 60));
  EXPECT_TRUE(unacked_.take(2, 40));
  EXPECT_FALSE(unacked_.take(3, 1));
  EXPECT_THAT(acked({2}), ElementsAre(ack(2)));
  EXPECT_EQ(unacked_.bytes(), 60U);
  EXPECT_THAT(requeued(), IsEmpty());
  EXPECT_THAT(acked({1}), ElementsAre(ack(1)));
  EXPECT_THAT(requeued(), ElementsAre(nack(3)));
  EXPECT_THAT(requeued(), IsEmpty());
}

TEST_F(UnackedTest, ASingleMessageIsTakenWhateverItsSize) {
  deliver(1, 2);
  EXPECT_TRUE(unacked_.take(1, 1000));
  EXPECT_FALSE(unacked_.take(2, 0));
  EXPECT_EQ(unacked_.bytes(), 1000U);
}

TEST_F(UnackedTest, OneAckForAllBelowTheOldestThatIsOpen) {
  deliver(1, 6);
  EXPECT_THAT(acked({4, 2, 1}), ElementsAre(ack(2, 1), ack(4)));
  unacked_.requeue(3);
  EXPECT_THAT(requeued(), ElementsAre(nack(3)));
  EXPECT_THAT(acked({1, 3, 5, 5, 7}), ElementsAre(ack(5))) << "settled, or never delivered";
  std::string out;
  unacked_.requeue_all(out);
  EXPECT_THAT(settled_in(out), ElementsAre(nack(0, 3)));
  EXPECT_THAT(acked({6}), IsEmpty()) << "it was requeued";
  deliver(7, 8);  // on the same channel
  EXPECT_THAT(acked({7, 8}), ElementsAre(ack(8, 1)));
}

TEST_F(UnackedTest, WhatWasAckedIsNotRequeued) {
  deliver(1, 1);
  unacked_.requeue(1);
  EXPECT_THAT(acked({1}), ElementsAre(ack(1)));
  unacked_.requeue(1);
  EXPECT_THAT(requeued(), IsEmpty());
}

TEST(IntakeEpoch, StandsWhileTheThreadHasItsTurns) {
  IntakeEpoch epoch(Ms{10'000}, 0);
  epoch.next();
  epoch.touch(BootMs{1'000'000});
  EXPECT_FALSE(epoch.stands({1}, BootMs{1'000'000}));
  epoch.stand();
  EXPECT_TRUE(epoch.stands({1}, BootMs{1'005'000}));
  EXPECT_FALSE(epoch.stands({1}, BootMs{1'005'001}));
  EXPECT_FALSE(epoch.touch_and_check(BootMs{1'005'000}));
  EXPECT_EQ(epoch.touch_and_check(BootMs{1'010'001}), Ms{5'001});
  epoch.next();
  epoch.stand();
  EXPECT_FALSE(epoch.stands({1}, BootMs{1'010'001})) << "its deliveries were returned";
  EXPECT_TRUE(epoch.stands({2}, BootMs{1'010'001}));
  epoch.end();
  EXPECT_FALSE(epoch.stands({2}, BootMs{1'010'001}));
}

TEST(Backoff, DoublesUpToTheLongest) {
  Backoff pauses(Ms{1000}, Ms{5000});
  for (const int longest : {1000, 2000, 4000, 5000, 5000}) {
    const Ms next = pauses.next();
    EXPECT_GE(next, Ms{longest / 2});
    EXPECT_LE(next, Ms{longest});
  }
  pauses.reset();
  EXPECT_LE(pauses.next(), Ms{1000});
  EXPECT_GE(pauses.next(Ms{4000}), Ms{2000});
}

}  // namespace
}  // namespace rung::rabbit
