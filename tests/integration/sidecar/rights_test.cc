// The broker refuses our user: rights that are revoked and given back, and targets that refuse. A vhost and a
// user of each test's own.
#include <cstdlib>

#include "tests/integration/cli/admin.h"
#include "tests/integration/sidecar/messages.h"

namespace rung::test {
namespace {

class Rights : public SidecarTest {
 protected:
  Rights() {
    allow(".*", ".*", ".*");
    own.emplace(admin.url("guest", "guest"));
    config.broker_url = admin.url(user);
  }
  ~Rights() override {
    sidecar_.reset();
    own.reset();
  }

  void start_there() {
    sidecar_ = std::make_unique<Sidecar>(config);
    sidecar_->start();
    ASSERT_TRUE(rung().logged("broker connected")) << rung().log_tail();
    ASSERT_TRUE(eventually([&] { return own->consumers(failed()).value_or(0) > 0; }));
  }
  void allow(const std::string& configure, const std::string& write, const std::string& read) {
    admin.permit(user, configure, write, read);
  }
  void cut_connections() {
    const Ran ran = run_shell(std::string(std::getenv("RUNG_TEST_RABBITMQCTL")) +
                              " -q close_all_user_connections " + user + " revoked");
    ASSERT_EQ(ran.code, 0) << ran.out;
  }
  Message delay(const std::string& queue, std::int64_t ms) const {
    Message message = order(unique_name("body"));
    message.properties.message_id = unique_name("m");
    message.headers->emplace_back("x-delay", ms);
    message.headers->emplace_back("retry-queue", queue);
    return message;
  }

  cli::BrokerAdmin admin;
  const std::string user = admin.user("");
  std::optional<AmqpProbe> own;  // on the vhost, as guest
};

// Rights go while the connection stands: a target that refuses is not blamed for it.
TEST_F(Rights, RevokedUnderAStandingConnection) {
  start_there();
  own->declare("orders");
  own->declare_exchange("topics", "topic");
  own->bind("orders", "topics", "#");
  Message message = order();
  message.headers->emplace_back("x-delay", std::int64_t{3'600'000});
  message.headers->emplace_back("retry-exchange", "topics");
  message.headers->emplace_back("retry-routing-key", "a.b");
  own->publish_all(config.prefix + ".delay", "", {message});
  std::vector<Row> waiting;
  ASSERT_TRUE(eventually([&] { return !(waiting = rows("SELECT * FROM retry_current")).empty(); }));
  allow("^$", "^$", "^$");
  ASSERT_EQ(command("fire " + waiting[0]["retry_id"]).code, 0);
  ASSERT_TRUE(rung().logged("ACCESS_REFUSED")) << rung().log_tail();
  allow(".*", ".*", ".*");
  const std::vector<Received> back = own->take("orders", 1, kBound);
  ASSERT_EQ(back.size(), 1U) << rung().log_tail();
  EXPECT_EQ(int_header(back[0].message, "retry-attempt"), 1);
}

// It goes on taking in while another has its shards: else it would sit on as many messages as its prefetch.
TEST_F(Rights, WhoCannotPublishTakesInForTheOthers) {
  config.more = "lease: 2s\n";
  start_there();
  own->declare("orders");
  SidecarConfig peers = config;
  peers.node = "node-2";
  peers.broker_url = admin.url("guest", "guest");
  Sidecar peer(peers);
  peer.start();
  ASSERT_TRUE(peer.logged("broker connected")) << peer.log_tail();
  allow(".*", "^" + config.prefix + "[.]", ".*");  // it can declare and bind, and publish to no queue
  cut_connections();
  ASSERT_TRUE(rung().logged("releasing all shards")) << rung().log_tail();
  ASSERT_TRUE(eventually([&] { return own->consumers(failed()) == 2U; }));
  constexpr std::size_t kFailed = 50;
  std::vector<Message> failures;
  for (std::size_t i = 0; i < kFailed; ++i) {
    failures.push_back(order("m-" + std::to_string(i)));
    failures.back().properties.message_id = "m-" + std::to_string(i);
    failures.back().headers->emplace_back("retry-queue", "orders");
  }
  own->publish_all(failed(), "", failures);
  EXPECT_EQ(own->take("orders", kFailed, kBound).size(), kFailed) << rung().log_tail();
}

// A right that one exchange lacks: its messages climb, as those to an exchange that isn't there.
TEST_F(Rights, OneExchangeThatRefusesClimbs) {
  config.ladder = "[300ms, 300ms]";
  start_there();
  own->declare("orders");
  own->declare_exchange("secret", "topic");
  own->bind("orders", "secret", "#");
  allow(".*", "^(?!secret).*$", ".*");
  Message message = order();
  message.headers->emplace_back("x-delay", std::int64_t{100});
  message.headers->emplace_back("retry-exchange", "secret");
  message.headers->emplace_back("retry-routing-key", "a.b");
  own->publish_all(config.prefix + ".delay", "", {message});
  std::vector<Row> found;
  ASSERT_TRUE(eventually([&] {
    found = rows("SELECT * FROM retry_history WHERE outcome = 'returned'");
    return found.size() == 3;
  })) << rung().log_tail();
  EXPECT_NE(found[0]["error"].find("ACCESS_REFUSED"), std::string::npos) << found[0]["error"];
  EXPECT_TRUE(rung().logged("exchange refuses messages"));
  // The others are not held up.
  own->publish_all(config.prefix + ".delay", "", {delay("orders", 100)});
  EXPECT_EQ(own->take("orders", 1, kBound).size(), 1U);
}

}  // namespace
}  // namespace rung::test
