
#include <gtest/gtest.h>

#include "src/bridge/changes/transitions.h"
#include "tests/support/memory/memory_store.h"
#include "tests/support/virtual_time.h"

namespace rung::bridge {
namespace {

class LeftUnackedTest : public testing::Test {
 protected:
  void until(const std::function<bool()>& condition) { EXPECT_TRUE(loop.run_until(condition)); }

  test::VirtualClock clock;
  test::VirtualLoop loop{clock};
  Health health{clock, [] {}};
  LeftUnacked left{loop, health, [] {}};
};

TEST_F(LeftUnackedTest, IsTriedUntilItSucceedsAndShowsMeanwhile) {
  int tries = 0;
  std::function<void()> again = [&] {
    if (++tries < 3) left.add({1}, "no", again);
  };
  left.add({1}, "no", again);
  EXPECT_TRUE(health.has("unrecorded"));
  until([&] { return tries == 3 && !health.has("unrecorded"); });
  EXPECT_EQ(left.size(), 0U);
}

TEST_F(LeftUnackedTest, ItemsOfAnOlderSessionAreDropped) {
  int tries = 0;
  left.add({1}, "no", [&] { ++tries; });
  left.add({}, "no", [&] { ++tries; });      // of no delivery: it stays
  left.add({1, 1}, "no", [&] { ++tries; });  // of another intake
  left.forget_before({2});
  EXPECT_EQ(left.size(), 2U);
  until([&] { return tries == 2; });
}

// What the database does not take for good, and nobody else would bring again.
TEST_F(LeftUnackedTest, ATransitionThatIsToBeKeptIsTriedAgainAndItsCallerHearsTheEndAlone) {
  const auto db = std::make_shared<MemoryDb>();
  test::VirtualJobs jobs(loop, [&]() -> Result<std::unique_ptr<Store>> { return open_memory_store(db); });
  const RuleBookPtr rules = std::make_shared<RuleBook>(
      RuleBook::Ladders{{"default", *levels::Ladder::from_list({Ms{1000}})}}, RuleBook::Queues{});
  Transitions* all = nullptr;
  LeftUnacked kept(loop, health, [&] { all->flush(); });
  Transitions transitions(loop,
                          {jobs, [] { return Fence{}; }, rules, [] {}, [](TaskId) { return false; }, kept});
  all = &transitions;
  db->fail_next(2, Error::Kind::permanent);
  int answers = 0;
  const auto done = [&](const Result<Decision>& decision) {
    EXPECT_TRUE(decision);
    ++answers;
  };
  transitions.add({TaskId{7}, event::Succeeded{1, ""}}, done, {3}, Transitions::OnError::keep);
  transitions.flush();
  until([&] { return answers == 1; });
  until([&] { return !health.has("unrecorded"); });
  db->fail_next(1, Error::Kind::permanent);
  bool failed = false;
  transitions.add({TaskId{7}, event::Succeeded{1, ""}},
                  [&](const Result<Decision>& decision) { failed = !decision; });
  transitions.flush();
  until([&] { return failed; });
  EXPECT_EQ(kept.size(), 0U);
}

}  // namespace
}  // namespace rung::bridge
