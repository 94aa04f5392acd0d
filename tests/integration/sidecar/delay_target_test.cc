// rung.delay: where a delayed message goes, and what becomes of it.
#include "tests/integration/sidecar/delay.h"

namespace rung::test {
namespace {

// --- where it goes

TEST_F(Delay, GoesToTheMappingsExchangeWithItsRoutingKey) {
  const std::string queue = attached(), from = new_exchange();
  const std::string to = exchange_to(queue, "topic", "order.*");
  config.more = "delays: [{ from: " + yaml(from) + ", to: " + yaml(to) + " }]\n";
  start();
  const Message message = delayed({{"x-delay", 300}, {"app", "kept"}});
  ASSERT_TRUE(amqp.publish(from, "order.created", message));
  const Received back = delivery(queue);
  EXPECT_EQ(back.exchange, to);
  EXPECT_EQ(back.routing_key, "order.created");
  EXPECT_EQ(text_header(back.message, "app"), "kept");
  Row row = row_of(message);
  EXPECT_EQ(row["queue"], "");
  EXPECT_EQ(row["exchange"], to);
  EXPECT_EQ(row["routing_key"], "order.created");
}

TEST_F(Delay, GoesWhereItsHeadersSay) {
  start();
  const std::string queue = attached(), other = attached();
  const std::string exchange = exchange_to(queue, "direct", "k");
  ASSERT_TRUE(amqp.publish(
      inlet(), other, delayed({{"x-delay", 50}, {"retry-exchange", exchange}, {"retry-routing-key", "k"}})));
  const Received by_exchange = delivery(queue);
  EXPECT_EQ(by_exchange.exchange, exchange);
  EXPECT_FALSE(has_header(by_exchange.message, "retry-exchange"));
  ASSERT_TRUE(amqp.publish(inlet(), other, delayed({{"x-delay", 50}, {"retry-queue", queue}})));
  EXPECT_EQ(delivery(queue).exchange, "");
  ASSERT_TRUE(amqp.publish(inlet(), other, delayed({{"x-delay", 50}})));
  EXPECT_EQ(delivery(other).routing_key, other);
}

TEST_F(Delay, GoesWhereItsTagSaysAndClimbsItsLadder) {
  const std::string queue = attached();
  config.ladders = "  slow: [1h]\n";
  config.more = "tags:\n  close-order: { queue: " + yaml(queue) +
                ", ladder: slow, success: { reported_within: 400ms } }\n";
  start();
  Message message = delayed({{"x-delay", 50}});
  message.properties.type = "close-order";
  ASSERT_TRUE(amqp.publish("", inlet(), message));
  const Received back = delivery(queue);
  EXPECT_EQ(*back.message.properties.type, "close-order");
  EXPECT_EQ(text_header(back.message, "retry-ladder"), "slow");
  Row row = wait_row(message, "scheduled");  // no word: the tag's silence is failure
  EXPECT_EQ(row["tag"], "close-order");
  EXPECT_EQ(row["level"], "1");
  EXPECT_EQ(row["error_type"], "timed_out");
  EXPECT_NE(row["first_failed_at"], "NULL");
}

TEST_F(Delay, SuccessIsPresumedWhereItsTagSaysSo) {
  const std::string queue = attached();
  config.queue("default", "{ success: { reported_within: 1h } }");
  config.more = "tags:\n  remind: { queue: " + yaml(queue) + ", success: { presumed_after: 300ms } }\n";
  start();
  Message message = delayed({});
  message.properties.type = "remind";
  ASSERT_TRUE(amqp.publish(inlet(), "", message));
  amqp.ack(delivery(queue));
  EXPECT_EQ(wait_row(message, "succeeded")["finished_by"], "presumed");
}

// --- what becomes of it

TEST_F(Delay, ByAnExchangeItsFirstDeadLetterTellsTheQueueAndItClimbs) {
  const std::string queue = attached(), beside = attached();
  const std::string exchange = exchange_to(queue, "fanout");
  amqp.bind(beside, exchange);
  config.ladder = "[200ms, 300ms]";
  start();
  const Message message = delayed({{"retry-exchange", exchange}});
  ASSERT_TRUE(amqp.publish(inlet(), "key", message));
  const Received first = delivery(queue);
  amqp.ack(delivery(beside));
  amqp.reject(first);
  for (int level = 1; level <= 2; ++level) {
    const Received back = delivery(queue);
    EXPECT_EQ(retry_id(back), retry_id(first));
    EXPECT_EQ(int_header(back.message, "retry-attempt"), level + 1);
    EXPECT_EQ(int_header(back.message, "retry-level"), level);
    EXPECT_TRUE(has_header(back.message, "retry-first-failed-at"));
    EXPECT_EQ(back.exchange, config.prefix + ".return") << "to its queue alone";
    EXPECT_EQ(back.routing_key, "key");
    amqp.reject(back);
  }
  Row row = wait_row(message, "parked");
  EXPECT_EQ(row["queue"], queue);
  EXPECT_EQ(row["attempt"], "3");
  EXPECT_FALSE(amqp.get(beside)) << "a copy for somebody else: it would have been routed with the last one";
}

// Several queues, one task: the word of one must not swallow the message of another.
TEST_F(Delay, BehindAnExchangeEachQueueHasItsWord) {
  const std::string queue = attached(), beside = attached();
  const std::string exchange = exchange_to(queue, "fanout");
  amqp.bind(beside, exchange);
  config.ladder = "[500ms, 1h]";
  start();
  // One has succeeded; then the other fails.
  const Message first = delayed({{"retry-exchange", exchange}});
  ASSERT_TRUE(amqp.publish(inlet(), "key", first));
  const Received there = delivery(beside);
  amqp.ack(delivery(queue));
  report(there, "succeeded");
  amqp.ack(there);
  wait_row(first, "succeeded");
  ASSERT_TRUE(
      amqp.publish(inlet(), "key", delayed({{"retry-exchange", exchange}, {"x-delay", 1}}, first.body)));
  const Received late = delivery(beside);
  amqp.ack(delivery(queue));
  report(late, "succeeded");
  ASSERT_TRUE(eventually(
      [&] { return rows("SELECT 1 FROM retry_current WHERE state = 'succeeded'").size() == 2; }, kBound));
  amqp.reject(late);
  const Received back = delivery(beside);
  EXPECT_EQ(back.message.body, late.message.body);
  EXPECT_NE(retry_id(back), retry_id(late)) << "a task of its own";
  EXPECT_FALSE(amqp.get(queue)) << "it would have been routed with that";
  // One has failed; then the other succeeds.
  const Message second = delayed({{"retry-exchange", exchange}});
  ASSERT_TRUE(amqp.publish(inlet(), "key", second));
  const Received failing = delivery(queue), fine = delivery(beside);
  amqp.reject(failing);
  ASSERT_TRUE(eventually([&] { return row_of(second)["queue"] == queue; }, kBound));
  report(fine, "succeeded");
  amqp.ack(fine);
  const Received again = delivery(queue);
  EXPECT_EQ(again.message.body, second.body);
  EXPECT_EQ(retry_id(again), retry_id(failing));
  EXPECT_EQ(int_header(again.message, "retry-attempt"), 2);
}

// As users of the plugin do it: a consumer postpones its delivery. That must not count as a duplicate of the
// first message.
TEST_F(Delay, PublishedAgainByItsConsumerItWaitsAgain) {
  start();
  const std::string queue = attached();
  Message message = delayed({{"x-delay", 200}});
  ASSERT_TRUE(amqp.publish(inlet(), queue, message));
  const Received first = delivery(queue);
  ASSERT_TRUE(amqp.publish(inlet(), queue, message)) << "as it was";
  amqp.ack(first);
  Received back = delivery(queue);
  EXPECT_EQ(back.message.body, message.body);
  EXPECT_NE(retry_id(back), retry_id(first));
  Message with_headers = back.message;
  with_headers.headers->emplace_back("x-delay", 200);
  ASSERT_TRUE(amqp.publish(inlet(), queue, with_headers)) << "with all the headers that it came with";
  amqp.ack(back);
  const Received third = delivery(queue);
  EXPECT_EQ(third.message.body, message.body);
  EXPECT_NE(retry_id(third), retry_id(back));
}

TEST_F(Delay, UnroutableIsAFailureAndClimbs) {
  const std::string queue = attached();
  const std::string exchange = exchange_to(queue, "direct", "right");
  config.ladder = "[900ms, 1h]";
  start();
  const Message message = delayed({{"retry-exchange", exchange}, {"retry-routing-key", "wrong"}});
  ASSERT_TRUE(amqp.publish(inlet(), "", message));
  ASSERT_TRUE(eventually([&] { return row_of(message)["level"] == "1"; }, kBound));
  auto attempts = history(row_of(message)["retry_id"]);
  ASSERT_EQ(attempts.size(), 1U);
  EXPECT_EQ(attempts[0]["outcome"], "returned");
  EXPECT_EQ(attempts[0]["level"], "0");
  amqp.bind(queue, exchange, "wrong");
  EXPECT_EQ(int_header(delivery(queue).message, "retry-level"), 1);
}

// RabbitMQ closes the channel for it; nobody else is to notice.
TEST_F(Delay, AnExchangeThatIsNotThereIsAFailureOfItsOwn) {
  const std::string queue = attached(), missing = new_exchange();
  config.ladder = "[1500ms, 1h]";
  start();
  const Message message = delayed({{"retry-exchange", missing}, {"x-delay", 300}});
  ASSERT_TRUE(amqp.publish(inlet(), "k", message));
  std::vector<Message> others;
  for (int i = 0; i < 40; ++i) others.push_back(delayed({{"x-delay", 300}}));
  amqp.publish_all(inlet(), queue, others);
  EXPECT_EQ(amqp.take(queue, others.size(), kBound).size(), others.size());
  ASSERT_TRUE(eventually([&] { return row_of(message)["level"] == "1"; }, kBound)) << rung().log_tail();
  Row row = row_of(message);
  auto attempts = history(row["retry_id"]);
  ASSERT_EQ(attempts.size(), 1U);
  EXPECT_EQ(attempts[0]["outcome"], "returned");
  EXPECT_NE(attempts[0]["error"].find(missing), std::string::npos) << described(attempts[0]);
  amqp.declare_exchange(missing);
  amqp.bind(queue, missing);
  // What was with the broker when it closed the channel may come twice: nobody knows whether it had arrived.
  Received back = delivery(queue);
  for (std::size_t i = 0; i < others.size() && back.message.body != message.body; ++i) {
    amqp.ack(back);
    back = delivery(queue);
  }
  EXPECT_EQ(back.message.body, message.body);
}

TEST_F(Delay, CancelledBeforeItNeverComes) {
  start();
  const std::string queue = attached();
  const Message message = delayed({{"x-delay", 1500}});
  ASSERT_TRUE(amqp.publish(inlet(), queue, message));
  Row row = wait_row(message, "scheduled");
  ASSERT_EQ(run_shell(rung_program() + " cancel " + row["retry_id"] + " -c " + rung().config_path()).code, 0);
  EXPECT_EQ(wait_row(message, "cancelled")["attempt"], "0");
  expect_nothing(queue, Ms{1600});
}

TEST_F(Delay, SurvivesARestartAndAKill) {
  start();
  const std::string queue = attached();
  const Message long_one = delayed({{"x-delay", 4000}}), short_one = delayed({{"x-delay", 300}});
  const std::int64_t before = wall_ms();
  ASSERT_TRUE(amqp.publish(inlet(), queue, long_one));
  ASSERT_TRUE(amqp.publish(inlet(), queue, short_one));
  wait_row(long_one, "scheduled");
  row_of(short_one);
  rung().kill9();
  const Message meanwhile = delayed({{"x-delay", 100}});
  ASSERT_TRUE(amqp.publish(inlet(), queue, meanwhile));  // on RabbitMQ's disk
  rung().start();
  std::set<std::string> bodies;
  for (int i = 0; i < 3; ++i) {
    const Received back = delivery(queue);
    if (back.message.body == long_one.body) {
      EXPECT_GE(wall_ms(), before + 4000);
    }
    bodies.insert(back.message.body);
    amqp.ack(back);
  }
  EXPECT_EQ(bodies, (std::set<std::string>{long_one.body, short_one.body, meanwhile.body}));
}

TEST_F(Delay, TheSameAgainIsOneTaskAnotherDelayIsAnother) {
  start();
  const std::string queue = attached();
  Message message = delayed({{"x-delay", 1200}});
  ASSERT_TRUE(amqp.publish(inlet(), queue, message));
  ASSERT_TRUE(amqp.publish(inlet(), queue, message));
  Message other = message;
  other.headers = Table{{"x-delay", 1300}};
  ASSERT_TRUE(amqp.publish(inlet(), queue, other));
  for (int i = 0; i < 2; ++i) amqp.ack(delivery(queue));
  expect_nothing(queue);
  EXPECT_EQ(rows("SELECT 1 FROM retry_current WHERE queue = '" + queue + "'").size(), 2U);
}

TEST_F(Delay, WhatMustNotTravelOnIsTakenOff) {
  start();
  const std::string queue = attached(), cc = attached("cc");
  Message message = delayed({{"x-delay", 100}, {"CC", Array{Value{cc}}}, {"BCC", Array{Value{cc}}}});
  message.properties.user_id = "guest";
  message.properties.expiration = "60000";
  message.properties.delivery_mode.reset();
  ASSERT_TRUE(amqp.publish(inlet(), queue, message));
  const Received back = delivery(queue);
  EXPECT_FALSE(has_header(back.message, "CC"));
  EXPECT_FALSE(back.message.properties.expiration);
  EXPECT_FALSE(back.message.properties.user_id);
  EXPECT_EQ(back.message.properties.delivery_mode, 2);
  wait_row(message, "awaiting");  // confirmed: it has been routed to every queue
  EXPECT_FALSE(amqp.get(cc));
}

TEST_F(Delay, WhoHandledItStandsInTheHistory) {
  config.ladder = "[200ms]";
  start();
  const std::string queue = attached();
  const Message message = delayed({});
  ASSERT_TRUE(amqp.publish(inlet(), queue, message));
  const auto say = [&](const Received& back, const char* result, const char* executor) {
    Message word;
    word.headers = Table{{"retry-id", retry_id(back)},
                         {"retry-attempt", int_header(back.message, "retry-attempt")},
                         {"retry-token", text_header(back.message, "retry-token")},
                         {"retry-result", result},
                         {"retry-error", "a stack"},
                         {"retry-executor", executor}};
    ASSERT_TRUE(amqp.publish(results(), "", word));
    amqp.ack(back);
  };
  const Received first = delivery(queue);
  say(first, "failed", "10.0.0.7:4711");
  say(delivery(queue), "succeeded", "10.0.0.8:4711");
  wait_row(message, "succeeded");
  const auto attempts = history(retry_id(first));
  ASSERT_EQ(attempts.size(), 2U);
  EXPECT_EQ(attempts[0].at("executor"), "10.0.0.7:4711");
  EXPECT_EQ(attempts[0].at("error"), "a stack");
  EXPECT_EQ(attempts[1].at("executor"), "10.0.0.8:4711");
}

}  // namespace
}  // namespace rung::test
