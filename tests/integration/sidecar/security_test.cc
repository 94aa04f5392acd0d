// An attacker who may only write to Rung's exchanges: a separate broker user, with rights on ^<prefix>\.
// alone.
#include <gmock/gmock.h>

#include <cstdlib>

#include "src/core/base/url.h"
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
    return eventually([&] { return amqp.depth(inlet) == 0U; }, kBound);
  }
  Row parked_row(const std::string& message_id) {
    Row row;
    EXPECT_TRUE(eventually(
        [&] {
          auto found =
              rows("SELECT * FROM retry_current WHERE COALESCE(message_id, '') = '" + message_id + "'");
          if (!found.empty()) row = found[0];
          return row["state"] == "parked";
        },
        kBound))
        << message_id << " is " << row["state"];
    return row;
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
  EXPECT_TRUE(rung().logged("a result without the delivery's retry-token changes nothing", kBound));
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
  EXPECT_TRUE(rung().logged("which broker.targets does not allow", kBound));
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

}  // namespace
}  // namespace rung::test
