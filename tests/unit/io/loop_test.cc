#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <optional>
#include <thread>

#include "src/io/uv_loop.h"
#include "tests/support/clock.h"

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

TEST(Timer, RepeatsUntilStopped) {
  UvLoop loop{test_clock()};
  int count = 0;
  Timer* self = nullptr;
  Timer timer(loop, [&] {
    if (++count == 3) {
      self->stop();
      loop.stop();
    }
  });
  self = &timer;
  timer.start(Ms{1}, Ms{1});
  loop.run();
  EXPECT_EQ(count, 3);
  EXPECT_FALSE(timer.active());
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

TEST(Signal, IsCaughtOnTheLoop) {
  UvLoop loop{test_clock()};
  bool caught = false;
  const Signal signal(loop, SIGUSR1, [&] {
    caught = true;
    loop.stop();
  });
  kill(getpid(), SIGUSR1);
  loop.run();
  EXPECT_TRUE(caught);
}

}  // namespace
}  // namespace rung::io
