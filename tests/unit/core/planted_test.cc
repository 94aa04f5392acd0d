// The switches that plant bugs for tests.
#include <gtest/gtest.h>

#include <set>

#include "src/core/base/failpoint.h"
#include "tests/unit/core/machine_fixture.h"

namespace rung {
namespace {

class PlantedTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!kFailpoints) GTEST_SKIP() << "the switches are in builds with RUNG_FAILPOINTS alone";
  }
  ~PlantedTest() override { plant(std::nullopt); }
};

TEST_F(PlantedTest, EachBugHasANameOfItsOwnAndNoneIsPlantedAtFirst) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < kBugNames.size(); ++i) {
    const auto bug = static_cast<Bug>(i);
    EXPECT_EQ(bug_from(name_of(bug)), bug);
    EXPECT_FALSE(planted(bug)) << name_of(bug);
    names.insert(name_of(bug));
  }
  EXPECT_EQ(names.size(), 23U);
  EXPECT_EQ(name_of(Bug::edited_stays_parked), "edited_stays_parked") << "the last one";
  EXPECT_FALSE(bug_from("no such bug"));
}

TEST_F(PlantedTest, OneAtATime) {
  plant(Bug::b1);
  EXPECT_TRUE(planted(Bug::b1));
  plant(Bug::b2);
  EXPECT_FALSE(planted(Bug::b1));
  EXPECT_TRUE(planted(Bug::b2));
  plant(std::nullopt);
  EXPECT_FALSE(planted(Bug::b2));
}

// Those that switch off a guard of decide().
TEST_F(PlantedTest, TheStateMachineDoesWhatIsPlanted) {
  using testing::kNow, testing::task_in;
  const RuleBook rules = testing::rules();
  const Task claimed = task_in(State::publishing);
  const auto decision = [&](Bug bug, const Happening& what) {
    plant(bug);
    return decide(claimed, what, rules, testing::at());
  };
  EXPECT_EQ(decision(Bug::claim_counted_twice, event::Claim{}).task.attempt, claimed.attempt + 1);
  EXPECT_EQ(decision(Bug::cancel_of_claimed_task, event::Cancel{}).task.state, State::cancelled);
  EXPECT_EQ(decision(Bug::confirm_of_wrong_attempt, event::Confirmed{1, kNow}).task.state, State::awaiting);
  event::Failed anothers = testing::failed(claimed.attempt);
  anothers.queue = "invoices";
  EXPECT_EQ(decision(Bug::failure_of_another_counted, anothers).task.state, State::scheduled);
}

}  // namespace
}  // namespace rung
