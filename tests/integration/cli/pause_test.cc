// pause, resume, queues; and what show and stats say of a paused queue.
#include "tests/integration/cli/fixture.h"

namespace rung::cli {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class PauseCommand : public CliTest {
 protected:
  json queue(const std::string& name) {
    const json all = rung_json({"queues"});
    for (const json& one : all["queues"]) {
      if (one["queue"] == name) return one;
    }
    return nullptr;
  }
  // Until when the breaker is open, as the sidecars write it.
  EpochMs open_breaker(const std::string& name) {
    EpochMs until;
    EXPECT_TRUE(store().change_gate(name, [&](GateState& state, EpochMs now) {
      until = now + Ms{600'000};
      state.breaker.state = Breaker::State::open;
      state.breaker.since = state.breaker.opened_at = now;
      state.breaker.until = until;
      state.breaker.reason = "20 of the last 100 deliveries failed, the last one with: boom";
      return std::vector<SystemEvent>{};
    }));
    return until;
  }
};

TEST_F(PauseCommand, PausesUntilItIsResumed) {
  insert(fresh("orders", 10min));
  insert(fresh("orders", 20min));
  insert(fresh("invoices", 20min));
  const Ran ran = rung({"pause", "orders", "--reason", "the shop is down"});
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_THAT(ran.out, ContainsRegex("^orders is paused until it is resumed by " + who() +
                                     " \\(the shop is down\\)\n$"));
  const json paused = queue("orders");
  EXPECT_EQ(paused["state"], "paused");
  EXPECT_EQ(paused["waiting"], 2);
  EXPECT_EQ(paused["until"], nullptr);
  EXPECT_EQ(paused["reason"], "the shop is down");
  EXPECT_EQ(queue("invoices")["state"], "flowing");

  const Ran table = rung({"queues"});
  EXPECT_THAT(table.out, ContainsRegex("orders +paused +" + kJustNow +
                                       " +until resumed +2 +in (9m[0-9]+s|10m) +.*the shop is down"));
  EXPECT_THAT(table.out, ContainsRegex("invoices +flowing +- +- +1 "));

  const Ran resumed = rung({"resume", "orders"});
  EXPECT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_THAT(resumed.out, ContainsRegex("^orders flows again, after .*s\n$"));
  EXPECT_EQ(queue("orders")["state"], "flowing");
  const Ran again = rung({"resume", "orders"});
  EXPECT_EQ(again.exit, 0);
  EXPECT_EQ(again.out, "nothing to do: orders is not paused\n");
}

TEST_F(PauseCommand, ForAWhileOrUntilATime) {
  store();
  EXPECT_EQ(rung_json({"pause", "orders", "--for", "2h"})["state"], "paused");
  EXPECT_EQ(db.value("SELECT ROUND(TIMESTAMPDIFF(SECOND, since, until) / 60) FROM retry_queues"), "120");
  EXPECT_EQ(rung_json({"pause", "orders", "--until", "2099-01-01T08:00:00Z"})["until"],
            "2099-01-01T08:00:00.000Z");
  const json at_night = rung_json({"pause", "orders", "--until", "03:00"});
  EXPECT_EQ(db.value("SELECT until > UTC_TIMESTAMP() AND until <= UTC_TIMESTAMP() + INTERVAL 25 HOUR AND "
                     "MINUTE(until) % 15 = 0 AND SECOND(until) = 0 FROM retry_queues"),
            "1");
  EXPECT_EQ(rung({"pause", "orders"}).exit, 0);
  EXPECT_EQ(queue("orders")["until"], nullptr) << "changed again";
}

TEST_F(PauseCommand, WhatIsWrongIsSaid) {
  store();
  const auto refused = [&](std::vector<std::string> words, const std::string& why) {
    const Ran ran = rung(std::move(words));
    EXPECT_EQ(ran.exit, 1) << ran.out;
    EXPECT_THAT(ran.err, HasSubstr(why));
  };
  refused({"pause", "orders", "--for", "2 hours"}, "is not a duration");
  refused({"pause", "orders", "--until", "tomorrow"}, "neither a time of day");
  refused({"pause", "orders", "--until", "2020-01-01T00:00:00Z"}, "has passed");
  refused({"pause", "orders", "--until", "08:00", "--for", "1h"}, "excludes");
  refused({"pause", prefix + ".failed"}, "are Rung's own");
  refused({"resume", prefix + ".failed"}, "are Rung's own");
  refused({"pause", ""}, "cannot be a queue");
  refused({"pause"}, "QUEUE is required");
  EXPECT_EQ(rung({"queues"}).out, "no queue has open tasks, is held back or attached\n");
}

TEST_F(PauseCommand, APatternIsRefusedWhereverAQueueIsNamed) {
  insert(fresh("orders.eu", 10min));
  for (const std::vector<std::string>& named :
       std::vector<std::vector<std::string>>{{"pause", "orders.*"},
                                             {"resume", "orders.*"},
                                             {"list", "--queue", "orders.*"},
                                             {"list", "--count", "--queue", "orders.[ab]"},
                                             {"cancel", "--queue", "order?", "--yes"},
                                             {"redrive", "--queue", "orders.*", "--yes"},
                                             {"causes", "--queue", "orders.*"},
                                             {"audit", "--queue", "orders.*"}}) {
    const Ran ran = rung(named);
    EXPECT_EQ(ran.exit, 1) << named.front() << ran.out;
    EXPECT_THAT(ran.err, HasSubstr("' is a pattern, and no task has a queue of that name: name one queue"));
  }
  EXPECT_EQ(rung_json({"queues"})["queues"][0]["state"], "flowing");
  // RabbitMQ takes such a name, too.
  insert(fresh("all[*]", 10min));
  EXPECT_EQ(rung({"pause", "all[*]"}).exit, 0);
  EXPECT_EQ(rung_json({"list", "--queue", "all[*]"})["tasks"][0]["queue"], "all[*]");
  EXPECT_EQ(rung({"resume", "all[*]"}).exit, 0);
}

TEST_F(PauseCommand, ShowSaysWhatHoldsATaskBack) {
  const TaskId held = insert(fresh("orders", -5min)), other = insert(fresh("invoices", -5min));
  ASSERT_EQ(rung({"pause", "orders", "--until", "2099-01-01T08:00:00Z", "--reason", "deploy"}).exit, 0);
  EXPECT_THAT(rung({"show", held.str()}).out,
              ContainsRegex("\nheld +queue orders is paused until 2099-01-01 08:00:00.000 UTC by " + who() +
                            " \\(deploy\\)\n"));
  const json shown = rung_json({"show", held.str()});
  EXPECT_EQ(shown["held"]["until"], "2099-01-01T08:00:00.000Z");
  EXPECT_THAT(rung({"show", other.str()}).out, Not(HasSubstr("\nheld")));
  EXPECT_EQ(rung_json({"show", other.str()})["held"], nullptr);
  ASSERT_EQ(rung({"resume", "orders"}).exit, 0);
  EXPECT_THAT(rung({"show", held.str()}).out, Not(HasSubstr("\nheld")));
}

TEST_F(PauseCommand, TasksOfAPausedQueueAreNoProblem) {
  insert(fresh("orders", -1h));
  EXPECT_THAT(rung({"stats"}).err, HasSubstr("1 task is overdue by more than"));
  ASSERT_EQ(rung({"pause", "orders"}).exit, 0);
  EXPECT_THAT(rung({"stats"}).err, Not(HasSubstr("overdue by more than")));
}

TEST_F(PauseCommand, AnOpenBreakerIsShownAndIsNotResumed) {
  const TaskId held = insert(fresh("orders", -5min));
  const std::string until = format_utc(open_breaker("orders"));
  EXPECT_THAT(rung({"queues"}).out,
              ContainsRegex(
                  "orders +breaker open +.+ +in (9m[0-9]+s|10m) +1 +5m.* ago +0 +- +- +20 of the last 100"));
  EXPECT_EQ(queue("orders")["state"], "breaker_open");
  const std::string why = "queue orders: breaker open until " + until +
                          " UTC (20 of the last 100 deliveries failed, the last one with: boom)";
  EXPECT_THAT(rung({"show", held.str()}).out, ContainsRegex("\nheld +queue orders: breaker open until "));
  EXPECT_THAT(rung({"show", held.str()}).out, HasSubstr(why));
  EXPECT_EQ(rung_json({"show", held.str()})["held"]["state"], "breaker_open");
  EXPECT_THAT(rung({"stats"}).err, Not(HasSubstr("overdue by more than")));
  const Ran resumed = rung({"resume", "orders"});
  EXPECT_EQ(resumed.exit, 0);
  EXPECT_THAT(resumed.out, HasSubstr("nothing to do: orders is not paused by a person: " + why));
  EXPECT_THAT(resumed.out, HasSubstr("or now: rung resume orders --probe\n"));
  EXPECT_EQ(rung({"resume", "orders", "--probe"}).out,
            "the wait of a breaker has ended: queue orders: breaker half-open, only probes go out (20 of the "
            "last 100 deliveries failed, the last one with: boom)\n");
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

TEST_F(PauseCommand, ARateAndAWindowAreShown) {
  const TaskId due = insert(fresh("orders", -5min)), later = insert(fresh("orders", 1h));
  EXPECT_TRUE(store().change_gate("orders", [](GateState& state, EpochMs now) {
    state.limited = {now, now + Ms{600'000}, "rate 5/s"};
    return std::vector<SystemEvent>{};
  }));
  EXPECT_THAT(rung({"queues"}).out,
              ContainsRegex("orders +rate limited +.+ +- +2 +5m.* ago +0 +- +- +rate 5/s"));
  EXPECT_THAT(rung({"show", due.str()}).out, HasSubstr("waits for the rate of queue orders (rate 5/s)\n"));
  EXPECT_THAT(rung({"show", later.str()}).out, Not(HasSubstr("\nheld")));
  EXPECT_TRUE(store().change_gate("orders", [](GateState& state, EpochMs now) {
    state.outside = {now, now + Ms{600'000}, "window Mon-Fri 08:00-18:00 UTC"};
    return std::vector<SystemEvent>{};
  }));
  EXPECT_THAT(rung({"queues"}).out, ContainsRegex("orders +outside window +.+ +in (9m[0-9]+s|10m) +2 "));
  EXPECT_THAT(rung({"show", due.str()}).out, HasSubstr("queue orders is outside its window until "));
}

TEST_F(PauseCommand, AFiredTaskOfAPausedQueueStillWaits) {
  const TaskId id = insert(fresh("orders", 1h));
  ASSERT_EQ(rung({"pause", "orders"}).exit, 0);
  EXPECT_EQ(rung({"fire", id.str()}).exit, 0);
  EXPECT_EQ(state_of(id), State::scheduled);
  EXPECT_THAT(rung({"show", id.str()}).out, HasSubstr("queue orders is paused"));
}

}  // namespace
}  // namespace rung::cli
