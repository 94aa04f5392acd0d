// Other programs: what they say, their end, and a bound.
#include "src/io/program.h"

#include <gtest/gtest.h>

#include <csignal>

namespace rung::io {
namespace {

using namespace std::chrono_literals;

TEST(Program, ToldAndBounded) {
  const auto ran = run_program({"sh", "-c", "echo out; echo err >&2; exit 7"}, 60s);
  ASSERT_TRUE(ran);
  EXPECT_EQ(ran->exit, 7);
  EXPECT_EQ(ran->out, "out\n");
  EXPECT_EQ(ran->err, "err\n");
  // What it started holds the pipe: ended with it.
  const auto slow = run_program({"sh", "-c", "sleep 60 & wait"}, 200ms);
  ASSERT_FALSE(slow);
  EXPECT_TRUE(slow.error().is_transient());
  // Nor is a child waited for that left its session.
  EXPECT_FALSE(run_program({"sh", "-c", "setsid sleep 2 & wait"}, 200ms));
  const auto none = run_program({"/no/such/program"}, 1s);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message, "/no/such/program could not be started: no such file or directory");
}

TEST(Program, ReadsNoInputAndAllOutput) {
  const auto ran = run_program({"sh", "-c", "cat; head -c 1000000 /dev/zero"}, 60s);
  ASSERT_TRUE(ran);
  EXPECT_EQ(ran->out, std::string(1'000'000, '\0'));
  EXPECT_EQ(run_program({"sh", "-c", "kill -9 $$"}, 60s)->exit, 128 + SIGKILL);
}

TEST(Program, VariablesAreAddedToOurs) {
  setenv("RUNG_TEST_OURS", "1", 1);
  setenv("RUNG_TEST_BOTH", "1", 1);
  const auto ran = run_program({"sh", "-c", "echo $RUNG_TEST_OURS $RUNG_TEST_BOTH $RUNG_TEST_NEW"}, 60s,
                               {{"RUNG_TEST_BOTH", "2"}, {"RUNG_TEST_NEW", "3"}});
  ASSERT_TRUE(ran);
  EXPECT_EQ(ran->out, "1 2 3\n");
}

// Ctrl-C reaches both: it is for the program, and ends neither this process nor what comes later.
TEST(Program, AtTheTerminalSignalsAreForIt) {
  EXPECT_EQ(run_at_terminal({"sh", "-c", "kill -INT $PPID; kill -QUIT $PPID; exit 5"}).value_or(-1), 5);
  EXPECT_EQ(run_at_terminal({"sh", "-c", "kill -INT $$; exit 5"}).value_or(-1), 128 + SIGINT);
  EXPECT_EQ(std::signal(SIGINT, SIG_DFL), SIG_DFL);
  EXPECT_FALSE(run_at_terminal({"/no/such/program"}));
}

}  // namespace
}  // namespace rung::io
