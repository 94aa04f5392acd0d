// An attacker who may only write to Rung's exchanges: a separate broker user, with rights on ^<prefix>\.
// alone.
#include <gmock/gmock.h>

#include <cstdlib>

#include "src/core/base/url.h"
#include "src/core/base/utf8.h"
#include "tests/integration/sidecar/messages.h"
#include "tests/support/http_client.h"

namespace rung::test {
namespace {

using ::testing::HasSubstr;

class Outsider : public SidecarTest {
 protected:
  Outsider() : user_(unique_name("u")) { config.more = "defaults: { success: { reported_within: 1h } }\n"; }
  ~Outsider() override {
    if (!outsider_) return;
    outsider_.reset();
    call_management("DELETE", "/api/users/" + user_);
  }

  // After the sidecar has made its exchanges.
  AmqpProbe& outsider() {
    if (outsider_) return *outsider_;
    call_management("PUT", "/api/users/" + user_, R"({"password":"secret","tags":""})");
    call_management("PUT", "/api/permissions/%2f/" + user_,
                    R"({"configure":"^$","read":"^$","write":"^)" + config.prefix + R"(\\."})");
    auto url = parse_url(amqp_url());
    url->user = user_;
    url->password = "secret";
    outsider_.emplace(format_url(*url));
    return *outsider_;
  }

  void say(Table headers) {
    Message word;
    word.headers = std::move(headers);
    EXPECT_TRUE(outsider().publish(results(), "", word));
  }
  bool empty(const std::string& inlet) {
    return eventually([&] { return amqp.depth(inlet) == 0U; });
  }
  Row parked_row(const std::string& message_id) {
    return wait_row("COALESCE(message_id, '') = '" + message_id + "'", "parked");
  }
  std::vector<Row> audit(const std::string& id) {
    return rows("SELECT * FROM retry_audit WHERE retry_id = " + id);
  }

 private:
  const std::string user_;
  std::optional<AmqpProbe> outsider_;
};

TEST_F(Outsider, CannotEndAnothersTaskByAResult) {
  start();
  const std::string queue = attached();
  fail(queue, order());
  const Received back = delivery(queue);
  amqp.ack(back);
  const std::string id = retry_id(back), token = text_header(back.message, "retry-token");
  wait_id(id, "awaiting");
  for (const char* result : {"succeeded", "failed"}) {
    say({{"retry-id", id}, {"retry-attempt", std::int64_t{1}}, {"retry-result", result}});
    say({{"retry-id", id}, {"retry-result", result}, {"retry-never", true}});
    std::string wrong = token;
    wrong.back() = wrong.back() == '0' ? '1' : '0';
    say({{"retry-id", id}, {"retry-token", wrong}, {"retry-result", result}});
    say({{"retry-id", id},
         {"retry-attempt", std::int64_t{2}},
         {"retry-token", token},
         {"retry-result", result}});
  }
  EXPECT_TRUE(rung().logged("a result without the delivery's retry-token changes nothing"));
  ASSERT_TRUE(empty(results()));
  report(back, "succeeded");  // the consumer's, behind all of them
  wait_id(id, "succeeded");
  EXPECT_EQ(history(id).size(), 1U);
  EXPECT_EQ(audit(id).size(), 0U);
}

TEST_F(Outsider, ReachesOnlyQueuesThatAreAllowed) {
  config.queue("ours", "{}");
  config.broker += "  targets: { allow: [" + yaml(config.prefix + "-allowed*") + "] }\n";
  start();
  const std::string secret = new_name("secret"), allowed = config.prefix + "-allowed-1";
  amqp.declare(secret);
  amqp.declare(allowed);
  remove_at_end(allowed);
  const auto send = [&](const std::string& exchange, const std::string& key, const std::string& id,
                        Table headers) {
    Message message = order(id);
    message.properties.message_id = id;
    message.headers = std::move(headers);
    ASSERT_TRUE(outsider().publish(exchange, key, message));
  };
  const std::string inlet = config.prefix + ".delay";
  const Table death{{"queue", secret}, {"reason", "rejected"}, {"exchange", ""}};
  send(failed(), "", "by-queue", {{"retry-queue", secret}});
  send(failed(), "", "by-death", {{"x-death", Array{death}}});
  send(inlet, "", "by-delay", {{"retry-queue", secret}, {"x-delay", std::int64_t{1}}});
  send(inlet, "", "by-exchange", {{"retry-exchange", "amq.topic"}, {"x-delay", std::int64_t{1}}});
  send(inlet, secret, "by-key", {{"x-delay", std::int64_t{1}}});
  send(failed(), "", "to-itself", {{"retry-queue", inlet}});
  for (const auto& [id, named_by] : std::vector<std::pair<std::string, std::string>>{
           {"by-queue", "the header retry-queue names '" + secret + "'"},
           {"by-death", "the header x-death names '" + secret + "'"},
           {"by-delay", "the header retry-queue names '" + secret + "'"},
           {"by-exchange", "the header retry-exchange names 'amq.topic'"},
           {"by-key", "the routing key names '" + secret + "'"},
           {"to-itself", "the header retry-queue names '" + inlet + "'"}}) {
    EXPECT_THAT(parked_row(id)["last_error"], HasSubstr(named_by + ", which broker.targets does not allow"));
  }
  EXPECT_TRUE(rung().logged("which broker.targets does not allow"));
  send(failed(), "", "good", {{"retry-queue", allowed}});
  EXPECT_EQ(delivery(allowed).message.body, "good");
  EXPECT_EQ(amqp.depth(secret), 0U);
}

// The broker says which queues are attached: a dead letter that waits when the sidecar starts is taken in
// only once it is known that its queue is.
TEST_F(Outsider, AnAttachedQueueIsAllowed) {
  const char* management = std::getenv("RUNG_TEST_MANAGEMENT");
  ASSERT_NE(management, nullptr) << "see tests/run";
  config.broker += "  targets: { allow: [nothing-of-ours] }\n  management: \"" + std::string(management) +
                   "\"\n  attachment_check: 1s\n";
  start();
  rung().signal(SIGTERM);
  ASSERT_TRUE(rung().wait_exit());
  const std::string queue = attached(), stranger = new_name("stranger");
  amqp.declare(stranger);
  fail(queue, order());
  Message message = order();
  message.properties.message_id = "stranger";
  message.headers = Table{{"retry-queue", stranger}};
  ASSERT_TRUE(outsider().publish(failed(), "", message));
  start();
  EXPECT_EQ(int_header(delivery(queue).message, "retry-attempt"), 1);
  EXPECT_THAT(parked_row("stranger")["last_error"], HasSubstr("which broker.targets does not allow"));
}

// ---- Malformed and hostile messages. Each is parked, climbs or is ignored, with a reason that a person
// understands; none stops the flow: after each, a plain message still climbs, and nothing stays unacked. What
// single headers may hold: ReadFailure, ReadResult, ReadDelay in tests/unit/core, and
// Intake.GarbageHeadersNeverStopTheFlow.

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
    ASSERT_TRUE(eventually([&] { return !(found = current(queue)).empty(); })) << bytes << ": no row\n";
    Row row;
    ASSERT_TRUE(eventually([&] {
      row = current(queue).at(0);
      return row["state"] == "parked" || row["state"] == "awaiting";
    })) << bytes;
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
