// What a service manager (systemd, Type=notify) hears from a sidecar.
#include <csignal>
#include <cstdlib>

#include "tests/support/notify_socket.h"
#include "tests/support/sidecar.h"

namespace rung::test {
namespace {

class ServiceManager : public SidecarTest {
 protected:
  void heard(std::string_view start, std::size_t times = 1) {
    EXPECT_TRUE(eventually([&] { return notified.count(start) >= times; }, kBound))
        << start << " was not heard; this was:\n"
        << notified.all() << sidecar_->log_tail();
  }

  NotifySocket notified;
};

TEST_F(ServiceManager, HearsOfAWholeLife) {
  setenv("WATCHDOG_USEC", "200000", 1);
  start();
  heard("READY=1");
  heard("STATUS=serving, holds 64 shards");
  heard("WATCHDOG=1", notified.count("WATCHDOG=1") + 3);
  EXPECT_EQ(notified.count("RELOADING=1"), 0U);
  EXPECT_EQ(notified.count("READY=1"), 1U);

  rung().signal(SIGHUP);
  heard("RELOADING=1");
  heard("MONOTONIC_USEC=");
  heard("READY=1", 2);

  EXPECT_EQ(notified.count("STOPPING=1"), 0U);
  rung().signal(SIGTERM);
  heard("STOPPING=1");
  heard("EXTEND_TIMEOUT_USEC=15000000");
  EXPECT_EQ(rung().wait_exit(), 0) << rung().log_tail();
  EXPECT_EQ(notified.count("READY=1"), 2U) << notified.all();
}

}  // namespace
}  // namespace rung::test
