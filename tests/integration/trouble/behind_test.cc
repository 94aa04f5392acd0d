// A delivery is out, and the database no longer knows of it: a replica was promoted without the last commits,
// or the row is read where they are not yet. The test takes the commits back by hand.
#include "tests/integration/trouble/fixture.h"

namespace rung::test {
namespace {

class Behind : public SidecarTest {
 protected:
  Behind() : port_(free_port()) {
    config.ladder = "[200ms, 300ms, 400ms]";
    config.queue("default", "{ success: { presumed_after: 1h } }");
    config.more += "http: { listen: \"127.0.0.1:" + std::to_string(port_) + "\" }\n";
  }

  // What the consumer holds of a message that failed `times` times, once all of it is committed.
  Received held(const std::string& queue, int times) {
    Message message;
    message.body = "an order";
    message.properties.message_id = "order-1";
    fail(queue, message);
    Received back = delivery(queue);
    for (int i = 1; i < times; ++i) {
      amqp.reject(back);
      back = delivery(queue);
    }
    EXPECT_EQ(int_header(back.message, "retry-attempt"), times);
    wait_state(queue, "awaiting");
    return back;
  }
  // As the row stood before attempt `attempt` was claimed; not due, so that nobody publishes it meanwhile.
  void take_back(const std::string& id, int attempt) {
    db.exec(
        "UPDATE rung_tasks SET state = 'scheduled', next_at = UTC_TIMESTAMP(3) + INTERVAL 1 HOUR, attempt "
        "= " +
        std::to_string(attempt - 1) + ", level = " + std::to_string(attempt) + " WHERE id = " + id);
    db.exec("DELETE FROM rung_attempts WHERE attempt >= " + std::to_string(attempt) + " AND task_id = " + id);
  }
  bool told() {
    HttpClient http(port_);
    const auto json = http.call("GET", "/readyz").json();
    for (const auto& problem : json["problems"]) {
      if (problem["name"] == "behind") return true;
    }
    return false;
  }
  std::string counted() {
    HttpClient http(port_);
    const std::string text = http.call("GET", "/metrics").body;
    const auto at = text.find("\nrung_rows_behind_total ");
    return at == std::string::npos ? "none" : text.substr(at + 24, text.find('\n', at + 1) - at - 24);
  }

  const int port_;
};

TEST_F(Behind, AFailureOfALaterAttemptIsThatAttemptAndClimbsOn) {
  start();
  const std::string queue = attached();
  const Received second = held(queue, 2);
  const std::string id = retry_id(second);
  take_back(id, 1);
  amqp.reject(second);
  const Received third = delivery(queue);
  EXPECT_EQ(retry_id(third), id);
  EXPECT_EQ(int_header(third.message, "retry-attempt"), 3);
  EXPECT_EQ(int_header(third.message, "retry-level"), 3);
  EXPECT_EQ(third.message.body, "an order");
  const auto attempts = history(id);
  ASSERT_EQ(attempts.size(), 2U) << "attempt 1 was lost with the row";
  EXPECT_EQ(attempts[0].at("attempt"), "2");
  EXPECT_EQ(attempts[0].at("outcome"), "failed");
  EXPECT_EQ(attempts[0].at("published_at"), "NULL");
  EXPECT_NE(attempts[0].at("error").find("the row was behind: it had attempt 0 and said scheduled"),
            std::string::npos);
  EXPECT_EQ(current(queue).size(), 1U) << "no stranger beside it";
  EXPECT_EQ(db.value("SELECT COUNT(*) FROM retry_current WHERE state IN ('parked', 'succeeded')"), "0");
  EXPECT_TRUE(told());
  EXPECT_EQ(counted(), "1");
  const std::string events = "SELECT COUNT(*) FROM retry_events WHERE kind = 'rows_behind'";
  EXPECT_TRUE(eventually([&] { return db.value(events) == "1"; }, kBound)) << db.value(events);
  amqp.ack(third);
}

TEST_F(Behind, ARowThatIsGoneBeginsAnewWhereItsDeliveryWas) {
  start();
  const std::string queue = attached();
  const Received second = held(queue, 2);
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
  EXPECT_TRUE(told());
  amqp.reject(third);  // the third level was the last one
  wait_state(queue, "parked");
}

}  // namespace
}  // namespace rung::test
