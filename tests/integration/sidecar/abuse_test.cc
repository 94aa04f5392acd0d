// Malformed and hostile messages. Each is parked, climbs or is ignored, with a reason that a person
// understands; none stops the flow: after each, a plain message still climbs, and nothing stays unacked. What
// single headers may hold: ReadFailure, ReadResult, ReadDelay in tests/unit/core, and
// Intake.GarbageHeadersNeverStopTheFlow.
#include <gmock/gmock.h>

#include "src/core/base/utf8.h"
#include "tests/integration/sidecar/messages.h"

namespace rung::test {
namespace {

using ::testing::HasSubstr;

class Abuse : public SidecarTest {
 protected:
  void SetUp() override { config.ladder = "[200ms, 400ms]"; }

  // Proves that nothing before it has stopped the flow.
  void plain_one_climbs() {
    const std::string queue = attached("plain");
    const Message message = order(unique_name("plain"));
    fail(queue, message);
    const Received back = delivery(queue);
    EXPECT_EQ(back.message.body, message.body);
    amqp.ack(back);
    report(back, "succeeded");
    wait_id(retry_id(back), "succeeded");
  }

  // What stays unacked shows when the process has gone: it lies there again.
  void nothing_stays() {
    plain_one_climbs();
    EXPECT_TRUE(rung().running());
    rung().signal(SIGTERM);
    EXPECT_EQ(rung().wait_exit(), 0);
    EXPECT_EQ(amqp.depth(failed()), 0U) << "not acked";
    EXPECT_EQ(amqp.depth(results()), 0U) << "not acked";
  }

  // Headers whose one text is so long that the header frame is the largest that this client sends.
  static Message with_header_of(std::size_t bytes) {
    Message message;
    message.properties.message_id = unique_name("wide");
    message.headers = Table{{"wide", std::string(bytes, 'w')}};
    message.body = "small";
    return message;
  }
};

// A header frame of 128 KB less a few bytes is the largest that may be sent (frame_max). What the broker adds
// when it dead-letters comes on top: the frame that reaches us is larger than agreed.
TEST_F(Abuse, HeadersOfAWholeFrame) {
  start();
  for (const std::size_t bytes : {130'000U, 130'900U, 131'000U}) {
    const std::string queue = attached();
    const Message message = with_header_of(bytes);
    fail(queue, message);
    std::vector<Row> found;
    ASSERT_TRUE(eventually([&] { return !(found = current(queue)).empty(); }, kBound))
        << bytes << ": no row\n";
    Row row;
    ASSERT_TRUE(eventually(
        [&] {
          row = current(queue).at(0);
          return row["state"] == "parked" || row["state"] == "awaiting";
        },
        kBound))
        << bytes;
    if (row["state"] == "parked") {
      EXPECT_THAT(row["last_error"], HasSubstr("more than fit into a frame")) << bytes;
    } else {
      const Received back = delivery(queue);
      expect_same(message, back.message);
      amqp.ack(back);
    }
    std::printf("%zu bytes of headers: %s %s\n", bytes, row["state"].c_str(), row["last_error"].c_str());
    plain_one_climbs();
  }
  nothing_stays();
}

TEST_F(Abuse, AMessageThatIsDamagedOrGoneParksAlone) {
  config.ladder = "[1h]";
  const std::string queue = attached("damaged"), good = attached("good");
  config.queue(queue, "{ parked: publish }");
  start();
  for (const auto& [name, to] : {std::pair{"broken", queue}, {"gone", queue}, {"good", good}}) {
    Message message = order();
    message.properties.message_id = name;
    fail(to, message);
  }
  wait_state(good, "scheduled");
  ASSERT_TRUE(eventually([&] { return current(queue).size() == 2; }, kBound));
  const std::string bodies = "`" + db.name() + "`.rung_bodies";
  const std::string ids =
      " WHERE task_id = (SELECT id FROM `" + db.name() + "`.rung_tasks WHERE message_id = ";
  db.exec("UPDATE " + bodies + " SET properties = '['" + ids + "'broken')");
  db.exec("DELETE FROM " + bodies + ids + "'gone')");
  for (const std::string& each : {queue, good}) ASSERT_EQ(command("fire --queue " + each + " --yes").code, 0);
  EXPECT_EQ(delivery(good).message.properties.message_id, "good");
  ASSERT_TRUE(eventually(
      [&] {
        const auto found = current(queue);
        return std::ranges::all_of(found, [](const Row& row) { return row.at("state") == "parked"; });
      },
      kBound));
  for (const Row& row : current(queue)) {
    EXPECT_THAT(row.at("last_error"), HasSubstr(row.at("message_id") == "broken"
                                                    ? "its row in rung_bodies cannot be read: properties: "
                                                    : "its body is not in the database"));
  }
  // No copy of them is owed any more.
  EXPECT_TRUE(eventually(
      [&] {
        return db.value("SELECT COUNT(*) FROM `" + db.name() +
                        "`.rung_tasks WHERE state = 'parked' AND next_at IS NOT NULL") == "0";
      },
      kBound));
  EXPECT_EQ(amqp.depth(parked()), 0U);
}

}  // namespace
}  // namespace rung::test
