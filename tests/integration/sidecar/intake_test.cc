// Intake: duplicates, malformed messages, and messages without a known target. After each, the flow
// continues. And what comes back: with the headers of the contract and none of the broker's.
#include "tests/integration/sidecar/messages.h"

namespace rung::test {
namespace {

class Intake : public SidecarTest {
 protected:
  void SetUp() override { config.ladder = "[200ms, 400ms]"; }

  std::string count(const std::string& queue) { return std::to_string(current(queue).size()); }

  // A good message climbs: the proof that nothing before it has stopped the flow.
  void good_one_climbs(const std::string& queue, const std::string& after) {
    const Message message = order(unique_name("good"));
    fail(queue, message);
    const Received back = delivery(queue);
    EXPECT_EQ(back.message.body, message.body) << "after " << after;
    amqp.ack(back);
    report(back, "succeeded");
  }
};

Message failed_at(const std::string& queue, Message message = order()) {
  message.headers->emplace_back("retry-queue", queue);
  message.headers->emplace_back("retry-error", "no");
  return message;
}

TEST_F(Intake, WithoutMessageIdTheyAreTwo) {
  start();
  const std::string queue = attached();
  Message message = failed_at(queue);
  message.properties.message_id.reset();
  ASSERT_TRUE(amqp.publish(failed(), "", message));
  ASSERT_TRUE(amqp.publish(failed(), "", message));
  const auto back = amqp.take(queue, 2, kBound);
  ASSERT_EQ(back.size(), 2U);
  EXPECT_NE(retry_id(back[0]), retry_id(back[1]));
  EXPECT_EQ(count(queue), "2");
}

// Each by itself, to the failed exchange with a good retry-queue, and without: then a good one.
TEST_F(Intake, GarbageHeadersNeverStopTheFlow) {
  start();
  const std::string queue = attached("good"), target = new_name("target");
  amqp.declare(target);
  const std::string bad("\xff\xfe\x00\x80", 4), long_text(60'000, 'e');
  Table deep{{"x", "bottom"}};
  for (int i = 0; i < 60; ++i) deep = Table{{"x", deep}};
  Table many;
  for (int i = 0; i < 5000; ++i) many.emplace_back("n" + std::to_string(i), std::int32_t{i});
  const std::vector<std::pair<std::string, Value>> odd = {
      {"retry-id", "nonsense"},
      {"retry-id", std::int64_t{42}},
      {"retry-id", std::int64_t{-1}},
      {"retry-id", "9223372036854775807"},
      {"retry-id", "18446744073709551616"},
      {"retry-id", bad},
      {"retry-id", Table{}},
      {"retry-attempt", "many"},
      {"retry-attempt", std::int64_t{-5}},
      {"retry-attempt", std::int64_t{1} << 62},
      {"retry-level", "top"},
      {"retry-queue", std::int64_t{5}},
      {"retry-queue", ""},
      {"retry-queue", std::string(300, 'q')},
      {"retry-queue", bad},
      {"retry-queue", Value{}},
      {"retry-queue", Array{}},
      {"x-death", "text"},
      {"x-death", Array{}},
      {"x-death", Array{Value{std::int64_t{1}}, Value{"two"}}},
      {"x-death", Array{Value{Table{}}}},
      {"x-death", Array{Value{Table{{"queue", std::int64_t{7}}, {"count", "x"}, {"time", "now"}}}}},
      {"x-death", Array{Value{Table{{"queue", target}, {"routing-keys", Array{Value{Table{}}}}}}}},
      {"x-death", Array{Value{Table{{"queue", bad}, {"reason", bad}, {"exchange", bad}}}}},
      {"x-last-death-queue", Table{}},
      {"retry-after", "yesterday"},
      {"retry-after", std::int64_t{-5}},
      {"retry-after", Table{}},
      {"retry-after", "9999999999999999999999999d"},
      {"retry-max-attempts", "many"},
      {"retry-max-attempts", std::int64_t{0}},
      {"retry-max-attempts", std::int64_t{-1}},
      {"retry-max-attempts", std::int64_t{1} << 62},
      {"retry-ladder", Table{}},
      {"retry-ladder", bad},
      {"retry-ladder", long_text},
      {"retry-never", "perhaps"},
      {"retry-never", Array{}},
      {"retry-error", bad},
      {"retry-error", long_text},
      {"retry-error", Array{Value{"list"}}},
      {"retry-error", "\xf0\x9f\x92\xa5 nul:" + std::string(1, '\0') + "."},
      {"retry-error-type", long_text},
      {"retry-first-failed-at", "never"},
      {"deep", deep},
      {"many", many},
      {bad, "a name that is not UTF-8"},
      {"", ""},
  };
  int number = 0;
  for (const auto& [name, value] : odd) {
    for (const bool placed : {true, false}) {
      Message message;
      message.body = "odd";
      message.properties.message_id = "odd-" + std::to_string(++number);
      message.headers = Table{};
      if (placed && name != "retry-queue") message.headers->emplace_back("retry-queue", target);
      message.headers->emplace_back(name, value);
      ASSERT_TRUE(amqp.publish(failed(), "", message)) << name;
    }
    if (number % 10 == 0) good_one_climbs(queue, std::to_string(number) + " " + name);
  }
  good_one_climbs(queue, "all of them");
  ASSERT_TRUE(eventually([&] { return amqp.depth(failed()) == 0U; }));
  // Each is a row: nothing was dropped.
  EXPECT_TRUE(eventually([&] {
    return std::stoul(
               rows("SELECT COUNT(*) AS n FROM retry_current WHERE message_id LIKE 'odd-%'")[0]["n"]) ==
           2 * odd.size();
  })) << rows("SELECT COUNT(*) AS n FROM retry_current WHERE message_id LIKE 'odd-%'")[0]["n"]
      << " of " << 2 * odd.size();
  EXPECT_TRUE(rung().running());
}

TEST_F(Intake, OddPropertiesNeverStopTheFlow) {
  start();
  const std::string queue = attached(), bad("\xff\xfe\x00\x80", 4);
  std::vector<Message> odd(7);
  odd[0].properties.message_id = bad;
  odd[1].properties.type = bad;
  odd[2].properties.content_type = bad;
  odd[3].properties.correlation_id = std::string(255, 'c');
  odd[4].properties.message_id = std::string(255, 'm');
  odd[5].properties.timestamp = ~std::uint64_t{0};
  odd[6].properties.delivery_mode = 1;
  odd[6].properties.priority = 255;
  for (Message& message : odd) {
    message.body = bad;
    fail(queue, message);
    const Received back = delivery(queue);
    EXPECT_EQ(back.message.body, message.body);
    Properties expected = message.properties;
    expected.delivery_mode = 2;
    EXPECT_TRUE(back.message.properties == expected);
    amqp.ack(back);
  }
  good_one_climbs(queue, "odd properties");
}

// The publisher's TTL runs out while no sidecar is there.
TEST_F(Intake, WhatExpiresInRungsQueuesIsTakenInAllTheSame) {
  start();
  rung().signal(SIGTERM);
  ASSERT_TRUE(rung().wait_exit());
  const std::string queue = attached(), later = new_name("later"), delay = config.prefix + ".delay";
  amqp.declare(later);
  Message first = failed_at(queue, order("first")), second = failed_at(queue, order("second")),
          delayed = order("delayed");
  delayed.headers->emplace_back("x-delay", 100);
  for (Message* message : {&first, &second, &delayed}) message->properties.expiration = "1";
  ASSERT_TRUE(amqp.publish(failed(), "key", first));
  ASSERT_TRUE(amqp.publish(failed(), "key", second));
  ASSERT_TRUE(eventually([&] { return amqp.depth(delay) == 2U; }));
  rung().start();
  ASSERT_TRUE(rung().wait_ready());
  EXPECT_EQ(amqp.take(queue, 2).size(), 2U);
  EXPECT_EQ(current(queue).at(0).at("last_error"), "no");
  EXPECT_TRUE(rung().logged("a message expired in one of Rung's queues"));

  // Apart: behind a message without a TTL none expires.
  rung().signal(SIGTERM);
  ASSERT_TRUE(rung().wait_exit());
  ASSERT_TRUE(amqp.publish(delay, later, delayed));
  ASSERT_TRUE(eventually([&] { return amqp.depth(failed()) == 1U; }));
  rung().start();
  ASSERT_TRUE(rung().wait_ready());
  EXPECT_EQ(delivery(later).message.properties.message_id, delayed.properties.message_id);
}

using Climb = SidecarTest;

// Traps 3 and 4: nothing of the broker's own, no copies, no user-id, no expiration; persistent.
TEST_F(Climb, TakenOff) {
  start();
  const std::string queue = attached(), copies = new_name("cc"), hidden = new_name("bcc");
  amqp.declare(copies);
  amqp.declare(hidden);
  Message message = order();
  message.properties.user_id = "guest";
  message.properties.expiration = "60000";
  message.properties.delivery_mode = 1;
  message.headers->emplace_back("CC", Array{Value{copies}});
  message.headers->emplace_back("BCC", Array{Value{hidden}});
  // Year 2096: whoever acted on it would keep the message.
  message.headers->emplace_back("x-opt-delivery-time", std::int64_t{4'000'000'000'000});
  message.headers->emplace_back("x-opt-mine", "an annotation of AMQP 1.0");
  fail(queue, message);
  for (int attempt = 1; attempt <= 3; ++attempt) {
    const Received back = delivery(queue);
    EXPECT_EQ(without_added(back.message), (Table{{"tenant", "acme"}, {"tries", std::int64_t{3}}}));
    EXPECT_FALSE(back.message.properties.user_id);
    EXPECT_FALSE(back.message.properties.expiration);
    EXPECT_EQ(back.message.properties.delivery_mode, 2);
    amqp.reject(back);
  }
  wait_state(queue, "parked");
  const std::string kept = db.value(
      "SELECT origin FROM rung_bodies JOIN rung_tasks ON task_id = id WHERE queue = '" + queue + "'");
  EXPECT_NE(kept.find("\"x-opt-mine\":\"an annotation of AMQP 1.0\""), std::string::npos) << kept;
  EXPECT_NE(kept.find("x-opt-delivery-time"), std::string::npos) << kept;
  EXPECT_EQ(amqp.depth(copies), 1U) << "CC fanned out again";
  EXPECT_EQ(amqp.depth(hidden), 1U) << "BCC fanned out again";
}

}  // namespace
}  // namespace rung::test
