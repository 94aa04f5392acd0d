// A start with a login, a right or a declaration that is refused: the log says exactly what, and the process
// ends after start.wait. For an unreachable service, it waits without limit.
#include <functional>
#include <utility>

#include "src/core/base/url.h"
#include "tests/support/proxy.h"
#include "tests/support/sidecar.h"

namespace rung::test {
namespace {

class StartRefused : public SidecarTest {
 protected:
  StartRefused() { config.more = "start: { wait: 1s }\n"; }

  static std::string with(const std::string& url, const std::function<void(Url&)>& change) {
    Url changed = *parse_url(url);
    change(changed);
    return format_url(changed);
  }
  // It ends with exit code 1, and its log says all of `words`.
  void ends_saying(const std::vector<std::string>& words) {
    sidecar_ = std::make_unique<Sidecar>(config);
    sidecar_->start();
    const auto code = sidecar_->wait_exit(kBound);
    ASSERT_TRUE(code) << "it waits for ever\n" << sidecar_->log_tail();
    EXPECT_EQ(*code, 1);
    for (const std::string& word : words)
      EXPECT_NE(sidecar_->log().find(word), std::string::npos) << word << "\n" << sidecar_->log_tail();
  }
};

TEST_F(StartRefused, ByTheDatabasesLogin) {
  config.store_url = with(config.store_url, [](Url& url) {
    url.user = "rung-nobody";
    url.password = "wrong";
  });
  ends_saying({"access denied for user 'rung-nobody'", "database refuses this instance",
               "check the user and the password in store.url", "start.wait"});
}

TEST_F(StartRefused, ByAMissingGrant) {
  const std::string user = unique_name("u").substr(0, 32);
  db.exec("CREATE USER '" + user + "'@'%' IDENTIFIED BY 'secret'");
  config.store_url = with(config.store_url, [&](Url& url) {
    url.user = user;
    url.password = "secret";
  });
  ends_saying({"Access denied for user '" + user, "a right is missing: GRANT it", "start.wait"});
  db.exec("DROP USER '" + user + "'@'%'");
}

TEST_F(StartRefused, ByTheBrokersLogin) {
  config.broker_url = with(config.broker_url, [](Url& url) { url.password = "wrong"; });
  ends_saying(
      {"ACCESS_REFUSED", "and its password in broker.url", "broker refuses this instance", "start.wait"});
}

// What waits in it must be taken in: it is used as it is, and told.
TEST_F(StartRefused, NotByAQueueOfAnotherType) {
  amqp.declare(failed());
  config.broker = "  queue_type: quorum\n";
  start();
  EXPECT_TRUE(rung().logged("PRECONDITION_FAILED")) << rung().log_tail();
  EXPECT_TRUE(rung().logged("set broker.queue_type to the type that it has")) << rung().log_tail();
  const std::string queue = attached();
  fail(queue, Message{{}, {}, "taken in"});
  wait_state(queue, "awaiting");
}

// Restarts while the database is away use up no delivery: a delivery limit, by whomever it was set, drops a
// message after a few.
TEST_F(SidecarTest, ACrashLoopWithoutTheDatabaseUsesUpNoDelivery) {
  amqp.declare(failed(), {{"x-queue-type", "quorum"}, {"x-delivery-limit", std::int32_t{2}}});
  const std::string queue = new_name();
  amqp.declare(queue);
  for (int i = 0; i < 5; ++i)
    ASSERT_TRUE(amqp.publish("", failed(), Message{{}, Table{{"retry-queue", queue}}, std::to_string(i)}));
  const std::string database = std::exchange(config.store_url, "mysql://root@127.0.0.1:1/away");
  for (int i = 0; i < 4; ++i) {
    sidecar_ = std::make_unique<Sidecar>(config);
    rung().start();
    ASSERT_TRUE(rung().logged("broker connected")) << rung().log_tail();
    ASSERT_TRUE(rung().logged("database unavailable")) << rung().log_tail();
    EXPECT_EQ(amqp.consumers(failed()), 0U);
    rung().kill9();
  }
  config.store_url = database;
  sidecar_ = std::make_unique<Sidecar>(config);
  start();
  EXPECT_TRUE(eventually([&] { return current(queue).size() == 5; }, kBound)) << rung().log_tail();
}

// Else it would have all the shards, and the process that can publish would end: "another process runs as
// ...".
TEST_F(StartRefused, AProcessThatTheBrokerRefusesTakesNobodysName) {
  start();
  ASSERT_TRUE(
      eventually([&] { return rows("SELECT owner FROM rung_shards WHERE owner > 0").size() == 64; }, kBound));
  SidecarConfig same = config;
  same.broker_url = with(config.broker_url, [](Url& url) { url.password = "wrong"; });
  Sidecar second(same);
  second.start();
  EXPECT_EQ(second.wait_exit(kBound), 1);
  EXPECT_TRUE(rung().running()) << rung().log_tail();
  EXPECT_EQ(rung().log().find("another process"), std::string::npos);
  const std::string queue = attached();
  amqp.publish("", queue, Message{});
  amqp.reject(delivery(queue));
  amqp.ack(delivery(queue));
}

}  // namespace
}  // namespace rung::test
