#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "src/io/service_manager.h"
#include "src/io/uv_loop.h"
#include "tests/support/clock.h"
#include "tests/support/notify_socket.h"

namespace rung::io {
namespace {

TEST(Loop, RunsWhatOtherThreadsPostInTheirOrder) {
  UvLoop loop{test_clock()};
  std::vector<int> seen;
  const auto loop_thread = std::this_thread::get_id();
  std::thread other([&] {
    for (int i = 0; i < 1000; ++i) {
      loop.post([&seen, i, loop_thread] {
        EXPECT_EQ(std::this_thread::get_id(), loop_thread);
        seen.push_back(i);
      });
    }
    loop.post([&loop] { loop.stop(); });
  });
  loop.run();
  other.join();
  ASSERT_EQ(seen.size(), 1000U);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(seen[static_cast<std::size_t>(i)], i);
}

TEST(Timer, MayEndItselfWhileItFires) {
  UvLoop loop{test_clock()};
  auto timer = std::make_unique<std::optional<Timer>>();
  timer->emplace(loop, [&] {
    timer->reset();
    loop.stop();
  });
  (*timer)->start(Ms{1});
  loop.run();
  EXPECT_FALSE(timer->has_value());
}

class ServiceManagerTest : public testing::Test {
 protected:
  // Runs the loop until `done`; fails after two minutes.
  void run_until(const std::function<bool()>& done) {
    Timer look(loop_, [&] {
      if (done()) loop_.stop();
    });
    Timer bound(loop_, [&] {
      ADD_FAILURE() << "waited in vain; so far:\n" << socket_.all();
      loop_.stop();
    });
    look.start(Ms{1}, Ms{1});
    bound.start(Ms{120'000});
    loop_.run();
  }

  test::NotifySocket socket_;
  UvLoop loop_{test_clock()};
  std::string status_ = "waiting";
};

TEST_F(ServiceManagerTest, SaysReadyWithTheStatusAndFeedsTheWatchdog) {
  setenv("WATCHDOG_USEC", "40000", 1);
  setenv("WATCHDOG_PID", std::to_string(getpid()).c_str(), 1);
  ServiceManager manager(loop_, [&] { return status_; });
  EXPECT_EQ(socket_.all(), "");
  manager.ready();
  EXPECT_EQ(socket_.all(), "[READY=1\nSTATUS=waiting]\n");
  run_until([&] { return socket_.count("WATCHDOG=1") >= 3; });
}

TEST_F(ServiceManagerTest, ShowsAStatusWhenItChanges) {
  ServiceManager manager(loop_, [&] { return status_; });
  manager.ready();
  int asked = 0;
  status_ = "serving";
  run_until([&] { return socket_.count("STATUS=serving") == 1; });
  status_ = "waiting again";
  run_until([&] { return socket_.count("STATUS=waiting again") == 1 && ++asked > 10; });
  EXPECT_EQ(socket_.messages().size(), 3U) << socket_.all();
}

TEST_F(ServiceManagerTest, AReloadBeginsAndEnds) {
  ServiceManager manager(loop_, [&] { return status_; });
  manager.ready();
  manager.reloading();
  manager.ready();
  ASSERT_EQ(socket_.messages().size(), 3U) << socket_.all();
  EXPECT_EQ(socket_.messages()[1].find("RELOADING=1\nMONOTONIC_USEC="), 0U) << socket_.all();
  EXPECT_EQ(socket_.messages()[2], "READY=1\nSTATUS=waiting");
}

TEST_F(ServiceManagerTest, AfterStoppingNothingSaysReady) {
  ServiceManager manager(loop_, [&] { return status_; });
  manager.ready();
  manager.stopping(Ms{10'000});
  manager.reloading();
  manager.ready();
  ASSERT_EQ(socket_.messages().size(), 2U) << socket_.all();
  EXPECT_EQ(socket_.messages()[1], "STOPPING=1\nEXTEND_TIMEOUT_USEC=15000000\nSTATUS=draining");
}

TEST_F(ServiceManagerTest, AWatchdogOfAnotherProcessIsNotFed) {
  setenv("WATCHDOG_USEC", "2000", 1);
  setenv("WATCHDOG_PID", "1", 1);
  ServiceManager manager(loop_, [&] { return status_; });
  manager.ready();
  int looked = 0;
  run_until([&] { return ++looked > 50; });
  EXPECT_EQ(socket_.count("WATCHDOG"), 0U) << socket_.all();
}

TEST_F(ServiceManagerTest, WithoutAServiceManagerNothingHappens) {
  for (const char* name : {"", "relative", "/no/such/socket"}) {
    setenv("NOTIFY_SOCKET", name, 1);
    ServiceManager manager(loop_, [&]() -> std::string {
      ADD_FAILURE() << "nobody asked";
      return {};
    });
    manager.ready();
    manager.reloading();
    manager.stopping(Ms{1000});
  }
  EXPECT_EQ(socket_.all(), "");
}

}  // namespace
}  // namespace rung::io
