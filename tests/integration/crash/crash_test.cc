// The process is killed at each step of each flow, before and after every commit, publish, confirm and ack,
// and restarted. Wherever it was killed: nothing is lost, a repeat can be recognised, and the row and the
// history are the same as without the kill. tests/guarantees.md has the table of the points.
#include "tests/integration/crash/fixture.h"

namespace rung::test {
namespace {

// --- a message fails, fails once more, and succeeds: intake, claim, publish, confirm, failure, report

class CrashOnTheClimb : public Crash {};
TEST_P(CrashOnTheClimb, EndsAsIfNothingHadBeen) { climb("rs", "succeeded"); }
INSTANTIATE_TEST_SUITE_P(At, CrashOnTheClimb,
                         ::testing::Values("delivery.received", "insert.before_commit", "insert.after_commit",
                                           "ack.before_write", "ack.after_write", "claim.before_commit",
                                           "claim.after_commit", "publish.before_write",
                                           "publish.after_write", "confirm.received",
                                           "confirmed.before_commit", "confirmed.after_commit",
                                           "failed.before_commit", "failed.after_commit",
                                           "succeeded.before_commit", "succeeded.after_commit"),
                         point_name);

// --- a message of several frames, cut in the middle

class CrashWithinAMessage : public Crash {};
TEST_P(CrashWithinAMessage, ComesWhole) {
  start_armed();
  const std::string queue = climbing();
  publish_failed(queue, std::string(3'000'000, 'x'));
  AmqpProbe consumer;
  consumer.consume(queue);
  die();
  consume(consumer, "s");
  EXPECT_TRUE(deliveries_.empty()) << "half a message came";
  restart();
  consume_until(consumer, queue, "s", "succeeded");
  expect_whole(queue, "s", "succeeded");
}
INSTANTIATE_TEST_SUITE_P(At, CrashWithinAMessage, ::testing::Values("publish.half_written"), point_name);

// --- from an error queue, where a framework publishes its failures

// MassTransit's. The steps are the same for all dialects.
Table fault() {
  return Table{{"MT-Fault-Message", "no card"},
               {"MT-Fault-ExceptionType", "CardError"},
               {"MT-Fault-Timestamp", "2026-11-24T01:02:03.4567890Z"}};
}

class CrashFromAnErrorQueue : public Crash {
 protected:
  // The failed message, with its headers, goes to the error queue, and is acked.
  void fail_there(Message message) {
    if (!message.headers) message.headers.emplace();
    for (auto& header : fault()) message.headers->push_back(std::move(header));
    ASSERT_TRUE(amqp.publish("", errors_, message));
  }
  void consume_and_fail(AmqpProbe& consumer) {
    while (auto received = consumer.next(Ms{20})) {
      ids_.insert(retry_id(*received));
      ++deliveries_[int_header(received->message, "retry-attempt")];
      EXPECT_EQ(received->message.body, body_);
      for (const auto& [name, value] : fault())
        EXPECT_EQ(find(received->message.headers, name), nullptr) << name;
      fail_there(received->message);
      consumer.ack(*received);
    }
  }

  std::string errors_;
};
TEST_P(CrashFromAnErrorQueue, EndsAsIfNothingHadBeen) {
  queue_ = new_name();
  errors_ = queue_ + "_error";
  amqp.declare(queue_);
  amqp.declare(errors_);
  remove_at_end(errors_);
  config.more += "error_queues: [ { from: " + errors_ + ", dialect: masstransit } ]\n";
  start_armed();
  Message message;
  message.properties.message_id = unique_name("m");
  message.properties.delivery_mode = std::uint8_t{2};
  message.body = body_ = unique_name("body");
  fail_there(message);
  AmqpProbe consumer;
  consumer.consume(queue_);
  die([&] { consume_and_fail(consumer); });
  restart();
  EXPECT_TRUE(eventually([&] {
    consume_and_fail(consumer);
    const auto all = current(queue_);
    return all.size() == 1 && all[0].at("state") == "parked" && amqp.depth(errors_) == 0;
  })) << rung().log_tail();
  EXPECT_EQ(ids_.size(), 1U) << "a repeat under another retry-id";
  EXPECT_EQ(history(*ids_.begin()).size(), 2U);
  EXPECT_EQ(deliveries_.size(), 2U);
}
INSTANTIATE_TEST_SUITE_P(At, CrashFromAnErrorQueue,
                         ::testing::Values("insert.before_commit", "insert.after_commit", "ack.before_write",
                                           "failed.after_commit", "ack.after_write:2"),
                         point_name);

// --- silence

class CrashInSilence : public Crash {};
TEST_P(CrashInSilence, SuccessIsPresumedOnce) {
  config.queue("default", "{ success: { presumed_after: 600ms } }");
  climb(".", "succeeded");
}
INSTANTIATE_TEST_SUITE_P(At, CrashInSilence,
                         ::testing::Values("silence_over.before_commit", "silence_over.after_commit"),
                         point_name);

// --- the target queue is gone, or full

class CrashOnReturn : public Crash {};
TEST_P(CrashOnReturn, ClimbsAndParks) {
  start_armed();
  const std::string queue = new_name();  // never declared
  publish_failed(queue);
  die();
  restart();
  const Row row = wait_state(queue, "parked");
  const auto attempts = history(row.at("retry_id"));
  ASSERT_EQ(attempts.size(), 2U);
  for (const Row& attempt : attempts) EXPECT_EQ(attempt.at("outcome"), "returned");
  expect_nothing_left();
}
INSTANTIATE_TEST_SUITE_P(At, CrashOnReturn,
                         ::testing::Values("publish.after_write", "returned.before_commit",
                                           "returned.after_commit", "returned.after_commit:2"),
                         point_name);

class CrashOnRefusal : public Crash {};
TEST_P(CrashOnRefusal, CostsNoAttempt) {
  start_armed();
  const std::string queue = new_name();
  Table full{{"x-max-length", std::int64_t{1}}, {"x-overflow", std::string("reject-publish")}};
  amqp.declare(queue, full);
  remove_at_end(queue);
  ASSERT_TRUE(amqp.publish("", queue, Message{}));  // it is full now
  publish_failed(queue);
  die();
  amqp.purge(queue);
  restart();
  AmqpProbe consumer;
  consumer.consume(queue);
  consume_until(consumer, queue, "s", "succeeded");
  expect_whole(queue, "s", "succeeded");
}
INSTANTIATE_TEST_SUITE_P(At, CrashOnRefusal,
                         ::testing::Values("confirm.received", "deferred.before_commit",
                                           "deferred.after_commit"),
                         point_name);

// --- the copy of what is parked

class CrashOnParkedCopy : public Crash {};
TEST_P(CrashOnParkedCopy, IsSentAtLeastOnce) {
  config.ladder = "[200ms]";
  config.queue("default", "{ parked: publish }");
  climb("r", "parked");
  rung().start();
  ASSERT_TRUE(eventually([&] { return amqp.depth(parked()).value_or(0) > 0; })) << rung().log_tail();
  const std::string noted =
      "SELECT next_at IS NULL FROM rung_tasks WHERE id = " + current(queue_)[0].at("retry_id");
  EXPECT_TRUE(eventually([&] { return db.value(noted) == "1"; })) << "the copy is owed for ever";
  while (auto copy = amqp.get(parked())) {
    EXPECT_EQ(copy->message.body, body_);
    EXPECT_EQ(retry_id(*copy), *ids_.begin());
    amqp.ack(*copy);
  }
}
// Of the publishes the second one: the first is the retry's.
INSTANTIATE_TEST_SUITE_P(At, CrashOnParkedCopy,
                         ::testing::Values("publish.before_write:2", "parked_copy_sent.before_commit",
                                           "parked_copy_sent.after_commit"),
                         point_name);

// --- messages that the database cannot store: to <prefix>.parked, then a row without a body, then acked

class CrashOnOversize : public Crash {};
TEST_P(CrashOnOversize, LiesInTheParkedQueueAndHasARow) {
  start_armed();
  const std::string queue = climbing();
  publish_failed(queue, std::string(21'000'000, 'x'));
  die();
  restart();
  const Row row = wait_state(queue, "parked");
  EXPECT_NE(row.at("last_error").find("max_allowed_packet"), std::string::npos) << row.at("last_error");
  EXPECT_EQ(current(queue).size(), 1U);
  // Until its row exists it is moved again, and complete.
  auto copy = amqp.get(parked());
  ASSERT_TRUE(copy);
  EXPECT_EQ(copy->message.body, body_);
  amqp.purge(parked());
  expect_nothing_left();
}
// The first insert is the one that finds it too large.
INSTANTIATE_TEST_SUITE_P(At, CrashOnOversize,
                         ::testing::Values("insert.before_commit", "publish.half_written", "confirm.received",
                                           "insert.before_commit:2", "ack.before_write"),
                         point_name);

// ---- The walk for what only waits: published to an exchange of `delays:`, taken in, delivered by the
// target's exchange; its first failure tells its queue.

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
  ASSERT_TRUE(eventually([&] { return all().size() == 1 && all()[0].at("state") == "parked"; }));
  const auto attempts = history(all()[0].at("retry_id"));
  ASSERT_EQ(attempts.size(), 3U);
  for (const Row& attempt : attempts) EXPECT_EQ(attempt.at("outcome"), "returned");
  expect_nothing_left();
}
INSTANTIATE_TEST_SUITE_P(At, CrashOnTheDelaysReturn,
                         ::testing::Values("returned.before_commit", "returned.after_commit"), point_name);

}  // namespace
}  // namespace rung::test
