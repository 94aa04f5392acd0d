// The possible contents of a message, and how the broker changes them.
#include <cmath>

#include "plugin/rabbitmq/wire/codec.h"
#include "tests/integration/rabbitmq/fixture.h"

namespace rung::test {
namespace {

class Messages : public RabbitTest {};

// Nested arrays: 5 bytes a level on the wire.
Value nested(int levels) {
  Value v{Array{}};
  for (int i = 1; i < levels; ++i) {
    Array outer;
    outer.push_back(std::move(v));
    v = Value(std::move(outer));
  }
  return v;
}
int depth_of(const Value& v) {
  int depth = 0;
  for (const Value* at = &v; const Array* a = std::get_if<Array>(&at->v); at = &(*a)[0]) {
    ++depth;
    if (a->empty()) break;
  }
  return depth;
}

TEST_F(Messages, BodiesOfEverySizeBothWays) {
  start_up();
  // Around the frame's size (131072 less 8), where bodies begin to go in pieces.
  const std::vector<std::size_t> sizes{0, 1, 131063, 131064, 131065, 262128, 1'000'000, 16'777'216};
  std::uint64_t token = 0;
  for (const std::size_t size : sizes) {
    Message message = full_message();
    std::string body(size, '\0');
    for (std::size_t i = 0; i < size; ++i) body[i] = static_cast<char>(i * 2654435761U >> 7);
    message.body = std::move(body);
    broker_->publish({outgoing(++token, message)});
    // The last goes alone. A busy broker may take seconds for it: then it counts as lost, and the next time
    // it goes beside the others.
    if (size > 1'000'000 && how(token) == How::lost) broker_->publish({outgoing(++token, message)});
    ASSERT_EQ(how(token), How::confirmed) << size;
    const auto there = probe().take(queue_, 1);
    ASSERT_EQ(there.size(), 1U) << size;
    EXPECT_TRUE(canonical(there[0].message) == canonical(message)) << size;
    ASSERT_TRUE(probe().publish(failed(), "", message));
    const Delivery back = next();
    EXPECT_TRUE(canonical(back.message) == canonical(message)) << size;
    broker_->ack({back.tag});
  }
}

TEST_F(Messages, EveryFieldTypeSurvivesDeadLettering) {
  start_up();
  const std::string source = queue_ + "-dlx";
  probe().declare(source, {{"x-dead-letter-exchange", failed()}});
  const Message message = full_message();
  ASSERT_TRUE(probe().publish("", source, message));
  probe().reject(*probe().get_within(source));
  const auto got = sink_.deliveries(1);
  probe().remove(source);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].message.body, message.body);
  EXPECT_EQ(got[0].message.properties, message.properties);
  const Table& headers = *got[0].message.headers;
  const Value* death = find(got[0].facts.headers, "x-death");
  ASSERT_NE(death, nullptr);
  const Value* queue = find(std::get<Table>(std::get<Array>(death->v)[0].v), "queue");
  ASSERT_NE(queue, nullptr);
  EXPECT_EQ(*queue, Value(source));
  // RabbitMQ writes the headers anew when it dead-letters: it keeps all but u64, of which it makes i64, and,
  // of two of one name, the order.
  for (const auto& [name, value] : *message.headers) {
    if (name == "twice") continue;
    const Value* now = find(headers, name);
    ASSERT_NE(now, nullptr) << name;
    if (name == "u64") {
      EXPECT_EQ(*now, Value(std::int64_t{-1}));
    } else {
      EXPECT_EQ(*now, value) << name;
    }
  }
}

TEST_F(Messages, NumbersThatRabbitMQDoesNotHaveAreSentAsText) {
  start_up();
  Message message;
  message.headers = Table{{"nan", std::nan("")},
                          {"inf", std::numeric_limits<double>::infinity()},
                          {"-inf", -std::numeric_limits<float>::infinity()}};
  broker_->publish({outgoing(1, message)});
  EXPECT_EQ(how(1), How::confirmed);
  const auto got = probe().take(queue_, 1);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(canonical(*got[0].message.headers),
            (Table{{"-inf", "-Infinity"}, {"inf", "Infinity"}, {"nan", "NaN"}}));
}

TEST_F(Messages, HeadersNestedWithoutEndComeInAndHarmNothing) {
  start_up();
  for (const int levels : {64, 65, 1000, 20000}) {
    // Written by hand: making such a Value, or encoding it by recursion, is what could break.
    std::string inner;
    for (int i = 0; i < levels; ++i) {
      std::string outer = "A....";
      for (std::size_t b = 0; b < 4; ++b) outer[1 + b] = static_cast<char>(inner.size() >> (24 - 8 * b));
      inner.insert(0, outer);
      if (levels > 2000 && i > 200) break;
    }
    Message message;
    std::uint64_t size = 0;
    std::string payload("\0\x3c\0\0\0\0\0\0\0\0\0\0\x20\0", 14);  // class 60, no body, only headers
    const std::string table = std::string("\x04", 1) + "deep" + inner;
    for (int b = 0; b < 4; ++b) payload.push_back(static_cast<char>(table.size() >> (24 - 8 * b)));
    payload += table;
    EXPECT_TRUE(rabbit::decode_content_header(payload, message, size));
    const Value* deep = find(message.headers, "deep");
    ASSERT_NE(deep, nullptr);
    EXPECT_LE(depth_of(*deep), rabbit::kMaxDepth + 1);
  }
  // And through a real broker, as deep as the probe's own recursion carries.
  Message message = text("deep");
  message.headers = Table{{"deep", nested(1000)}, {"after", 1}};
  ASSERT_TRUE(probe().publish(failed(), "", message));
  const Delivery got = next();
  EXPECT_EQ(got.message.body, "deep");
  EXPECT_EQ(*find(got.message.headers, "after"), Value(std::int32_t{1}));
  // What came in can go out again.
  broker_->publish({outgoing(1, got.message)});
  EXPECT_EQ(how(1), How::confirmed);
}

TEST_F(Messages, WhatCannotBeEncodedIsRejectedWithTheReason) {
  start_up();
  Message deep, big, long_property;
  deep.headers = Table{{"deep", nested(rabbit::kMaxDepth + 1)}};
  big.headers = Table{{"big", std::string(140'000, 'x')}};
  long_property.properties.message_id = std::string(256, 'm');
  Message fits;
  fits.headers = Table{{"big", std::string(130'000, 'x')}};
  broker_->publish({outgoing(1, deep), outgoing(2, big), outgoing(3, long_property), outgoing(4, fits)});
  for (std::uint64_t token = 1; token <= 3; ++token) EXPECT_EQ(how(token), How::rejected) << token;
  EXPECT_THAT(sink_.result(1)->reason, HasSubstr("deeper"));
  EXPECT_THAT(sink_.result(2)->reason, HasSubstr("140"));
  EXPECT_THAT(sink_.result(3)->reason, HasSubstr("255"));
  EXPECT_EQ(how(4), How::confirmed);
  EXPECT_EQ(probe().take(queue_, 1)[0].message, fits);
}

TEST_F(Messages, ReturnsFindTheirMessageAmongLookalikes) {
  start_up();
  // The same queue, body and properties: only the retry headers tell them apart; some have a queue, some not.
  std::vector<Outgoing> batch;
  for (std::uint64_t i = 1; i <= 600; ++i) {
    Message m = text("alike");
    m.headers =
        Table{{"retry-id", std::to_string(i / 3)}, {"retry-attempt", static_cast<std::int64_t>(i % 3)}};
    batch.push_back({i, "", i % 2 == 0 ? queue_ : queue_ + "-gone", m});
  }
  broker_->publish(std::move(batch));
  ASSERT_TRUE(sink_.published(600));
  for (std::uint64_t i = 1; i <= 600; ++i)
    EXPECT_EQ(how(i), i % 2 == 0 ? How::confirmed : How::returned) << i;
}

}  // namespace
}  // namespace rung::test
