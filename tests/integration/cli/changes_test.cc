// cancel, retry, finish.
#include "tests/integration/cli/fixture.h"

namespace rung::cli {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using Changes = CliTest;

TEST_F(Changes, CancelIsKept) {
  const TaskId id = insert(fresh("orders", 10min));
  const Ran ran = rung({"cancel", id.str(), "--reason", "withdrawn"});
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr(id.str() + "  cancelled before its first retry"));
  EXPECT_EQ(state_of(id), State::cancelled);
  EXPECT_EQ((*store().find(id))->task.last_error, "withdrawn");
  EXPECT_THROW(happen(id, event::Claim{}), std::runtime_error);
  const Ran again = rung({"cancel", id.str()});
  EXPECT_EQ(again.exit, 0);
  EXPECT_THAT(again.out, HasSubstr("nothing to do"));
}

TEST_F(Changes, WrongStateExits1AndSaysWhich) {
  const TaskId id = insert(fresh("orders", -1s));
  happen(id, event::Claim{});
  const Ran ran = rung({"cancel", id.str()});
  EXPECT_EQ(ran.exit, 1);
  EXPECT_EQ(ran.out, "");
  EXPECT_THAT(ran.err, HasSubstr(id.str() + ": "));
  EXPECT_THAT(ran.err, HasSubstr("publishing"));
  EXPECT_EQ(state_of(id), State::publishing);
}

TEST_F(Changes, SeveralIdsEachWithItsResult) {
  const TaskId a = insert(fresh("orders", 10min));
  const TaskId b = insert(fresh("orders", 10min));
  const Ran ran = rung({"cancel", a.str(), "77", b.str()});
  EXPECT_EQ(ran.exit, 3);
  EXPECT_THAT(ran.err, HasSubstr("77"));
  EXPECT_EQ(state_of(a), State::cancelled);
  EXPECT_EQ(state_of(b), State::cancelled);
  const json results = rung_json({"retry", a.str(), "77"});
  EXPECT_EQ(results[0]["result"], "refused");
  EXPECT_EQ(results[1]["result"], "not found");
}

TEST_F(Changes, RetryIsDueNow) {
  const TaskId id = insert(fresh("orders", 10h));
  const json result = rung_json({"retry", id.str()});
  EXPECT_EQ(result[0]["result"], "applied");
  EXPECT_LE((*store().find(id))->task.next_at->ms, now().ms);
  happen(id, event::Claim{});
}

TEST_F(Changes, FinishSpeaksForTheConsumer) {
  const TaskId id = insert(fresh("orders", -1s));
  happen(id, event::Claim{});
  happen(id, event::Confirmed{1, now()});
  const Ran failed = rung({"finish", id.str(), "--failed", "--error", "refused by the bank"});
  EXPECT_EQ(failed.exit, 0) << failed.err;
  EXPECT_THAT(failed.out, HasSubstr("scheduled: level 2 of 9"));  // the config's default ladder
  EXPECT_EQ((*store().find(id))->task.last_error, "refused by the bank");
  EXPECT_EQ(rung({"finish", id.str(), "--failed"}).exit, 1);
  EXPECT_EQ(rung({"finish", id.str(), "--succeeded"}).exit, 0);
  EXPECT_EQ(state_of(id), State::succeeded);
}

}  // namespace
}  // namespace rung::cli
