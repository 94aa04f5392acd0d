// The database answers, but refuses: a table is missing, a right was revoked. Work waits, the problem is
// reported, and work continues by itself afterwards; nothing is parked, no attempt is lost, no message stays
// unacked for ever.
#include "tests/integration/trouble/fixture.h"

namespace rung::test {
namespace {

class Refused : public TroubleTest {
 protected:
  // Longer than the database refuses: what was sent when a lease is lost comes twice.
  Refused() { config.more = "lease: 1m\n"; }
  // Until all that both may have unacked is with them, and what comes now stays in the broker.
  void until_the_prefetch_is_full() {
    EXPECT_TRUE(eventually([&] { return amqp.depth(failed()).value_or(0) > 20; }, kBound));
  }
  // The whole of promise 8, from the moment on at which the database refuses.
  void expect_told() {
    EXPECT_TRUE(rung().logged("database refuses this instance")) << rung().log_tail();
    EXPECT_TRUE(eventually([&] { return both_tell("database"); }, kBound)) << ready(ports[0]).body;
    EXPECT_EQ(ready(ports[0]).json()["checks"]["database"], false);
    until_the_prefetch_is_full();
  }
  void expect_healed() {
    EXPECT_TRUE(eventually([&] { return both_ready(); }, kBound)) << ready(ports[0]).body;
    EXPECT_FALSE(has_problem(ready(ports[0]), "database"));
    all_arrived();
    EXPECT_TRUE(rung().running());
    EXPECT_TRUE(second->running());
  }
};

TEST_F(Refused, ATableThatIsAwayIsWaitedOut) {
  begin();
  for (const std::string name : {"rung_bodies", "rung_tasks", "rung_attempts", "rung_shards"}) {
    db.exec("RENAME TABLE " + name + " TO away");
    if (name == "rung_bodies") {
      expect_told();
      EXPECT_NE(rung().log().find(name), std::string::npos) << "the server's words are missing";
    }
    EXPECT_TRUE(eventually([&] { return both_tell("database"); }, kBound)) << name << ready(ports[0]).body;
    db.exec("RENAME TABLE away TO " + name);
    EXPECT_TRUE(eventually([&] { return both_ready(); }, kBound)) << name << ready(ports[0]).body;
  }
  expect_healed();
}

// The login itself, in the middle of work: no end of the process, as a wrong password at the start is.
TEST_F(Refused, ALockedAccountIsWaitedOut) {
  own_user();
  begin();
  db.exec("ALTER USER '" + user + "'@'%' ACCOUNT LOCK");
  end_connections(user);
  expect_told();
  db.exec("ALTER USER '" + user + "'@'%' ACCOUNT UNLOCK");
  expect_healed();
}

}  // namespace
}  // namespace rung::test
