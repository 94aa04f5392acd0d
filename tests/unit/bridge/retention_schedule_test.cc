// What each pass of retention covers.
#include <gtest/gtest.h>

#include <chrono>

#include "src/bridge/upkeep/retention.h"

namespace rung::bridge {
namespace {

constexpr Ms kMinute{std::chrono::minutes{1}};
constexpr Ms kAnHour{std::chrono::hours{1}};

class RetentionScheduleTest : public testing::Test {
 protected:
  RetentionPass next() {
    pass = schedule.next(pass, kAnHour * 24, EpochMs{1'800'000'000'000}, now);
    return pass;
  }
  void end(bool busy = false) {
    pass.busy = busy;
    schedule.ended(pass, now);
  }

  BootMs now{1'000'000};
  RetentionPass pass;
  RetentionSchedule schedule;
};

TEST_F(RetentionScheduleTest, TheFirstPassLooksAtAllOfItAndTheNextOnesAtTheTasksAlone) {
  EXPECT_EQ(next().stage, RetentionPass::Stage::add);
  EXPECT_TRUE(pass.look);
  EXPECT_TRUE(pass.sweep);
  end();
  EXPECT_EQ(next().stage, RetentionPass::Stage::tasks);
  EXPECT_FALSE(pass.look);
  end();
  now = now + kAnHour;
  EXPECT_TRUE(next().look);
  EXPECT_FALSE(pass.sweep) << "once a day";
}

TEST_F(RetentionScheduleTest, WhereTasksWentThePartitionsAreLookedAtSoon) {
  next();
  end();
  schedule.tasks_went(now);
  EXPECT_FALSE(next().look);
  now = now + kMinute;
  EXPECT_TRUE(next().look);
}

TEST_F(RetentionScheduleTest, TablesThatAreInUseAreLeftAloneForLongerEachTime) {
  next();
  end(true);
  for (const Ms pause : {kMinute * 5, kMinute * 10, kMinute * 20, kMinute * 40, kAnHour, kAnHour}) {
    now = now + pause - Ms{1};
    schedule.tasks_went(now - kMinute);
    EXPECT_FALSE(next().look) << pause.count();
    now = now + Ms{1};
    EXPECT_TRUE(next().look) << pause.count();
    end(true);
  }
  now = now + kAnHour;
  next();
  end();
  schedule.look_at_all();
  next();
  end(true);
  now = now + kMinute * 5;
  EXPECT_TRUE(next().look) << "the first pause again";
}

TEST_F(RetentionScheduleTest, AnotherRetentionLooksAtAllButNotAtTablesInUse) {
  next();
  end(true);
  schedule.look_at_all();
  EXPECT_FALSE(next().look);
  schedule.begin_anew();
  EXPECT_TRUE(next().look) << "the duty came from another instance: nothing is known";
}

TEST_F(RetentionScheduleTest, TheWalkGoesOnWhereItStoodAndBeginsAnewOnceADay) {
  next();
  pass.cursor = {EpochMs{7}, TaskId{7}};
  end();
  EXPECT_EQ(next().cursor.id, TaskId{7});
  now = now + kAnHour * 24;
  EXPECT_EQ(next().cursor, PurgeCursor{});
}

TEST_F(RetentionScheduleTest, WithoutARetentionOnlyPartitionsAreMade) {
  pass = schedule.next(pass, std::nullopt, EpochMs{1'800'000'000'000}, now);
  EXPECT_EQ(pass.stage, RetentionPass::Stage::add);
  end();
  pass = schedule.next(pass, std::nullopt, EpochMs{1'800'000'000'000}, now);
  EXPECT_EQ(pass.stage, RetentionPass::Stage::done);
}

}  // namespace
}  // namespace rung::bridge
