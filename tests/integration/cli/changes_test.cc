// cancel, reschedule, fire, retry, redrive, finish by ids; and who did it.
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
  EXPECT_EQ((*store().find(id))->task.last_error, fresh("orders", 10min).task.last_error);
  EXPECT_EQ((*store().audit(id))[0].reason, "withdrawn");
  EXPECT_THROW(happen(id, event::Claim{}), std::runtime_error);
  const Ran again = rung({"cancel", id.str()});
  EXPECT_EQ(again.exit, 0);
  EXPECT_THAT(again.out, HasSubstr("nothing to do"));
}

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
  const json results = rung_json({"retry", a.str(), "77"})["results"];
  EXPECT_EQ(results[0]["result"], "refused");
  EXPECT_EQ(results[1]["result"], "not found");
}

TEST_F(Changes, RetryIsDueNow) {
  const TaskId id = insert(fresh("orders", 10h));
  const json result = rung_json({"retry", id.str()})["results"];
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

// Repeated after a lost answer: it does not affect the next attempt.
TEST_F(Changes, AFailureSaidTwiceFailsOneAttempt) {
  const TaskId id = insert(fresh("orders", -1s));
  happen(id, event::Claim{});
  happen(id, event::Confirmed{1, now()});
  const std::vector<std::string> say = {"finish", id.str(), "--failed", "--attempt", "1"};
  EXPECT_EQ(rung_json(say)["results"][0]["result"], "applied");
  EXPECT_EQ(rung_json(say)["results"][0]["result"], "nothing to do");
  EXPECT_EQ(rung({"fire", id.str()}).exit, 0);
  happen(id, event::Claim{});
  happen(id, event::Confirmed{2, now()});
  EXPECT_EQ(rung_json(say)["results"][0]["result"], "nothing to do");
  EXPECT_EQ(state_of(id), State::awaiting);
  const Ran none = rung({"finish", id.str(), "--failed", "--attempt", "3"});
  EXPECT_EQ(none.exit, 1);
  EXPECT_THAT(none.err, HasSubstr("no such attempt: it had 2"));
}

TEST_F(Changes, RescheduleGivesAnotherTime) {
  const TaskId id = insert(fresh("orders", 10h));
  const EpochMs before = now();
  EXPECT_EQ(rung({"reschedule", id.str(), "--delay", "2h"}).exit, 0);
  EXPECT_GE((*store().find(id))->task.next_at->ms, (before + 2h).ms);
  EXPECT_LE((*store().find(id))->task.next_at->ms, (now() + 2h).ms);
  EXPECT_EQ(rung({"reschedule", id.str(), "--at", "2099-01-02T03:04:05Z"}).exit, 0);
  EXPECT_EQ((*store().find(id))->task.next_at->ms, 4071006245000);
  EXPECT_THAT(rung({"reschedule", id.str(), "--at", "2099-01-02T03:04:05Z"}).out, HasSubstr("nothing to do"));
  EXPECT_EQ(rung({"reschedule", id.str()}).exit, 1);
  EXPECT_EQ(rung({"reschedule", id.str(), "--delay", "1h", "--at", "2099-01-02T03:04:05Z"}).exit, 1);
  happen(id, event::Cancel{});
  const Ran refused = rung({"reschedule", id.str(), "--delay", "1h"});
  EXPECT_EQ(refused.exit, 1);
  EXPECT_THAT(refused.err, HasSubstr("it is cancelled"));
}

TEST_F(Changes, FireSendsNow) {
  const TaskId id = insert(fresh("orders", 10h));
  const json result = rung_json({"fire", id.str()})["results"];
  EXPECT_EQ(result[0]["result"], "applied");
  EXPECT_LE((*store().find(id))->task.next_at->ms, now().ms);
  EXPECT_EQ(rung_json({"fire", id.str()})["results"][0]["result"], "nothing to do");
  happen(id, event::Claim{});  // it is being published already, as requested
  EXPECT_EQ(rung_json({"fire", id.str()})["results"][0]["result"], "nothing to do");
  happen(id, event::Confirmed{1, now()});
  EXPECT_EQ(rung({"finish", id.str(), "--succeeded"}).exit, 0);
  EXPECT_EQ(rung({"fire", id.str()}).exit, 1);
}

TEST_F(Changes, RedriveElsewhere) {
  const TaskId id = insert(fresh("orders", 10h));
  const Ran ran = rung({"redrive", id.str(), "--to-queue", "orders.by-hand"});
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_EQ((*store().find(id))->task.queue, "orders.by-hand");
  EXPECT_EQ(rung({"redrive", id.str(), "--to-queue", "a", "--to-exchange", "b"}).exit, 1);
  const std::string own = prefix + ".failed";
  for (const Ran& refused : {rung({"redrive", id.str(), "--to-queue", own}),
                             rung({"redrive", "--queue", "orders", "--yes", "--to-exchange", own}),
                             rung({"submit", "--queue", own, "--delay", "1h", "--body", "x"})}) {
    EXPECT_EQ(refused.exit, 1);
    EXPECT_THAT(refused.err, HasSubstr("'" + own + "' begins with " + prefix + "."));
  }
  const Ran mixed = rung({"redrive", id.str(), "--queue", "a"});  // a filter's flag, not the target's
  EXPECT_EQ(mixed.exit, 1);
  EXPECT_THAT(mixed.err, HasSubstr("--to-queue"));
}

TEST_F(Changes, WhoHandledItStandsInTheHistory) {
  const TaskId id = insert(fresh("orders", -1s));
  happen(id, event::Claim{});
  happen(id, event::Confirmed{1, now()});
  EXPECT_EQ(rung({"finish", id.str(), "--failed", "--error", "boom", "--executor", "app-3:8080"}).exit, 0);
  EXPECT_EQ(rung_json({"history", id.str()})["attempts"][0]["executor"], "app-3:8080");
  EXPECT_THAT(rung({"history", id.str()}).out, HasSubstr("app-3:8080"));
}

TEST_F(Changes, EachChangeByHandIsAudited) {
  const TaskId id = insert(fresh("orders", 10h, "m-1"));
  EXPECT_EQ(rung({"audit", "m-1"}).out, "no manual changes\n");
  const std::int64_t first = rung_json({"show", id.str()})["version"];
  rung({"reschedule", id.str(), "--delay", "2h"});
  rung({"cancel", id.str(), "--reason", "withdrawn"});
  rung({"cancel", id.str()});  // changes nothing, leaves no row
  const json audit = rung_json({"audit", id.str()});
  ASSERT_EQ(audit["changes"].size(), 2U);
  EXPECT_EQ(audit["changes"][1]["after"]["version"], first + 2);
  EXPECT_EQ(audit["changes"][0]["what"], "reschedule");
  EXPECT_EQ(audit["changes"][1]["what"], "cancel");
  EXPECT_EQ(audit["changes"][1]["before"]["state"], "scheduled");
  EXPECT_EQ(audit["changes"][1]["after"]["state"], "cancelled");
  EXPECT_THAT(audit["changes"][1]["who"].get<std::string>(), ::testing::MatchesRegex(who()));
  EXPECT_THAT(rung({"audit", id.str()}).out,
              ::testing::AllOf(::testing::ContainsRegex(who()), HasSubstr("state scheduled -> cancelled")));
  // Of all tasks and queues.
  const json all = rung_json({"audit"});
  ASSERT_EQ(all["audit"].size(), 2U);
  EXPECT_EQ(all["audit"][0]["what"], "cancel");
  EXPECT_EQ(all["audit"][0]["retry_id"], id.str());
  EXPECT_EQ(all["audit"][0]["queue"], "orders");
  EXPECT_EQ(all["next_cursor"], nullptr);
  const json first_page = rung_json({"audit", "--limit", "1"});
  const json second_page = rung_json({"audit", "--limit", "1", "--cursor", first_page["next_cursor"]});
  EXPECT_EQ(second_page["audit"][0]["what"], "reschedule");
  EXPECT_THAT(rung({"audit", "--queue", "orders", "--action", "cancel", "--since", "1h"}).out,
              ::testing::HasSubstr("state scheduled -> cancelled"));
  EXPECT_EQ(rung({"audit", "--until", "1h"}).out, "no manual changes\n");
  EXPECT_EQ(rung({"audit", "--action", "claim"}).exit, 1);
  EXPECT_EQ(rung({"audit", "--cursor", "x"}).exit, 1);
  EXPECT_EQ(rung({"audit", id.str(), "--queue", "orders"}).exit, 1);
  EXPECT_EQ(rung({"audit", "77"}).exit, 3);
}

TEST_F(Changes, DiscardGivesUpWhatIsParkedOrScheduled) {
  ASSERT_EQ(rung({"migrate"}).exit, 0);
  const TaskId scheduled = insert(fresh("orders", std::chrono::minutes{10}));
  NewTask parked = fresh("orders", std::chrono::minutes{10});
  parked.task.state = State::parked;
  parked.task.next_at.reset();
  parked.task.finished_at = now();
  insert(parked);
  EXPECT_EQ(rung({"discard", scheduled.str(), "--reason", "withdrawn"}).exit, 0);
  EXPECT_EQ(state_of(scheduled), State::discarded);
  EXPECT_EQ((*store().find(scheduled))->task.last_error, fresh("orders", 10min).task.last_error);
  EXPECT_THAT(rung({"audit", scheduled.str()}).out, testing::HasSubstr("state scheduled -> discarded"));
  EXPECT_THAT(rung({"discard", scheduled.str()}).out, testing::HasSubstr("nothing to do"));
  EXPECT_EQ(rung({"discard", "--queue", "orders", "--yes"}).exit, 0);
  EXPECT_EQ(state_of(parked.task.id), State::discarded);
  EXPECT_EQ(rung({"retry", parked.task.id.str()}).exit, 1);
  EXPECT_EQ(rung({"cancel", parked.task.id.str()}).exit, 1);
}

}  // namespace
}  // namespace rung::cli
