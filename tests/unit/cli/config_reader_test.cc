// Reading the config for a reload: on a thread of its own, one read at a time.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>

#include "src/io/uv_loop.h"
#include "src/sidecar/reload.h"
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
      [&](ConfigReader::Outcome&) {
        ++done;
        if (!reader.reading_since()) loop.stop();
      });
  reader.request();
  ASSERT_TRUE(reader.reading_since());
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

TEST(ConfigReader, ItDoesNotWaitForAReadThatHangs) {
  const auto reads = std::make_shared<Reads>();
  {
    io::UvLoop loop{test_clock()};
    ConfigReader reader(
        loop,
        [reads] {
          ++reads->begun;
          reads->gate.wait();
          return LoadedConfig{};
        },
        [](ConfigReader::Outcome&) { ADD_FAILURE(); });
    reader.request();
  }
  reads->first_may_end.set_value();
}

TEST(ReloadReport, IsReadAsItWasWritten) {
  std::string folder = (std::filesystem::temp_directory_path() / "rung-report-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/reload.json";
  EXPECT_FALSE(read_report(path));
  ReloadReport report{17, BootMs{5}, {"rung.yaml:1:1: \xFF"}, "queues: +a", {"lease"}};
  write_report(path, report);
  const auto read = read_report(path);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->pid, 17);
  EXPECT_EQ(read->started, BootMs{5});
  EXPECT_EQ(read->problems.size(), 1U);
  EXPECT_EQ(read->changes, "queues: +a");
  EXPECT_EQ(read->restart, std::vector<std::string>{"lease"});
  std::ofstream(path) << "[]";
  EXPECT_FALSE(read_report(path));
  std::filesystem::remove_all(folder);
}

TEST(RunReload, AFailedReloadNamesTheFirstProblem) {
  LoadedConfig loaded;
  loaded.problems = {{"rung.yaml", 3, 5, "unknown key"}, {"rung.yaml", 4, 1, "another"}};
  EXPECT_EQ(failed_reload(loaded),
            "the last reload failed, and the previous config stays in effect: rung.yaml:3:5: unknown key "
            "(and 1 more: rung check)");
}

}  // namespace
}  // namespace rung::sidecar
