// Operating the sidecar: reloads and how they end, secrets and the log.
#include <csignal>
#include <cstdlib>
#include <sstream>

#include "src/core/base/url.h"
#include "tests/integration/sidecar/messages.h"

namespace rung::test {
namespace {

class Operate : public SidecarTest {
 protected:
  void reload(const std::string& text) {
    rung().rewrite(text);
    rung().signal(SIGHUP);
  }
  static std::vector<std::string> lines(const std::string& text) {
    std::vector<std::string> out;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) out.push_back(line);
    return out;
  }
};

TEST_F(Operate, ABadFileLeavesTheOldInForce) {
  config.ladder = "[200ms, 400ms]";
  start();
  const std::string queue = attached();
  SidecarConfig bad = config;
  bad.ladder = "[1h, 0s, nonsense]";
  for (const std::string& text : {bad.text(), std::string("{{{ not yaml"), std::string()}) {
    reload(text);
    ASSERT_TRUE(rung().logged("stays in effect")) << rung().log_tail();
    fail(queue, order());
    const Received back = delivery(queue);
    EXPECT_EQ(int_header(back.message, "retry-levels"), 2);
    amqp.ack(back);
  }
  const auto said = lines(rung().log_since_start());
  const std::string where = rung().config_path() + ":";
  EXPECT_TRUE(std::ranges::any_of(said, [&](const std::string& line) {
    const std::size_t at = line.find(where);
    return at != std::string::npos && std::isdigit(static_cast<unsigned char>(line[at + where.size()])) != 0;
  })) << "no file:line:column";
  reload(config.text());
  EXPECT_TRUE(rung().logged("config reloaded"));
}

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
  ASSERT_TRUE(eventually([&] { return current("").size() == 1; }, kBound));
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
  start();
  ASSERT_TRUE(rung().logged("held=64")) << rung().log_tail();
  rows("SELECT 1");  // into the schema
  SidecarConfig changed = config;
  changed.ladders = "  other: [100ms]\n";
  changed.queue("orders", "{ ladder: other }");
  changed.more += "lease: 9s\n";
  reload(changed.text());
  EXPECT_TRUE(rung().logged("ladders: +other; queues: +orders")) << rung().log_tail();
  EXPECT_TRUE(rung().logged("keys=lease")) << rung().log_tail();
  reload("nonsense: 1\n");
  EXPECT_TRUE(rung().logged("nonsense")) << rung().log_tail();
  const auto problems = [&] { return db.value("SELECT COALESCE(MAX(problems), '') FROM rung_nodes"); };
  const auto shown = [&] { return problems().find("the last reload failed") != std::string::npos; };
  EXPECT_TRUE(eventually(shown, kBound)) << problems();
  reload(config.text());
  EXPECT_TRUE(eventually([&] { return !shown(); }, kBound)) << problems();
}

}  // namespace
}  // namespace rung::test
