// cancel, reschedule, fire, retry, redrive, finish by ids; and who did it.
#include "tests/integration/cli/fixture.h"

namespace rung::cli {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using Changes = CliTest;

// Found by the torture run: the row is read again for its text, and another table of that read was away.
TEST_F(Changes, WhatWasDoneIsToldAlsoWhereTheRowCannotBeReadAgain) {
  const TaskId id = insert(fresh("orders", 10min));
  db.exec("RENAME TABLE rung_nodes TO away");
  const Ran ran = rung({"cancel", id.str()});
  db.exec("RENAME TABLE away TO rung_nodes");
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr(id.str() + "  cancelled before its first retry"));
  EXPECT_EQ(state_of(id), State::cancelled);
}

TEST_F(Changes, SeveralIdsEachWithItsResult) {
  const TaskId a = insert(fresh("orders", 10min));
  const TaskId b = insert(fresh("orders", 10min));
  const Ran ran = rung({"cancel", a.str(), "77", b.str()});
  EXPECT_EQ(ran.exit, 3);
  EXPECT_THAT(ran.err, HasSubstr("77"));
  EXPECT_EQ(state_of(a), State::cancelled);
  EXPECT_EQ(state_of(b), State::cancelled);
  const json results = rung_json({"retry", a.str(), "77"})["results"];
  EXPECT_EQ(results[0]["result"], "refused");
  EXPECT_EQ(results[1]["result"], "not found");
}

}  // namespace
}  // namespace rung::cli
