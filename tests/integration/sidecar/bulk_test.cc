// Many messages at once: none lost, none twice; the views agree with the consumer.
#include <set>

#include "tests/integration/sidecar/messages.h"

namespace rung::test {
namespace {

class Bulk : public SidecarTest {
 protected:
  // No lease is lost, so nothing is sent twice, however busy the machine is.
  void SetUp() override { config.more = "lease: 1m\n"; }
};

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
  // Counted by minute, and written a moment later: 200 first failures, 300 of retries.
  Row sums;
  EXPECT_TRUE(eventually([&] {
    sums = rows("SELECT SUM(failed) AS f, SUM(retried) AS r, SUM(succeeded) AS s FROM retry_activity")[0];
    return sums["f"] == "500" && sums["r"] == "450" && sums["s"] == "150";
  })) << described(sums);
}

}  // namespace
}  // namespace rung::test
