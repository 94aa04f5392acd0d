#include "src/bridge/intake_pause.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "plugin/memory/memory_broker.h"
#include "src/io/uv_loop.h"
#include "tests/support/clock.h"

namespace rung::bridge {
namespace {

constexpr Ms kPatience{300};

class IntakePauseTest : public testing::Test {
 protected:
  // Runs the loop until then.
  bool until(const std::function<bool()>& condition, Ms within = Ms{10'000}) {
    const BootMs from = test_clock().boot();
    io::Timer look(loop, [&] {
      if (condition() || test_clock().boot() - from > within) loop.stop();
    });
    look.start(Ms{0}, Ms{2});
    loop.run();
    return condition();
  }
  bool paused() { return health.has("intake"); }
  void answers() { answered = test_clock().boot() + Ms{1}; }

  io::UvLoop loop{test_clock()};
  Health health{test_clock(), [] {}};
  MemoryBroker broker;
  BootMs answered = test_clock().boot();
  int forgotten = 0;
  std::vector<SystemEvent> events;
  IntakePause pause{loop,
                    {broker, health, [this] { return answered; }, [this] { ++forgotten; },
                     [this](SystemEvent event) { events.push_back(std::move(event)); }, "node-1"},
                    kPatience};
};

TEST_F(IntakePauseTest, AfterAsLongWithoutAnAnswerUntilThereIsOne) {
  const BootMs from = test_clock().boot();
  answered = from;
  pause.database_away(true);
  ASSERT_TRUE(until([&] { return paused(); }));
  EXPECT_GE(test_clock().boot() - from, kPatience);
  EXPECT_EQ(forgotten, 1);
  EXPECT_FALSE(until([&] { return !paused(); }, kPatience * 5)) << "nobody has answered";
  answers();
  EXPECT_TRUE(until([&] { return !paused(); }));
  pause.database_away(false);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].kind, "intake_paused");
}

// One kind of job waits, and others are done: a table is locked, a right is missing.
TEST_F(IntakePauseTest, NotWhileTheDatabaseAnswersSomebody) {
  pause.database_away(true);
  EXPECT_FALSE(until(
      [&] {
        answered = test_clock().boot();
        return paused();
      },
      kPatience * 5));
  pause.database_away(false);
  answered = BootMs{0};  // nobody asks it anything
  EXPECT_FALSE(until([&] { return paused(); }, kPatience * 3));
}

// Whoever comes and goes does not get everything each time.
TEST_F(IntakePauseTest, LongerEachTimeWhereTheDatabaseComesAndGoes) {
  std::vector<Ms> lengths;
  for (int i = 0; i < 3; ++i) {
    answered = BootMs{0};
    pause.database_away(true);
    ASSERT_TRUE(until([&] { return paused(); }));
    const BootMs from = test_clock().boot();
    answers();
    pause.database_away(false);
    ASSERT_TRUE(until([&] { return !paused(); }));
    lengths.push_back(test_clock().boot() - from);
  }
  EXPECT_GE(lengths[1], kPatience - Ms{5});
  EXPECT_GE(lengths[2], kPatience * 2 - Ms{5});
}

TEST_F(IntakePauseTest, NothingIsDoneWhileDraining) {
  pause.database_away(true);
  pause.drain();
  answered = BootMs{0};
  EXPECT_FALSE(until([&] { return paused(); }, kPatience * 3));
}

}  // namespace
}  // namespace rung::bridge
