// Reloads: a file that cannot be read in time, and how others learn of the outcome.
#include <sys/stat.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/integration/sidecar/messages.h"

namespace rung::test {
namespace {

class Reload : public SidecarTest {
 protected:
  void start_and_own() {
    start();
    ASSERT_TRUE(rung().logged("held=64")) << rung().log_tail();
    rows("SELECT 1");  // into the schema
  }
  static std::size_t count(const std::string& text, std::string_view what) {
    std::size_t times = 0;
    for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++times;
    return times;
  }
};

// As on a network file system that does not answer: open() of a FIFO waits for a writer.
TEST_F(Reload, AConfigOnAFileSystemThatHangsCostsNoLease) {
  config.more = "lease: 2s\n";
  start_and_own();
  const std::string queue = attached();
  const std::string text = config.text();
  ASSERT_EQ(std::remove(rung().config_path().c_str()), 0);
  ASSERT_EQ(mkfifo(rung().config_path().c_str(), 0600), 0);
  rung().signal(SIGHUP);
  ASSERT_TRUE(rung().logged("reading the config takes long"));
  rung().signal(SIGHUP);  // becomes one more read, after this one
  const auto beats = [&] { return std::stoll(db.value("SELECT SUM(beats) FROM rung_nodes")); };
  const auto then = beats();
  EXPECT_TRUE(eventually([&] { return beats() > then + 2; }, kBound)) << "the heartbeat goes on";
  fail(queue, order());
  amqp.ack(delivery(queue));
  for (std::size_t reads = 1; reads <= 2; ++reads) {
    std::ofstream(rung().config_path()) << text;
    ASSERT_TRUE(
        eventually([&] { return count(rung().log_since_start(), "config reloaded") == reads; }, kBound));
  }
}

TEST_F(Reload, AReloadSaysHowItEnded) {
  std::string folder = (std::filesystem::temp_directory_path() / "rung-runtime-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  setenv("RUNTIME_DIRECTORY", folder.c_str(), 1);
  start_and_own();
  const auto reload_waits = [&] {
    return run_shell("RUNTIME_DIRECTORY=" + folder + " MAINPID=" + std::to_string(rung().pid()) + " '" +
                     rung_program() + "' reload");
  };
  SidecarConfig changed = config;
  changed.ladders = "  other: [100ms]\n";
  changed.queue("orders", "{ ladder: other }");
  changed.more += "lease: 9s\n";
  rung().rewrite(changed.text());
  const Ran good = reload_waits();
  EXPECT_EQ(good.code, 0) << good.out;
  EXPECT_NE(good.out.find("ladders: +other; queues: +orders"), std::string::npos) << good.out;
  EXPECT_NE(good.out.find("needs a restart: lease"), std::string::npos) << good.out;
  rung().rewrite("nonsense: 1\n");
  const Ran bad = reload_waits();
  EXPECT_EQ(bad.code, 1) << bad.out;
  EXPECT_NE(bad.out.find("nonsense"), std::string::npos) << bad.out;
  const auto problems = [&] { return db.value("SELECT COALESCE(MAX(problems), '') FROM rung_nodes"); };
  const auto shown = [&] { return problems().find("the last reload failed") != std::string::npos; };
  EXPECT_TRUE(eventually(shown, kBound)) << problems();
  rung().rewrite(config.text());
  EXPECT_EQ(reload_waits().code, 0);
  EXPECT_TRUE(eventually([&] { return !shown(); }, kBound)) << problems();
  unsetenv("RUNTIME_DIRECTORY");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace rung::test
