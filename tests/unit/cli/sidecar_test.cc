// Of the sidecar: reading the config for a reload, on a thread of its own, one read at a time; the line for
// systemctl status.

#include "src/sidecar/sidecar.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>

#include "src/io/uv_loop.h"
#include "tests/support/clock.h"

namespace rung::sidecar {
namespace {

// A read that ends when the test says so.
struct Reads {
  std::atomic<int> begun{0};
  std::promise<void> first_may_end;
  std::shared_future<void> gate{first_may_end.get_future()};
};

TEST(ConfigReader, TheLoopGoesOnWhileAReadHangsAndLaterRequestsBecomeOneRead) {
  io::UvLoop loop{test_clock()};
  const auto reads = std::make_shared<Reads>();
  int done = 0, ticks = 0;
  ConfigReader reader(
      loop,
      [reads] {
        if (++reads->begun == 1) reads->gate.wait();
        return LoadedConfig{};
      },
      [&](LoadedConfig&) {
        ++done;
        if (!reader.is_reading()) loop.stop();
      });
  reader.request();
  ASSERT_TRUE(reader.is_reading());
  for (int i = 0; i < 3; ++i) reader.request();
  io::Timer tick(loop, [&] {
    if (++ticks == 5) reads->first_may_end.set_value();
  });
  tick.start(Ms{1}, Ms{1});
  loop.run();
  EXPECT_GE(ticks, 5) << "the loop ran during the read";
  EXPECT_EQ(done, 2);
  EXPECT_EQ(reads->begun, 2);
}

bridge::Vitals vitals(bool broker, bool database, int shards = 0) {
  bridge::Vitals made;
  made.broker_consuming = made.broker_publishing = broker;
  made.database = database;
  made.shards = shards;
  return made;
}

TEST(StatusLine, SaysWhatIsWaitedFor) {
  EXPECT_EQ(status_line(vitals(false, false), {}), "waiting for the broker and the database");
  EXPECT_EQ(status_line(vitals(false, true), {}), "waiting for the broker");
  EXPECT_EQ(status_line(vitals(true, false), {}), "waiting for the database");
  bridge::Vitals half = vitals(true, true);
  half.broker_publishing = false;
  EXPECT_EQ(status_line(half, {}), "waiting for the broker");
}

TEST(StatusLine, SaysWhoRefusesInOneLine) {
  EXPECT_EQ(status_line(vitals(true, false), {false, "the database refuses: Access denied\nfor 'rung'"}),
            "the database refuses: Access denied\\nfor 'rung'");
}

TEST(StatusLine, NamesTheProblemsOfOneThatServes) {
  bridge::Vitals serving = vitals(true, true, 64);
  EXPECT_EQ(status_line(serving, {true, ""}), "serving, holds 64 shards");
  serving.problems = {{"detached", "the queue orders is not attached", {0}, false},
                      {"clock", "it stepped", {0}, false}};
  EXPECT_EQ(status_line(serving, {true, ""}), "serving, holds 64 shards; problems: detached, clock");
}

}  // namespace
}  // namespace rung::sidecar
