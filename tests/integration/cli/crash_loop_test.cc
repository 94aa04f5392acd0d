// A crash loop does not use up the delivery limit that RabbitMQ itself gives Rung's own queues. With a real
// broker and its management API.
#include <chrono>

#include "tests/integration/cli/admin.h"
#include "tests/integration/cli/fixture.h"
#include "tests/integration/crash/fixture.h"
#include "tests/support/sidecar.h"

namespace rung::test {
namespace {

constexpr int kFailures = 5;

class CrashLoopOfTheSidecar : public SidecarTest {
 protected:
  CrashLoopOfTheSidecar() {
    config.broker_url = admin.url("guest", "guest");
    config.broker = "  queue_type: quorum\n  management: \"" + cli::needed("RUNG_TEST_MANAGEMENT") +
                    "\"\n  attachment_check: 5s\n";
    config.queue("orders", "{ success: { presumed_after: 1h } }");
    admin.default_queue_type("quorum");
    admin.queue("orders", {{"x-dead-letter-exchange", failed()}});
  }
  // One start, which ends by kill -9: when it has received a message, or when it has said that it consumes
  // none.
  void crash() {
    sidecar_ = std::make_unique<Sidecar>(config);
    const Armed armed("delivery.received");
    rung().start();
    ASSERT_TRUE(eventually([&] {
      const std::string log = rung().log();
      return !rung().running() || log.find("intake is stopped") != std::string::npos ||
             log.find("it begins after a pause") != std::string::npos;
    })) << rung().log_tail();
    if (rung().running()) rung().kill9();
  }

  cli::BrokerAdmin admin;
};

// The queue is older than its argument x-delivery-limit: RabbitMQ 4 has 20 for it.
TEST_F(CrashLoopOfTheSidecar, UsesUpNoLimitThatTheBrokerHas) {
  admin.queue(failed(), {{"x-queue-type", "quorum"}});
  sidecar_ = std::make_unique<Sidecar>(config);
  rung().start();
  ASSERT_TRUE(rung().logged("shards acquired")) << rung().log_tail();
  rung().signal(SIGTERM);
  ASSERT_EQ(rung().wait_exit(), 0);
  for (int i = 0; i < kFailures; ++i) admin.publish("orders", std::to_string(i));
  int rejected = 0;
  ASSERT_TRUE(
      eventually([&] { return (rejected += static_cast<int>(admin.reject("orders").size())) == kFailures; }));
  for (int i = 0; i < 24 && !HasFatalFailure(); ++i) crash();
  admin.policy("own", ".*failed$", {{"delivery-limit", 9'000'000}}, 100);
  sidecar_ = std::make_unique<Sidecar>(config);
  rung().start();
  EXPECT_TRUE(eventually([&] {
    return rows("SELECT retry_id FROM retry_current").size() == std::size_t{kFailures};
  })) << rung().log_tail();
}

}  // namespace
}  // namespace rung::test
