// rung.delay: every form of a delay, never early, and what is none.
#include "tests/integration/sidecar/delay.h"

namespace rung::test {
namespace {

TEST_F(Delay, ComesWhenItsTimeHasComeAsItWas) {
  start();
  const std::string queue = attached();
  Message message = everything();
  message.properties.message_id = unique_name("m");
  message.headers->emplace_back("x-delay", std::int32_t{700});
  const std::int64_t before = wall_ms();
  ASSERT_TRUE(amqp.publish(inlet(), queue, message));
  const Received back = delivery(queue);
  EXPECT_GE(wall_ms(), before + 700);
  EXPECT_EQ(back.exchange, "");
  EXPECT_EQ(back.message.body, message.body);
  EXPECT_FALSE(has_header(back.message, "x-delay"));
  EXPECT_EQ(int_header(back.message, "retry-attempt"), 1);
  EXPECT_EQ(int_header(back.message, "retry-level"), 0);
  EXPECT_EQ(int_header(back.message, "retry-levels"), 3);
  EXPECT_EQ(text_header(back.message, "retry-ladder"), "default");
  EXPECT_FALSE(has_header(back.message, "retry-first-failed-at"));
  Message plain = message;
  plain.headers->pop_back();
  EXPECT_EQ(canonical(without_added(back.message)), canonical(*plain.headers));
  Row row = row_of(message);
  EXPECT_EQ(row["kind"], "delay");
  EXPECT_EQ(row["level"], "0");
  EXPECT_EQ(row["first_failed_at"], "NULL");
  EXPECT_EQ(row["queue"], queue);
  EXPECT_EQ(row["exchange"], inlet());
  amqp.ack(back);
  report(back, "succeeded");
  wait_row(message, "succeeded");
  EXPECT_EQ(amqp.depth(inlet()), 0U);
}

TEST_F(Delay, EveryIntegerOfAmqpAndWhatClientsMakeOfIt) {
  start();
  const std::string queue = attached();
  const std::vector<std::pair<Value, std::int64_t>> forms = {{std::int8_t{120}, 120},
                                                             {std::uint8_t{220}, 220},
                                                             {std::int16_t{400}, 400},
                                                             {std::uint16_t{400}, 400},
                                                             {std::int32_t{400}, 400},
                                                             {std::uint32_t{400}, 400},
                                                             {std::int64_t{400}, 400},
                                                             {std::string("400"), 400},
                                                             {400.9, 400},
                                                             {Decimal{1, 4000}, 400},
                                                             {std::int32_t{0}, 0},
                                                             {std::int32_t{-9000}, 0},
                                                             {Value{}, 0}};
  std::vector<Message> sent;
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> wanted;  // body -> published, delay
  for (const auto& [form, delay] : forms) {
    sent.push_back(delayed({{"x-delay", form}}));
    wanted[sent.back().body] = {wall_ms(), delay};
    ASSERT_TRUE(amqp.publish(inlet(), queue, sent.back()));
  }
  for (std::size_t i = 0; i < forms.size(); ++i) {
    const Received back = delivery(queue);
    ASSERT_TRUE(wanted.contains(back.message.body));
    const auto [published, delay] = wanted[back.message.body];
    EXPECT_GE(wall_ms(), published + delay);
    amqp.ack(back);
  }
  for (std::size_t i = 0; i < forms.size(); ++i) {
    Row row = row_of(sent[i]);
    auto attempts = history(row["retry_id"]);
    ASSERT_EQ(attempts.size(), 1U);
    EXPECT_EQ(ms_of(attempts[0]["due_at"]) - ms_of(row["created_at"]), forms[i].second) << i;
  }
}

TEST_F(Delay, WhatCannotBeMeantIsParkedWithTheReason) {
  start();
  const std::string queue = attached();
  const std::vector<std::pair<Table, const char*>> wrong = {
      {{{"x-delay", "soon"}}, "x-delay 'soon' is not a number of milliseconds"},
      {{{"x-delay", true}}, "x-delay is not a number of milliseconds"},
      {{{"x-delay", Table{}}}, "x-delay is not a number of milliseconds"},
      {{{"x-delay", std::int64_t{400'000'000'000}}}, "x-delay is longer than 3650d"},
      {{{"retry-not-before", std::int64_t{1'800'000'000}}}, "looks like seconds"},
      {{{"retry-queue", std::string(300, 'q')}}, "retry-queue is not a valid name"},
  };
  for (const auto& [headers, reason] : wrong) {
    const Message message = delayed(headers);
    ASSERT_TRUE(amqp.publish(inlet(), queue, message));
    Row row = wait_row(message, "parked");
    EXPECT_NE(row["last_error"].find(reason), std::string::npos) << described(row);
    EXPECT_EQ(row["kind"], "delay");
  }
  // Without a target.
  const Message nowhere = delayed({{"x-delay", 1}});
  ASSERT_TRUE(amqp.publish("", inlet(), nowhere));
  EXPECT_NE(wait_row(nowhere, "parked")["last_error"].find("nothing says where it goes"), std::string::npos);
  EXPECT_EQ(amqp.depth(inlet()), 0U);
}

TEST_F(Delay, NotBeforeAndTheLaterOfTwo) {
  start();
  const std::string queue = attached();
  const std::int64_t at = wall_ms() + 900;
  const Message late = delayed({{"retry-not-before", at}, {"x-delay", 100}});
  ASSERT_TRUE(amqp.publish(inlet(), queue, late));
  delivery(queue);
  EXPECT_GE(wall_ms(), at);
  const Message over = delayed({{"retry-not-before", at - 5000}});
  ASSERT_TRUE(amqp.publish(inlet(), queue, over));
  EXPECT_EQ(delivery(queue).message.body, over.body);
}

// Against the row's due time and the publisher's own clock.
TEST_F(Delay, NeverEarlyAndInOrderOfTheirTimes) {
  start();
  const std::string queue = attached();
  constexpr int kMessages = 200;
  AmqpProbe consumer;
  consumer.consume(queue, 500);
  std::map<std::string, std::int64_t> not_before;  // by body
  for (int i = 0; i < kMessages; ++i) {
    const int delay = (i * 37) % 900;
    const Message message = delayed({{"x-delay", std::int32_t{delay}}}, std::to_string(i));
    not_before[message.body] = wall_ms() + delay;
    ASSERT_TRUE(amqp.publish(inlet(), queue, message));
  }
  for (int i = 0; i < kMessages; ++i) {
    const auto back = consumer.next(kBound);
    ASSERT_TRUE(back) << i;
    EXPECT_GE(wall_ms(), not_before[back->message.body]);
    consumer.ack(*back);
  }
  ASSERT_TRUE(eventually(
      [&] {
        return rows("SELECT 1 FROM retry_history WHERE queue = '" + queue + "' AND published_at IS NOT NULL")
                   .size() == static_cast<std::size_t>(kMessages);
      },
      kBound));
  EXPECT_TRUE(
      rows("SELECT * FROM retry_history WHERE queue = '" + queue + "' AND published_at < due_at").empty());
}

}  // namespace
}  // namespace rung::test
