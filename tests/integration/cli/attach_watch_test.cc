// A queue that is detached while the sidecar runs is reported: log, /readyz, metric, `rung stats`,
// retry_events.
#include "tests/integration/cli/admin.h"
#include "tests/support/proxy.h"
#include "tests/support/sidecar.h"

namespace rung::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class AttachWatch : public SidecarTest {
 protected:
  AttachWatch() {
    config.broker_url = admin.url("guest", "guest");
    config.broker = "  management: \"" + cli::needed("RUNG_TEST_MANAGEMENT") + "\"\n  attachment_check: 1s\n";
    config.more = "http: { listen: \"127.0.0.1:" + std::to_string(port) + "\" }\n";
    config.queue("orders", "{}");
    admin.queue("orders");
  }
  void attach() { admin.policy("a", "^orders$", {{"dead-letter-exchange", config.prefix + ".failed"}}); }
  std::string metrics() { return HttpClient(port).call("GET", "/metrics").body; }
  std::string problems() { return HttpClient(port).call("GET", "/readyz").json()["problems"].dump(); }

  cli::BrokerAdmin admin;
  const int port = free_port();
};

TEST_F(AttachWatch, ADetachAtRunTimeIsTold) {
  attach();
  sidecar_ = std::make_unique<Sidecar>(config);
  rung().start();
  ASSERT_TRUE(rung().logged("shards acquired") && rung().logged("attached")) << rung().log_tail();
  EXPECT_TRUE(eventually([&] {
    return metrics().find("rung_queue_attached{queue=\"orders\"} 1") != std::string::npos;
  })) << metrics();
  EXPECT_EQ(problems(), "[]");

  admin.remove_policy("a");
  ASSERT_TRUE(rung().logged("queue became detached")) << rung().log_tail();
  EXPECT_THAT(metrics(), HasSubstr("rung_queue_attached{queue=\"orders\"} 0"));
  EXPECT_THAT(metrics(), HasSubstr("rung_problem{problem=\"detached\"} 1"));
  EXPECT_THAT(problems(), HasSubstr("rung attach orders"));
  EXPECT_EQ(HttpClient(port).call("GET", "/readyz").status, 200);
  const std::string stats = rung_program() + " stats -c " + rung().config_path();
  EXPECT_TRUE(
      eventually([&] { return run_shell(stats).out.find("detached: queue orders") != std::string::npos; }));

  attach();
  ASSERT_TRUE(rung().logged("queue became attached")) << rung().log_tail();
  EXPECT_EQ(problems(), "[]");
  std::string events;
  EXPECT_TRUE(eventually([&] {
    events.clear();
    for (const Row& row : rows("SELECT kind FROM retry_events WHERE subject = 'orders' ORDER BY event_id"))
      events += row.at("kind") + "; ";
    return events == "queue_detached; silence_held; queue_attached; silence_resumed; ";
  })) << events;
}

// Without the management API: logged once, no problem; and the sidecar stops promptly although nobody
// answers.
TEST_F(AttachWatch, WithoutTheManagementApi) {
  const auto management = parse_url(cli::needed("RUNG_TEST_MANAGEMENT"));
  TcpProxy nobody(management->host, management->port);
  nobody.refuse();
  config.broker =
      "  management: \"http://127.0.0.1:" + std::to_string(nobody.port()) + "\"\n  attachment_check: 1s\n";
  sidecar_ = std::make_unique<Sidecar>(config);
  rung().start();
  ASSERT_TRUE(rung().logged("cannot check whether queues are attached")) << rung().log_tail();
  const std::size_t checks = nobody.accepted();
  ASSERT_TRUE(eventually([&] { return nobody.accepted() > checks + 2; }));
  const std::string log = rung().log();
  EXPECT_EQ(log.find("cannot watch"), log.rfind("cannot watch"));
  EXPECT_EQ(problems(), "[]");
  EXPECT_THAT(metrics(), Not(HasSubstr("rung_queue_attached{")));
  rung().signal(SIGTERM);
  EXPECT_EQ(rung().wait_exit(), 0);
}

}  // namespace
}  // namespace rung::test
