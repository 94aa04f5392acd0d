// Operating the sidecar: reloads and how they end, secrets and the log.
#include <csignal>
#include <cstdlib>
#include <functional>
#include <utility>

#include "src/core/base/url.h"
#include "tests/integration/sidecar/messages.h"
#include "tests/support/proxy.h"
#include "tests/support/sidecar.h"

namespace rung::test {
namespace {

class Operate : public SidecarTest {
 protected:
  void reload(const std::string& text) {
    rung().rewrite(text);
    rung().signal(SIGHUP);
  }
};

TEST_F(Operate, LogHoldsNoPayloadAndNoPassword) {
  const std::string secret = unique_name("secretword"),
                    user = "u" + std::to_string(wall_ms() % 1'000'000'000);
  db.exec("CREATE USER '" + user + "'@'%' IDENTIFIED BY '" + secret + "'");
  db.exec("GRANT ALL ON `" + db.name() + "`.* TO '" + user + "'@'%'");
  auto url = parse_url(db.url());
  url->user = user;
  url->password = secret;
  config.store_url = format_url(*url);
  db.exec("CREATE DATABASE IF NOT EXISTS `" + db.name() + "`");
  config.log = "{ level: trace }";
  config.ladder = "[200ms]";
  start();
  const std::string queue = attached(), payload = unique_name("payloadword"),
                    inside = unique_name("headerword");
  Message message = order(payload);
  message.headers->emplace_back("private", inside);
  fail(queue, message);
  amqp.reject(delivery(queue));
  wait_state(queue, "parked");
  Message lost = message;
  lost.headers->emplace_back("retry-error", "x");
  ASSERT_TRUE(amqp.publish(failed(), "", lost));
  ASSERT_TRUE(amqp.publish(results(), "", lost));
  ASSERT_TRUE(eventually([&] { return current("").size() == 1; }));
  rung().signal(SIGTERM);
  EXPECT_EQ(rung().wait_exit(), 0);
  const std::string log = rung().log();
  EXPECT_EQ(log.find(secret), std::string::npos);
  EXPECT_EQ(log.find(payload), std::string::npos);
  EXPECT_EQ(log.find(inside), std::string::npos);
  EXPECT_EQ(log.find("guest:guest"), std::string::npos);
  EXPECT_NE(log.find(queue), std::string::npos) << "nothing is said about the parked message";
  db.exec("DROP USER '" + user + "'@'%'");
}

TEST_F(Operate, AReloadSaysHowItEnded) {
  config.ladder = "[200ms, 400ms]";
  start();
  ASSERT_TRUE(rung().logged("held=64")) << rung().log_tail();
  rows("SELECT 1");  // into the schema
  SidecarConfig changed = config;
  changed.ladders = "  other: [100ms]\n";
  changed.queue("orders", "{ ladder: other }");
  changed.more += "lease: 9s\n";
  reload(changed.text());
  EXPECT_TRUE(rung().logged("+ladders.other, +queues.orders")) << rung().log_tail();
  EXPECT_TRUE(rung().logged("keys=lease")) << rung().log_tail();
  // A bad file leaves the old one in force.
  SidecarConfig bad = config;
  bad.ladder = "[1h, 0s, nonsense]";
  for (const std::string& text : {bad.text(), std::string("{{{ not yaml"), std::string()}) {
    const std::size_t before = rung().log().size();
    reload(text);
    ASSERT_TRUE(eventually([&] { return rung().log().find("stays in effect", before) != std::string::npos; }))
        << rung().log_tail();
  }
  EXPECT_TRUE(rung().logged(rung().config_path() + ":1:1: ")) << "no file:line:column";
  const std::string queue = attached();
  fail(queue, order());
  EXPECT_EQ(int_header(delivery(queue).message, "retry-levels"), 2);
  const auto problems = [&] { return db.value("SELECT COALESCE(MAX(problems), '') FROM rung_nodes"); };
  const auto shown = [&] { return problems().find("the last reload failed") != std::string::npos; };
  EXPECT_TRUE(eventually(shown)) << problems();
  reload(config.text());
  EXPECT_TRUE(eventually([&] { return !shown(); })) << problems();
}

// ---- A start with a login, a right or a declaration that is refused: the log says exactly what, and the
// process ends after start.wait. For an unreachable service, it waits without limit.

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
    const auto code = sidecar_->wait_exit();
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
  EXPECT_TRUE(eventually([&] { return current(queue).size() == 5; })) << rung().log_tail();
}

// Else it would have all the shards, and the process that can publish would end: "another process runs as
// ...".
TEST_F(StartRefused, AProcessThatTheBrokerRefusesTakesNobodysName) {
  start();
  ASSERT_TRUE(eventually([&] { return rows("SELECT owner FROM rung_shards WHERE owner > 0").size() == 64; }));
  SidecarConfig same = config;
  same.broker_url = with(config.broker_url, [](Url& url) { url.password = "wrong"; });
  Sidecar second(same);
  second.start();
  EXPECT_EQ(second.wait_exit(), 1);
  EXPECT_TRUE(rung().running()) << rung().log_tail();
  EXPECT_EQ(rung().log().find("another process"), std::string::npos);
  const std::string queue = attached();
  amqp.publish("", queue, Message{});
  amqp.reject(delivery(queue));
  amqp.ack(delivery(queue));
}

}  // namespace
}  // namespace rung::test
