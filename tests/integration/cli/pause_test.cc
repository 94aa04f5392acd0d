// pause and resume: what they do beside what they print (snapshot_test.cc).
#include "tests/integration/cli/fixture.h"

namespace rung::cli {
namespace {

using namespace std::chrono_literals;

class PauseCommand : public CliTest {
 protected:
  // As the sidecars write it.
  void open_breaker(const std::string& name) {
    store().change_gate(name, [](GateState& state, EpochMs now) {
      state.breaker.state = Breaker::State::open;
      state.breaker.since = state.breaker.opened_at = now;
      state.breaker.until = now + Ms{600'000};
      state.breaker.reason = "20 of the last 100 deliveries failed, the last one with: boom";
      return std::vector<SystemEvent>{};
    });
  }
};

TEST_F(PauseCommand, TasksOfAPausedQueueAreNoProblem) {
  insert(fresh("orders", -1h));
  EXPECT_THAT(rung({"stats"}).err, HasSubstr("1 task is overdue by more than"));
  ASSERT_EQ(rung({"pause", "orders"}).exit, 0);
  EXPECT_THAT(rung({"stats"}).err, Not(HasSubstr("overdue by more than")));
}

TEST_F(PauseCommand, ChangesSayWhatHoldsTheQueue) {
  const TaskId id = insert(fresh("orders", 10min));
  open_breaker("orders");
  const std::string held = "queue orders: breaker open until ",
                    mend = "`rung resume orders --probe` tries one now";
  EXPECT_THAT(rung({"fire", id.str()}).out,
              AllOf(HasSubstr("scheduled: "), HasSubstr("; " + held), HasSubstr(mend)));
  NewTask parked = fresh("orders", 10min, "order-1");
  parked.task.state = State::parked;
  parked.task.next_at.reset();
  const TaskId first = insert(parked);
  parked.task.id = fresh("orders", 10min).task.id;
  parked.task.message_id = "order-2";
  const TaskId second = insert(parked);
  const Ran sent = rung({"redrive", "--queue", "orders", "--yes"});
  EXPECT_THAT(sent.err, AllOf(HasSubstr("rung: 2 not sent yet:\nrung: " + held), HasSubstr(mend)));
  EXPECT_THAT(rung({"bulk", "show", "1"}).out, ContainsRegex("\nheld +" + held));

  EXPECT_THAT(rung({"bulk", "abort", "1"}).err, HasSubstr("has already ended: it is done"));
  db.exec("UPDATE rung_bulks SET state = 'paused', finished_at = NULL");
  const Ran aborted = rung({"bulk", "abort", "1"});
  EXPECT_THAT(aborted.out,
              HasSubstr("2 of its tasks are scheduled, and still go out: `rung bulk abort 1 --put-back`"));
  const Ran back = rung({"bulk", "abort", "1", "--put-back", "--reason", "too early"});
  EXPECT_EQ(back.exit, 0) << back.err;
  EXPECT_THAT(back.out, Not(HasSubstr("still go out")));
  for (const TaskId one : {first, second}) EXPECT_EQ(state_of(one), State::parked);
  EXPECT_EQ(state_of(id), State::scheduled);
  EXPECT_EQ(
      db.value(
          "SELECT COUNT(*) FROM retry_audit WHERE what = 'park' AND bulk_id = 1 AND reason = 'too early'"),
      "2");
}

TEST_F(PauseCommand, AQueueThatIsNotKnownIsSuggested) {
  insert(fresh("orders", 10min));
  const std::string why = "rung: no queue \"ordres\": did you mean orders?\n";
  EXPECT_EQ(rung({"list", "--queue", "ordres"}).err, why);
  EXPECT_EQ(rung({"list", "--queue", "ordres", "--count"}).err, why);
  EXPECT_EQ(rung({"redrive", "--queue", "ordres", "--yes"}).err, why);
  EXPECT_EQ(rung({"redrive", "--queue", "orders", "--yes"}).err, "") << "it has tasks";
  const Ran paused = rung({"pause", "ordres"});
  EXPECT_EQ(paused.exit, 0) << "it need not exist yet";
  EXPECT_EQ(paused.err, why);
}

}  // namespace
}  // namespace rung::cli
