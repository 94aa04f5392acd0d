// rung move: a queue goes to another group, with what is scheduled. The command is killed between its steps
// by failpoints (src/core/base/failpoint.h).
#include <atomic>
#include <future>
#include <utility>

#include "plugin/rabbitmq/topology/management.h"
#include "tests/integration/cli/groups.h"
#include "tests/support/http_between.h"

namespace rung::cli {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class MoveQueue : public Groups {
 protected:
  MoveQueue() {
    broker_ = ", management: \"" + needed("RUNG_TEST_MANAGEMENT") + "\"";
    amqp_.declare(queue_);
    belongs_to_eu();
  }
  ~MoveQueue() override {
    BrokerOptions options;
    options.url = test::amqp_url();
    options.rabbitmq.management = needed("RUNG_TEST_MANAGEMENT");
    if (auto admin = rabbit::management_admin(options, 10s)) (*admin)->remove(rabbit::policy_name(queue_));
    amqp_.remove(queue_);
  }

  void belongs_to_eu() { write(text(queue_, "nothing", more_)); }
  void belongs_to_us() { write(text("nothing", queue_, more_)); }
  void reload() {
    for (test::Sidecar* sidecar : {eu_.get(), us_.get()}) {
      sidecar->signal(SIGHUP);
      ASSERT_TRUE(sidecar->logged("config reloaded"));
    }
  }
  void migrate() {
    for (const char* group : {"eu", "us"}) ASSERT_EQ(rung({"migrate", "--group", group}).exit, 0);
  }
  Ran move(std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"move", queue_, "--to", "us"});
    return rung(more);
  }
  // Killed at this failpoint.
  void move_killed_at(const char* failpoint) {
    setenv("RUNG_FAILPOINT", failpoint, 1);
    const Ran ran = move();
    unsetenv("RUNG_FAILPOINT");
    EXPECT_THAT(ran.exit, ::testing::AnyOf(-9, 128 + 9)) << ran.out << ran.err;
  }
  // A delay of an hour in eu; its retry-id.
  std::string submit(const std::string& message_id) {
    const Ran ran = rung({"submit", "--queue", queue_, "--delay", "1h", "--message-id", message_id, "--body",
                          message_id, "--json"});
    EXPECT_EQ(ran.exit, 0) << ran.err;
    return json::parse(ran.out, nullptr, false).value("retry_id", "");
  }
  // A delivery of eu whose success must be reported; the queue then belongs to us, as all sidecars know.
  auto await_a_report() {
    more_ = "queues: { \"" + queue_ + "\": { success: { reported_within: 1h } } }\n";
    belongs_to_eu();
    start_both();
    EXPECT_EQ(rung({"attach", queue_}).exit, 0);
    fail_once(queue_);
    auto first = amqp_.get_within(queue_, 30s);
    if (first) amqp_.ack(*first);
    EXPECT_TRUE(test::eventually([&] { return count(eu_db_, "state = 'awaiting'") == "1"; }, 30s));
    belongs_to_us();
    reload();
    return first;
  }
  static std::string column(test::MysqlSchema& db, const std::string& name, const std::string& where) {
    return db.value("SELECT " + name + " FROM " + db.name() + ".retry_current WHERE " + where);
  }
  // "reason, until" of the pause in force; "" = none.
  static std::string pause(test::MysqlSchema& db) {
    const auto rows =
        db.query("SELECT reason, until FROM " + db.name() + ".retry_queues WHERE state = 'paused'");
    return rows.empty() ? "" : rows[0][0] + ", " + rows[0][1];
  }
  void expect_untouched(const Ran& ran) {
    EXPECT_THAT(ran.err, Not(HasSubstr("is paused"))) << "it looks before it changes anything";
    EXPECT_EQ(pause(eu_db_), "");
    EXPECT_EQ(count(eu_db_, "state = 'scheduled'"), "1");
  }

  std::string more_;
  const std::string queue_ = name_ + ".mails";
};

TEST_F(MoveQueue, ARetryGoesOnWhereItStood) {
  ladder_ = "[200ms, 20s, 1h]";
  belongs_to_eu();
  start_both();
  ASSERT_EQ(rung({"attach", queue_}).exit, 0);
  fail_once(queue_);
  const auto first = amqp_.get_within(queue_, 30s);
  ASSERT_TRUE(first);
  amqp_.reject(*first);
  const std::string waits = "level = 2 AND attempt = 1 AND state = 'scheduled'";
  ASSERT_TRUE(test::eventually([&] { return count(eu_db_, waits) == "1"; }, 30s)) << eu_->log_tail();
  const std::string facts = "CONCAT_WS(' ', next_due_at, first_failed_at, levels, ladder, last_error)";
  const std::string before = column(eu_db_, facts, waits);
  const std::int64_t due = test::ms_of(column(eu_db_, "next_due_at", waits));
  belongs_to_us();
  reload();
  const Ran ran = move({"--json"});
  ASSERT_EQ(ran.exit, 0) << ran.err << us_->log_tail();
  const json said = json::parse(ran.out, nullptr, false);
  EXPECT_EQ(said["attach"]["result"], "attached") << said;
  EXPECT_EQ(said["from"],
            json::array({{{"group", "eu"}, {"moved", 1}, {"scheduled", 0}, {"awaiting", 0}, {"parked", 0}}}));
  EXPECT_EQ(column(us_db_, facts, waits), before);
  EXPECT_EQ(column(eu_db_, "last_error", "state = 'cancelled'"), "moved to us");
  EXPECT_EQ(pause(eu_db_) + pause(us_db_), "");
  const std::string us = us_db_.name();
  EXPECT_EQ(us_db_.value("SELECT (SELECT COALESCE(SUM(failures), 0) FROM " + us + ".rung_cause_changes) + (" +
                         "SELECT COALESCE(SUM(failures), 0) FROM " + us + ".rung_cause_rates)"),
            "0")
      << "it failed in eu";

  const auto second = amqp_.get_within(queue_, 60s);
  ASSERT_TRUE(second) << us_->log_tail();
  EXPECT_GE(test::wall_ms(), due);
  EXPECT_EQ(test::retry_id(*second), column(us_db_, "retry_id", "TRUE"));
  EXPECT_EQ(test::int_header(second->message, "retry-attempt"), 2);
  EXPECT_EQ(second->message.body, "to " + queue_);
  amqp_.reject(*second);  // to us, which goes on with the ladder
  EXPECT_TRUE(test::eventually([&] { return count(us_db_, "level = 3 AND attempt = 2") == "1"; }, 30s))
      << us_->log_tail();
  EXPECT_EQ(count(eu_db_, "state <> 'cancelled'"), "0");
}

TEST_F(MoveQueue, ARepetitionAfterACrashMovesEachTaskOnce) {
  migrate();
  const std::string same = submit("same"), given_up = submit("given up"), later = submit("later");
  belongs_to_us();
  move_killed_at("cancel.before_commit");  // the copies are there, and the old rows count, too
  EXPECT_EQ(count(eu_db_, "state = 'scheduled'"), "3");
  EXPECT_EQ(count(us_db_, "state = 'scheduled'"), "3");
  EXPECT_THAT(pause(eu_db_), HasSubstr("rung move to us"));
  EXPECT_THAT(pause(us_db_), HasSubstr("rung move to us"));
  // Meanwhile people change the rows that they know.
  ASSERT_EQ(rung({"cancel", given_up, "--group", "eu"}).exit, 0);
  ASSERT_EQ(rung({"reschedule", later, "--delay", "5h", "--group", "eu"}).exit, 0);
  const std::string due = column(eu_db_, "next_due_at", "retry_id = " + later);

  const Ran ran = move();
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("is already attached"), HasSubstr("group eu: 2 tasks moved to us")));
  EXPECT_EQ(count(eu_db_, "state = 'scheduled'"), "0");
  EXPECT_EQ(count(us_db_, "state = 'scheduled' AND message_id = 'same'"), "1");
  EXPECT_EQ(count(us_db_, "state = 'scheduled' AND message_id = 'given up'"), "0")
      << "a person has cancelled it";
  EXPECT_EQ(count(us_db_, "state = 'scheduled' AND message_id = 'later'"), "1");
  EXPECT_EQ(column(us_db_, "next_due_at", "state = 'scheduled' AND message_id = 'later'"), due);
  EXPECT_EQ(pause(eu_db_) + pause(us_db_), "");
  // A client that submits it once more gets the task that has moved.
  const Ran again =
      rung({"submit", "--queue", queue_, "--delay", "1h", "--message-id", "same", "--body", "same"});
  EXPECT_THAT(again.out, HasSubstr("was already submitted")) << again.err;
  EXPECT_THAT(rung({"audit", same, "--group", "eu"}).out, HasSubstr("moved to us"));
  // There is nothing left, and back they go.
  EXPECT_THAT(move().out,
              AllOf(HasSubstr("is already attached"), HasSubstr("no other group has tasks under way")));
  belongs_to_eu();
  const Ran back = rung({"move", queue_, "--to", "eu"});
  EXPECT_THAT(back.out, HasSubstr("group us: 2 tasks moved to eu")) << back.err;
  EXPECT_EQ(count(eu_db_, "state = 'scheduled'"), "2");
  EXPECT_EQ(count(us_db_, "state = 'scheduled'"), "0");
}

TEST_F(MoveQueue, AKilledCommandThatHasCancelledLeavesTheCopy) {
  migrate();
  submit("one");
  belongs_to_us();
  move_killed_at("cancel.after_commit");
  EXPECT_EQ(count(eu_db_, "state = 'scheduled'"), "0");
  const Ran ran = move();
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_EQ(count(us_db_, "state = 'scheduled'"), "1");
  EXPECT_EQ(pause(eu_db_) + pause(us_db_), "");
}

TEST_F(MoveQueue, WhatIsWrongIsSaidBeforeAnythingChanges) {
  migrate();
  submit("one");
  const Ran anothers = move();
  EXPECT_EQ(anothers.exit, 1);
  EXPECT_THAT(anothers.err, HasSubstr("belongs to group eu in this file: first add it to groups.us.queues"));
  expect_untouched(anothers);
  EXPECT_THAT(rung({"move", queue_, "--to", "mars"}).err,
              HasSubstr("unknown group 'mars': available groups: eu, us"));

  write(text("nothing", name_ + ".*"));
  const Ran argument = rung({"move", eu_queue_, "--to", "us"});
  EXPECT_EQ(argument.exit, 1);
  EXPECT_THAT(argument.err, HasSubstr("redeclare it without the argument or with '" + name_ + "-us.failed'"));
  EXPECT_EQ(rung({"move", name_ + ".none", "--to", "us"}).exit, 3);

  write(text("nothing", queue_) + "  gone: { store: { url: \"mysql://u@127.0.0.1:1/none\" } }\n");
  const Ran away = move();
  EXPECT_EQ(away.exit, 2);
  EXPECT_THAT(away.err, HasSubstr("group gone: "));
  expect_untouched(away);
}

TEST_F(MoveQueue, SidecarsThatWereNotReloadedAreNamed) {
  start_both();
  submit("one");
  belongs_to_us();
  const Ran ran = move();
  EXPECT_EQ(ran.exit, 1);
  EXPECT_THAT(ran.err, AllOf(HasSubstr("sidecars run another config than this file: group eu: n ("),
                             HasSubstr("group us: n (")));
  expect_untouched(ran);
  reload();
  EXPECT_EQ(move().exit, 0) << "it waits for their next heartbeat";
}

// Silence would make eu send it again, while its failure goes to us.
TEST_F(MoveQueue, ADeliveryThatMustBeReportedIsWaitedFor) {
  const auto first = await_a_report();
  ASSERT_TRUE(first);
  const Ran late = move({"--wait", "1s"});
  EXPECT_EQ(late.exit, 1);
  EXPECT_THAT(late.err, HasSubstr("1 deliveries are still being published, or have no answer yet"));
  EXPECT_EQ(pause(eu_db_) + pause(us_db_), "");
  EXPECT_THAT(rung({"attached"}).out, Not(HasSubstr(name_ + "-us.failed")));
  ASSERT_EQ(rung({"finish", test::retry_id(*first), "--succeeded", "--group", "eu"}).exit, 0);
  const Ran good = move({"--wait", "30s"});
  EXPECT_EQ(good.exit, 0) << good.err;
}

TEST_F(MoveQueue, APersonsPauseStaysAndComesAlong) {
  migrate();
  submit("one");
  ASSERT_EQ(rung({"pause", queue_, "--group", "eu", "--reason", "the shop is down"}).exit, 0);
  const std::string before = pause(eu_db_);
  belongs_to_us();
  move_killed_at("cancel.after_commit");
  EXPECT_THAT(pause(us_db_), HasSubstr("rung move to us"));
  const Ran ran = move();
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("stays paused, as a person has paused it: eu and us"));
  EXPECT_EQ(pause(eu_db_), before);
  EXPECT_EQ(pause(us_db_), before);
  EXPECT_EQ(count(us_db_, "state = 'scheduled'"), "1");
  // One that ends while the tasks move would let both rows of a task go.
  belongs_to_eu();
  ASSERT_EQ(rung({"pause", queue_, "--group", "us", "--for", "2h"}).exit, 0);
  const Ran ends = rung({"move", queue_, "--to", "eu"});
  EXPECT_EQ(ends.exit, 1);
  EXPECT_THAT(ends.err, AllOf(HasSubstr("queue " + queue_ + " is paused in us until "),
                              HasSubstr("UTC: resume it, or pause it without an end, and run rung move")));
  EXPECT_EQ(count(us_db_, "state = 'scheduled'"), "1");
  EXPECT_EQ(pause(eu_db_), before);
}

// Its copies would be copied once more.
TEST_F(MoveQueue, AnUnfinishedMoveIsFinishedBeforeAnother) {
  migrate();
  const std::string one = submit("one");
  belongs_to_us();
  move_killed_at("cancel.before_commit");
  const std::string before = pause(eu_db_) + pause(us_db_);
  belongs_to_eu();
  const Ran back = rung({"move", queue_, "--to", "eu"});
  EXPECT_EQ(back.exit, 1);
  EXPECT_THAT(back.err,
              HasSubstr("a move of " + queue_ + " to us was not finished: put the queue back under " +
                        "groups.us.queues and run `rung move " + queue_ + " --to us` first"));
  EXPECT_EQ(pause(eu_db_) + pause(us_db_), before);
  EXPECT_EQ(count(eu_db_, "TRUE"), "1");
  EXPECT_EQ(count(us_db_, "TRUE"), "1");
  // The copy of the first run is found although the second one is killed, too.
  belongs_to_us();
  ASSERT_EQ(rung({"reschedule", one, "--delay", "5h", "--group", "eu"}).exit, 0);
  move_killed_at("cancel.before_commit");
  const Ran ran = move();
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_EQ(count(us_db_, "state = 'scheduled'"), "1");
  EXPECT_EQ(pause(eu_db_) + pause(us_db_), "");
}

// The pauses that mark an unfinished move are gone: somebody resumed the queue, or paused it by hand.
TEST_F(MoveQueue, ACopyWhoseOldRowStillCountsDoesNotMoveBack) {
  migrate();
  ASSERT_EQ(rung({"submit", "--queue", queue_, "--delay", "1h", "--body", "one"}).exit, 0);
  belongs_to_us();
  move_killed_at("cancel.before_commit");
  belongs_to_eu();
  const std::string attached = rung({"attached", queue_}).out;
  for (const bool paused : {false, true}) {
    for (const char* group : {"eu", "us"}) {
      if (paused) {
        ASSERT_EQ(rung({"pause", queue_, "--group", group, "--reason", "the shop is down"}).exit, 0);
      } else {
        ASSERT_EQ(rung({"resume", queue_, "--group", group}).exit, 0);
      }
    }
    const std::string before = pause(eu_db_) + pause(us_db_);
    const Ran back = rung({"move", queue_, "--to", "eu"});
    EXPECT_EQ(back.exit, 1);
    EXPECT_THAT(back.err, AllOf(HasSubstr("is scheduled in group eu, and has a copy in group us"),
                                HasSubstr("run `rung move " + queue_ + " --to us` first")));
    EXPECT_EQ(pause(eu_db_) + pause(us_db_), before);
    EXPECT_EQ(rung({"attached", queue_}).out, attached) << "nothing was changed";
    EXPECT_EQ(count(eu_db_, "TRUE"), "1");
    EXPECT_EQ(count(us_db_, "state = 'scheduled'"), "1");
  }
  belongs_to_us();
  const Ran finished = move();
  EXPECT_EQ(finished.exit, 0) << finished.err;
  EXPECT_EQ(count(eu_db_, "state = 'scheduled'"), "0");
  EXPECT_EQ(count(us_db_, "state = 'scheduled'"), "1");
  belongs_to_eu();
  const Ran returned = rung({"move", queue_, "--to", "eu"});
  EXPECT_EQ(returned.exit, 0) << returned.err;
  EXPECT_EQ(count(eu_db_, "state = 'scheduled'"), "1");
  EXPECT_EQ(count(us_db_, "state = 'scheduled'"), "0");
}

TEST_F(MoveQueue, WhoPausesMeanwhileIsNotOverruled) {
  const auto first = await_a_report();
  ASSERT_TRUE(first);
  // A person.
  auto run = std::async(std::launch::async, [&] { return move({"--wait", "15s"}); });
  ASSERT_TRUE(test::eventually([&] { return !pause(us_db_).empty(); }, 30s));
  ASSERT_EQ(rung({"pause", queue_, "--group", "us", "--reason", "the shop is down"}).exit, 0);
  Ran ran = run.get();
  EXPECT_EQ(ran.exit, 1);
  EXPECT_THAT(ran.err, HasSubstr("group us: queue " + queue_ + " stays paused until it is resumed by"));
  EXPECT_THAT(pause(us_db_), HasSubstr("the shop is down"));
  EXPECT_EQ(pause(eu_db_), "");
  ASSERT_EQ(rung({"resume", queue_, "--group", "us"}).exit, 0);
  // Another run: the pauses are its own from then on.
  run = std::async(std::launch::async, [&] { return move({"--wait", "120s"}); });
  ASSERT_TRUE(test::eventually([&] { return !pause(us_db_).empty(); }, 30s));
  const Ran other = move({"--wait", "1s"});
  EXPECT_EQ(other.exit, 1);
  EXPECT_THAT(other.err, HasSubstr("in eu and us stay as they are: an earlier run was not finished"));
  ASSERT_EQ(rung({"finish", test::retry_id(*first), "--succeeded", "--group", "eu"}).exit, 0);
  ran = run.get();
  EXPECT_EQ(ran.exit, 1);
  EXPECT_THAT(ran.err, HasSubstr("another rung move of this queue is under way"));
  EXPECT_THAT(pause(eu_db_), HasSubstr("rung move to us"));
  EXPECT_THAT(pause(us_db_), HasSubstr("rung move to us"));
  EXPECT_THAT(rung({"attached"}).out, Not(HasSubstr(name_ + "-us.failed")));
  EXPECT_EQ(move().exit, 0);
  EXPECT_EQ(pause(eu_db_) + pause(us_db_), "");
}

TEST_F(MoveQueue, OnceItIsAttachedAnErrorLeavesItPaused) {
  migrate();
  submit("one");
  belongs_to_us();
  const std::string causes = us_db_.name() + ".rung_causes";
  us_db_.exec("RENAME TABLE " + causes + " TO " + causes + "_away");
  const Ran failed = move();
  EXPECT_NE(failed.exit, 0);
  EXPECT_THAT(failed.out, HasSubstr("is attached by policy"));
  EXPECT_THAT(failed.err, HasSubstr("in eu and us stay as they are: it is attached to us already"));
  EXPECT_THAT(pause(eu_db_), HasSubstr("rung move to us"));
  EXPECT_THAT(pause(us_db_), HasSubstr("rung move to us"));
  us_db_.exec("RENAME TABLE " + causes + "_away TO " + causes);
  const Ran ran = move();
  EXPECT_THAT(ran.out, HasSubstr("group eu: 1 tasks moved to us")) << ran.err;
  EXPECT_EQ(pause(eu_db_) + pause(us_db_), "");
}

// The answer to the new policy is lost: the failures of the queue may go to us already.
TEST_F(MoveQueue, WhatMayBeAttachedStaysPaused) {
  migrate();
  submit("one");
  std::atomic<bool> set = false;
  const test::HttpBetween management(needed("RUNG_TEST_MANAGEMENT"),
                                     [&](const std::string& path, test::HttpBetween::Answer& answer) {
                                       if (set && path.starts_with("/api/queues")) answer.status = 503;
                                       if (path.find("/rung-") != std::string::npos) set = true;
                                     });
  const std::string real = std::exchange(broker_, ", management: \"" + management.url() + "\"");
  belongs_to_us();
  const Ran failed = move();
  EXPECT_NE(failed.exit, 0) << failed.out;
  EXPECT_TRUE(set);
  EXPECT_THAT(failed.err, HasSubstr("in eu and us stay as they are: it may be attached to us already"));
  EXPECT_THAT(pause(eu_db_), HasSubstr("rung move to us"));
  EXPECT_THAT(pause(us_db_), HasSubstr("rung move to us"));
  broker_ = real;
  belongs_to_us();
  const Ran ran = move();
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_EQ(pause(eu_db_) + pause(us_db_), "");
}

// Each group has acknowledged its own submission: cancelling the task in eu leaves the one in us alone.
TEST_F(MoveQueue, ATaskThatWasSubmittedInBothGroupsIsNoCopy) {
  migrate();
  submit("one");
  belongs_to_us();
  submit("one");
  const std::string tasks = eu_db_.name() + ".rung_tasks";
  eu_db_.exec("BEGIN");
  eu_db_.exec("UPDATE " + tasks + " SET state = 'cancelled', version = version + 1");
  auto run = std::async(std::launch::async, [&] { return move(); });
  test::MysqlSchema watch;
  ASSERT_TRUE(test::eventually(
      [&] {
        return watch.value("SELECT COUNT(*) FROM " + watch.processlist() + " WHERE db = '" + eu_db_.name() +
                           "' AND info LIKE '%FOR UPDATE%'") != "0";
      },
      60s))
      << "it has found the task in us, and cancels the one in eu";
  eu_db_.exec("COMMIT");
  const Ran ran = run.get();
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_EQ(count(us_db_, "state = 'scheduled'"), "1");
  EXPECT_EQ(pause(eu_db_) + pause(us_db_), "");
}

TEST_F(MoveQueue, WhatCannotMoveWaitsIfSilenceWouldSendItAgain) {
  const std::string failure = "queues: { \"" + queue_ + "\": { success: { reported_within: 1h } } }\n";
  more_ = failure;
  belongs_to_eu();
  migrate();
  submit("one");
  eu_db_.exec("UPDATE " + eu_db_.name() + ".rung_bodies SET headers = '{'");
  belongs_to_us();
  const Ran kept = move();
  EXPECT_EQ(kept.exit, 1);
  EXPECT_THAT(kept.err, AllOf(HasSubstr("1 scheduled tasks were not moved: task "),
                              HasSubstr("in eu and us stay as they are: silence would send again")));
  EXPECT_THAT(pause(eu_db_), HasSubstr("rung move to us"));
  more_.clear();
  belongs_to_us();
  const Ran lifted = move();
  EXPECT_EQ(lifted.exit, 1);
  EXPECT_THAT(lifted.err, HasSubstr("or they go out from eu"));
  EXPECT_EQ(pause(eu_db_) + pause(us_db_), "");
}

}  // namespace
}  // namespace rung::cli
