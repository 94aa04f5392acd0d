// A queue is detached while deliveries are under way: silence is no success. With a real broker and its
// management API.
#include <chrono>
#include <csignal>

#include "src/core/base/url.h"
#include "tests/integration/cli/admin.h"
#include "tests/integration/cli/fixture.h"
#include "tests/support/proxy.h"
#include "tests/support/sidecar.h"

namespace rung::test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class Detached : public SidecarTest {
 protected:
  Detached() {
    config.broker_url = admin.url("guest", "guest");
    config.broker =
        "  management: \"" + cli::needed("RUNG_TEST_MANAGEMENT") + "\"\n  attachment_check: 60s\n";
    config.queue("orders", "{ success: { presumed_after: 3s } }");
    admin.queue("orders");
  }
  void run() {
    sidecar_ = std::make_unique<Sidecar>(config);
    rung().start();
    ASSERT_TRUE(rung().logged("shards acquired")) << rung().log_tail();
    ASSERT_TRUE(eventually([&] { return consumes(); })) << rung().log_tail();
  }
  bool consumes() {
    const auto queue = admin.get("/api/queues/" + admin.vhost + "/" + failed());
    return queue.value("consumers", 0) > 0;
  }
  void attach() { admin.policy("a", "^orders$", {{"dead-letter-exchange", failed()}}); }
  // That many messages fail once, and their first retries are delivered; the consumer says nothing of them,
  // or has not read them yet.
  void deliver(int count, bool read = true) {
    for (int i = 0; i < count; ++i) admin.publish("orders", "body " + std::to_string(i));
    int rejected = 0;
    ASSERT_TRUE(
        eventually([&] { return (rejected += static_cast<int>(admin.reject("orders").size())) == count; }));
    ASSERT_TRUE(eventually([&] { return in("awaiting") == count; })) << rung().log_tail();
    if (!read) return;
    int taken = 0;
    ASSERT_TRUE(
        eventually([&] { return (taken += static_cast<int>(admin.take("orders").size())) == count; }));
  }
  int in(const std::string& state) {
    return std::stoi(
        rows("SELECT COUNT(*) AS n FROM retry_current WHERE state = '" + state + "'")[0].at("n"));
  }
  int held() {
    const auto found = rows("SELECT held FROM retry_attachments WHERE queue = 'orders'");
    return found.empty() ? 0 : std::stoi(found[0].at("held"));
  }
  std::string tell(const std::string& words) { return command(words).out; }
  bool attached_says(const std::string& text) {
    return eventually([&] { return tell("attached").find(text) != std::string::npos; });
  }
  // The silence of deliveries ends when the test says so.
  void long_silence() {
    config.queues.clear();
    config.queue("orders", "{ success: { presumed_after: 1h } }");
  }
  void end_silence() { db.exec("UPDATE rung_tasks SET next_at = UTC_TIMESTAMP(3) WHERE state = 'awaiting'"); }

  cli::BrokerAdmin admin;
};

// C2: a queue without a consumer. 300 "succeeded" while 300 lay unread.
TEST_F(Detached, WhatNobodyHasReadIsNoSuccess) {
  attach();
  run();
  deliver(3, false);
  ASSERT_TRUE(eventually([&] {
    return tell("queues").find("no consumer: 3 wait in it") != std::string::npos;
  })) << rung().log_tail();
  EXPECT_THAT(tell("doctor"), HasSubstr("it has no consumer, and 3 messages wait in it"));
  const auto version = [&] { return rows("SELECT MIN(version) AS v FROM retry_current")[0].at("v"); };
  const std::string before = version();
  ASSERT_TRUE(eventually([&] { return version() != before; })) << "each silence has ended once";
  EXPECT_EQ(in("awaiting"), 3);
  EXPECT_EQ(admin.take("orders").size(), 3U);
  ASSERT_TRUE(eventually([&] { return in("succeeded") == 3; })) << rung().log_tail();
}

// Its own dead-letter exchange is bound to rung.failed; the binding goes; its routing key leads elsewhere.
TEST_F(Detached, ABindingThatIsGoneDetaches) {
  long_silence();
  run();
  admin.exchange("dlx", "direct");
  admin.policy("own", "^orders$", {{"dead-letter-exchange", "dlx"}, {"dead-letter-routing-key", "dead"}});
  admin.bind("dlx", failed(), "dead");
  // A policy takes effect shortly after it was set.
  EXPECT_TRUE(attached_says("exchange 'dlx', which is bound to " + failed()));
  EXPECT_THAT(tell("attach orders"), HasSubstr("is already attached, by exchange 'dlx'"));
  EXPECT_THAT(tell("doctor"), HasSubstr("attached by exchange 'dlx'"));
  for (const std::string which : {"orders", "--all", "--pattern '^ord'"}) {
    const Ran kept = run_shell(rung_program() + " detach " + which + " -c " + rung().config_path());
    EXPECT_EQ(kept.code, 1);
    EXPECT_THAT(kept.out,
                HasSubstr("queue orders is attached by exchange 'dlx', which is bound to " + failed() +
                          ": to detach it, and all other queues that dead-letter there, run: "
                          "rabbitmqadmin -V "));
    EXPECT_THAT(kept.out, HasSubstr(" delete binding source=dlx destination_type=queue destination=" +
                                    failed() + " properties_key=dead"));
  }
  deliver(3);
  admin.unbind("dlx", failed(), "dead");
  end_silence();
  ASSERT_TRUE(eventually([&] { return held() == 3; })) << rung().log_tail();
  admin.bind("dlx", failed(), "dead");
  ASSERT_TRUE(eventually([&] {
    return rows("SELECT 1 AS x FROM retry_attachments WHERE state = 'attached'").size() == 1;
  })) << rung().log_tail();
  admin.policy("own", "^orders$", {{"dead-letter-exchange", "dlx"}, {"dead-letter-routing-key", "other"}});
  EXPECT_TRUE(attached_says("which its bindings to " + failed() + " do not match"));
  ASSERT_TRUE(eventually([&] {
    return rows("SELECT 1 AS x FROM retry_attachments WHERE state = 'detached'").size() == 1;
  })) << rung().log_tail();
}

// S2. rung detach counts, refuses without a terminal, and tells the sidecars at once.
TEST_F(Detached, DetachCountsWhatIsUnderWay) {
  long_silence();
  run();
  ASSERT_THAT(tell("attach orders"), HasSubstr("is attached by policy"));
  deliver(4);
  const std::string program = rung_program() + " detach orders -c " + rung().config_path();
  const Ran refused = run_shell(program + " < /dev/null");
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.out,
              HasSubstr("orders has 4 tasks under way (0 scheduled, 0 being published, 4 awaiting"));
  const Ran forced = run_shell(program + " --force");
  EXPECT_EQ(forced.code, 0) << forced.out;
  EXPECT_THAT(rows("SELECT state, reason FROM retry_attachments")[0].at("reason"),
              HasSubstr("rung detach by"));
  end_silence();
  ASSERT_TRUE(eventually([&] { return held() == 4; })) << rung().log_tail();
}

// Nobody answers: logged once, and the sidecar stops all the same.
TEST_F(Detached, WithoutTheManagementApi) {
  const auto management = parse_url(cli::needed("RUNG_TEST_MANAGEMENT"));
  TcpProxy nobody(management->host, management->port);
  nobody.refuse();
  config.broker =
      "  management: \"http://127.0.0.1:" + std::to_string(nobody.port()) + "\"\n  attachment_check: 1s\n";
  run();
  ASSERT_TRUE(rung().logged("cannot check whether queues are attached")) << rung().log_tail();
  const std::size_t checks = nobody.accepted();
  ASSERT_TRUE(eventually([&] { return nobody.accepted() > checks + 2; }));
  const std::string log = rung().log();
  EXPECT_EQ(log.find("cannot watch"), log.rfind("cannot watch"));
  rung().signal(SIGTERM);
  EXPECT_EQ(rung().wait_exit(), 0);
}

}  // namespace
}  // namespace rung::test
