
#include <gtest/gtest.h>

#include "src/bridge/flight/transitions.h"
#include "tests/unit/bridge/flow_fixture.h"

namespace rung::bridge {
namespace {

class LeftUnackedTest : public testing::Test {
 protected:
  static void until(test::VirtualLoop& loop, const std::function<bool()>& condition) {
    EXPECT_TRUE(loop.run_until(condition));
  }

  test::VirtualClock clock;
  test::VirtualLoop loop{clock};
  Health health{clock, [] {}};
  LeftUnacked left{loop, health};
};

TEST_F(LeftUnackedTest, IsTriedUntilItSucceedsAndShowsMeanwhile) {
  int tries = 0;
  std::function<void()> again = [&] {
    if (++tries < 3) left.add({1}, "no", again);
  };
  left.add({1}, "no", again);
  EXPECT_TRUE(health.has("unrecorded"));
  until(loop, [&] { return tries == 3 && !health.has("unrecorded"); });
  EXPECT_EQ(left.size(), 0U);
}

TEST_F(LeftUnackedTest, ItemsOfAnOlderSessionAreDropped) {
  int tries = 0;
  left.add({1}, "no", [&] { ++tries; });
  left.add({}, "no", [&] { ++tries; });      // of no delivery: it stays
  left.add({1, 1}, "no", [&] { ++tries; });  // of another intake
  left.forget_before({2});
  EXPECT_EQ(left.size(), 2U);
  until(loop, [&] { return tries == 2; });
}

// What the database does not take for good, and nobody else would bring again.
TEST_F(LeftUnackedTest, ATransitionThatIsToBeKeptIsTriedAgainAndItsCallerHearsTheEndAlone) {
  World world;
  Flow flow(world);
  world.db->fail_next(2, Error::Kind::permanent);
  int answers = 0;
  const auto done = [&](const Result<Decision>& decision) {
    EXPECT_TRUE(decision);
    ++answers;
  };
  flow.transitions.add({TaskId{7}, event::Succeeded{1, ""}}, done, {3}, Transitions::OnError::keep);
  flow.transitions.flush();
  until(world.loop, [&] { return answers == 1; });
  until(world.loop, [&] { return !flow.health.has("unrecorded"); });
  world.db->fail_next(1, Error::Kind::permanent);
  bool failed = false;
  flow.transitions.add({TaskId{7}, event::Succeeded{1, ""}},
                       [&](const Result<Decision>& decision) { failed = !decision; });
  flow.transitions.flush();
  until(world.loop, [&] { return failed; });
  EXPECT_EQ(flow.left.size(), 0U);
}

}  // namespace
}  // namespace rung::bridge
