// The main function: a rejected message comes back at each level and is parked when the ladder is exhausted;
// never early, under one retry-id, with the headers of the contract and none of the broker's, to this queue
// alone.
#include "tests/integration/sidecar/messages.h"

namespace rung::test {
namespace {

using Climb = SidecarTest;

// Against three clocks: the row's due_at, the consumer's own when the delivery is pushed to it, and the
// moment at which the consumer had said no.
TEST_F(Climb, NeverEarly) {
  config.ladder = "[10ms, 150ms, 350ms]";
  config.more = "lease: 1m\n";  // none is lost: nothing is sent twice
  const std::int64_t delays[] = {0, 10, 150, 350};
  start();
  const std::string queue = attached();
  constexpr int kMessages = 60;
  for (int i = 0; i < kMessages; ++i) {
    ASSERT_TRUE(amqp.publish("", queue, order(std::to_string(i))));
  }
  AmqpProbe consumer;
  consumer.consume(queue);
  std::map<std::string, std::int64_t> rejected_at;  // by body
  struct Seen {
    std::string id;
    std::int64_t attempt, at, refused_at;
  };
  std::vector<Seen> seen;
  for (int done = 0; done < kMessages;) {
    auto received = consumer.next(kBound);
    const std::int64_t now = wall_ms();
    ASSERT_TRUE(received) << done << " of " << kMessages << " are through";
    if (has_header(received->message, "retry-id")) {
      seen.push_back({retry_id(*received), int_header(received->message, "retry-attempt"), now,
                      rejected_at[received->message.body]});
    }
    rejected_at[received->message.body] = wall_ms();
    if (int_header(received->message, "retry-attempt") == 3) {
      consumer.ack(*received);
      ++done;
    } else {
      consumer.reject(*received);
    }
  }
  ASSERT_EQ(seen.size(), 3U * kMessages);
  std::map<std::string, std::vector<Row>> stories;
  for (const Seen& one : seen) {
    ASSERT_TRUE(eventually([&] {
      auto& story = stories[one.id];
      if (story.size() < 3 || story[2]["published_at"] == "NULL") story = history(one.id);
      return story.size() == 3 && story[2]["published_at"] != "NULL";
    }));
    Row& row = stories[one.id][static_cast<std::size_t>(one.attempt - 1)];
    const std::int64_t due = ms_of(row["due_at"]);
    EXPECT_GE(one.at, due) << "delivered before it was due: " << described(row);
    EXPECT_GE(due, one.refused_at + delays[one.attempt])
        << "due before its delay had passed: " << described(row);
    EXPECT_GE(ms_of(row["published_at"]), due);
    EXPECT_EQ(std::to_string(ms_of(row["published_at"]) - due), row["late_ms"]);
  }
}

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
