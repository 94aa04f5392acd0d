// The walk for what only waits: published to an exchange of `delays:`, taken in, delivered by the target's
// exchange; its first failure tells its queue.
#include "tests/integration/crash/fixture.h"

namespace rung::test {
namespace {

class CrashOfADelay : public Crash {
 protected:
  void SetUp() override {
    Crash::SetUp();
    queue_ = climbing();
    to_ = unique_name("to");
    from_ = unique_name("from");
    amqp.declare_exchange(to_, "topic");
    amqp.bind(queue_, to_, "#");
    config.more += "delays: [{ from: " + from_ + ", to: " + to_ + " }]\n";
  }
  void TearDown() override {
    amqp.remove_exchange(to_);
    amqp.remove_exchange(from_);
  }

  // The one row of the message, whatever is known of its queue.
  std::vector<Row> all() { return rows("SELECT * FROM retry_current"); }

  std::string to_, from_;
};

// It waits, is rejected once, and then succeeds.
class CrashOnTheDelaysWay : public CrashOfADelay {};
TEST_P(CrashOnTheDelaysWay, EndsAsIfNothingHadBeen) {
  start_armed();
  const std::int64_t published = wall_ms();
  publish_delayed(from_, "300");
  AmqpProbe consumer;
  consumer.consume(queue_);
  die([&] { consume(consumer, "rs"); });
  restart();
  consume_until(consumer, queue_, "rs", "succeeded");
  expect_whole(queue_, "rs", "succeeded");
  ASSERT_EQ(all().size(), 1U) << "one message, one row";
  EXPECT_EQ(all()[0].at("kind"), "delay");
  const auto attempts = history(*ids_.begin());
  EXPECT_GE(ms_of(attempts[0].at("due_at")), published + 300);
  EXPECT_EQ(attempts[0].at("level"), "0");
  EXPECT_EQ(attempts[1].at("level"), "1");
}
INSTANTIATE_TEST_SUITE_P(At, CrashOnTheDelaysWay,
                         ::testing::Values("insert.after_commit", "failed.before_commit"), point_name);

// Its exchange leads nowhere.
class CrashOnTheDelaysReturn : public CrashOfADelay {};
TEST_P(CrashOnTheDelaysReturn, ClimbsAndParks) {
  amqp.remove(queue_);
  start_armed();
  publish_delayed(from_, "100");
  die();
  restart();
  ASSERT_TRUE(eventually([&] { return all().size() == 1 && all()[0].at("state") == "parked"; }, kBound));
  const auto attempts = history(all()[0].at("retry_id"));
  ASSERT_EQ(attempts.size(), 3U);
  for (const Row& attempt : attempts) EXPECT_EQ(attempt.at("outcome"), "returned");
  expect_nothing_left();
}
INSTANTIATE_TEST_SUITE_P(At, CrashOnTheDelaysReturn,
                         ::testing::Values("returned.before_commit", "returned.after_commit"), point_name);

}  // namespace
}  // namespace rung::test
