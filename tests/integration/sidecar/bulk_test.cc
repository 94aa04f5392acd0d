// Many messages at once: unchanged to the byte, none lost, none twice; the views agree with the consumer.
#include <set>

#include "tests/integration/sidecar/messages.h"
#include "tests/support/seed.h"

namespace rung::test {
namespace {

class Bulk : public SidecarTest {
 protected:
  // No lease is lost, so nothing is sent twice, however busy the machine is.
  void SetUp() override { config.more = "lease: 1m\n"; }
};

TEST_F(Bulk, MessagesOfEverySizeComeBackToTheByte) {
  std::mt19937_64 random(seed());
  config.ladder = "[500ms, 1s]";
  start();
  const std::string queue = attached();
  constexpr std::size_t kMessages = 150, kLargest = 1 << 20;
  // Bodies are made again from their seeds where they are compared: they stay out of memory.
  std::vector<std::uint64_t> seeds(kMessages);
  const auto make = [&](std::size_t i) {
    std::mt19937_64 own(seeds[i]);
    // From 0 B to 1 MB, as many small as large ones.
    std::size_t size = static_cast<std::size_t>(own() % (std::size_t{1} << (own() % 21)));
    if (i % 100 == 0) size = kLargest;
    if (i % 100 == 1) size = 0;
    Message message = random_message(own, size);
    message.headers->emplace_back("number", static_cast<std::int64_t>(i));
    return message;
  };
  for (auto& one : seeds) one = random();
  AmqpProbe consumer;
  consumer.consume(queue, 50);
  std::size_t published = 0, first_seen = 0;
  std::vector<std::string> ids(kMessages);
  std::vector<bool> back(kMessages);
  std::size_t came = 0;
  while (came < kMessages) {
    while (published < kMessages && published < first_seen + 100) {
      ASSERT_TRUE(amqp.publish("", queue, make(published++)));
    }
    const auto received = consumer.next(kBound);
    ASSERT_TRUE(received) << came << " of " << kMessages << " came back";
    const auto number = static_cast<std::size_t>(int_header(received->message, "number"));
    ASSERT_LT(number, kMessages);
    if (!has_header(received->message, "retry-id")) {
      ++first_seen;
      consumer.reject(*received);
      continue;
    }
    consumer.ack(*received);
    ASSERT_FALSE(back[number]) << "twice: " << number;
    back[number] = true;
    ids[number] = retry_id(*received);
    ++came;
    expect_same(make(number), received->message);
    if (HasFailure()) FAIL() << "message " << number;
  }
  EXPECT_EQ(std::set<std::string>(ids.begin(), ids.end()).size(), kMessages);
  EXPECT_EQ(rows("SELECT COUNT(*) AS n FROM retry_current")[0]["n"], std::to_string(kMessages));
  EXPECT_EQ(amqp.depth(failed()), 0U);
}

TEST_F(Bulk, ViewsAgreeWithWhatWasSeen) {
  config.ladder = "[300ms, 600ms, 900ms]";
  config.queue("default", "{ success: { reported_within: 1h } }");
  start();
  const std::string queue = attached();
  constexpr int kMessages = 200;
  std::vector<Message> messages;
  for (int i = 0; i < kMessages; ++i) messages.push_back(order(std::to_string(i)));
  amqp.publish_all("", queue, messages);
  AmqpProbe consumer;
  consumer.consume(queue);
  // Number n fails (n mod 4) times more after the first failure: 0, 1, 2, or until it parks.
  struct Seen {
    std::string id;
    std::int64_t attempts = 0;
    bool succeeded = false;
  };
  std::map<int, Seen> seen;
  std::set<std::pair<std::string, std::int64_t>> deliveries;
  int over = 0;
  while (over < kMessages) {
    const auto received = consumer.next(kBound);
    ASSERT_TRUE(received) << over << " are over";
    const int number = std::stoi(received->message.body);
    if (!has_header(received->message, "retry-id")) {
      consumer.reject(*received);
      continue;
    }
    Seen& one = seen[number];
    const std::int64_t attempt = int_header(received->message, "retry-attempt");
    EXPECT_TRUE(deliveries.insert({retry_id(*received), attempt}).second) << "twice";
    EXPECT_EQ(attempt, one.attempts + 1);
    one.attempts = attempt;
    one.id = retry_id(*received);
    if (attempt > number % 4) {
      consumer.ack(*received);
      report(*received, "succeeded");
      one.succeeded = true;
      ++over;
    } else {
      consumer.reject(*received);
      if (attempt == 3) ++over;
    }
  }
  std::map<std::string, std::string> counted;
  ASSERT_TRUE(eventually([&] {
    counted.clear();
    for (Row& row : rows("SELECT state, tasks FROM retry_by_queue")) counted[row["state"]] = row["tasks"];
    return counted["succeeded"] == "150" && counted["parked"] == "50";
  })) << counted["succeeded"]
      << " succeeded, " << counted["parked"] << " parked";
  std::map<std::string, Row> by_id;
  for (Row& row : current(queue)) by_id[row["retry_id"]] = row;
  ASSERT_EQ(by_id.size(), static_cast<std::size_t>(kMessages));
  for (auto& [number, one] : seen) {
    Row& row = by_id[one.id];
    EXPECT_EQ(row["state"], one.succeeded ? "succeeded" : "parked");
    EXPECT_EQ(row["attempt"], std::to_string(one.attempts));
    auto attempts = history(one.id);
    ASSERT_EQ(attempts.size(), static_cast<std::size_t>(one.attempts));
    for (std::size_t i = 0; i < attempts.size(); ++i) {
      EXPECT_EQ(attempts[i]["attempt"], std::to_string(i + 1));
      EXPECT_EQ(attempts[i]["level"], std::to_string(i + 1));
      EXPECT_GE(std::stoll(attempts[i]["late_ms"]), 0) << described(attempts[i]);
      const bool last = i + 1 == attempts.size();
      EXPECT_EQ(attempts[i]["outcome"], last && one.succeeded ? "succeeded" : "failed")
          << described(attempts[i]);
      EXPECT_EQ(attempts[i]["message_id"], row["message_id"]);
      EXPECT_EQ(attempts[i]["queue"], queue);
    }
  }
}

}  // namespace
}  // namespace rung::test
