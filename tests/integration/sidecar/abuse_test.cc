// Malformed and hostile messages. Each is parked, climbs or is ignored, with a reason that a person
// understands; none stops the flow: after each, a plain message still climbs, and nothing stays unacked. What
// single headers may hold: ReadFailure, ReadResult, ReadDelay in tests/unit/core, and
// Intake.GarbageHeadersNeverStopTheFlow.
#include <gmock/gmock.h>

#include "src/core/base/utf8.h"
#include "tests/integration/sidecar/messages.h"
#include "tests/support/http_client.h"

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

// A replica was promoted without the last commits: a delivery is out, and the database knows nothing of it.
TEST_F(Abuse, AFailureWhoseRowIsGoneBeginsAnewWhereItsDeliveryWas) {
  config.ladder = "[200ms, 300ms, 400ms]";
  config.queue("default", "{ success: { presumed_after: 1h } }");
  const int port = free_port();
  config.more = "http: { listen: \"127.0.0.1:" + std::to_string(port) + "\" }\n";
  start();
  const std::string queue = attached();
  Message message;
  message.body = "an order";
  message.properties.message_id = "order-1";
  fail(queue, message);
  amqp.reject(delivery(queue));
  const Received second = delivery(queue);
  wait_state(queue, "awaiting");
  const std::string id = retry_id(second);
  for (const char* table :
       {"rung_tasks WHERE id", "rung_attempts WHERE task_id", "rung_bodies WHERE task_id"})
    db.exec("DELETE FROM " + std::string(table) + " = " + id);
  amqp.reject(second);
  const Received third = delivery(queue);
  EXPECT_NE(retry_id(third), id);
  EXPECT_EQ(int_header(third.message, "retry-attempt"), 1);
  EXPECT_EQ(int_header(third.message, "retry-level"), 3) << "it climbs on";
  EXPECT_EQ(int_header(third.message, "retry-first-failed-at"),
            int_header(second.message, "retry-first-failed-at"));
  EXPECT_EQ(third.message.body, "an order");
  ASSERT_EQ(current(queue).size(), 1U);
  EXPECT_NE(current(queue)[0]["last_error"].find("the row of retry-id " + id + " is gone"),
            std::string::npos);
  const std::string ready = HttpClient(port).call("GET", "/readyz").body;
  EXPECT_THAT(ready, HasSubstr("\"behind\""));
  amqp.reject(third);  // the third level was the last one
  wait_state(queue, "parked");
}

}  // namespace
}  // namespace rung::test
