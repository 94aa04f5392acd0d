// Changes of many tasks by a filter: confirmed, frozen, run, paused, resumed.
#include "tests/integration/cli/at_terminal.h"
#include "tests/integration/cli/fixture.h"
#include "tests/support/sidecar.h"

namespace rung::cli {
namespace {

using namespace std::chrono_literals;

class Bulks : public CliTest {
 protected:
  static constexpr const char* kSlow = "0.05";  // a second: the first one, and long nothing

  std::vector<TaskId> several(int n, const std::string& queue = "orders") {
    std::vector<TaskId> ids;
    for (int i = 0; i < n; ++i) ids.push_back(insert(fresh(queue, 10h)));
    return ids;
  }
  int count(State state) {
    return std::stoi(
        db.value("SELECT COUNT(*) FROM rung_tasks WHERE state = '" + std::string(to_word(state)) + "'"));
  }
};

TEST_F(Bulks, WithoutATerminalItWantsAYes) {
  several(3);
  const Ran ran = rung({"cancel", "--queue", "orders"});
  EXPECT_EQ(ran.exit, 1);
  EXPECT_THAT(ran.err, HasSubstr("use --yes"));
  EXPECT_EQ(count(State::scheduled), 3);
  EXPECT_EQ(db.value("SELECT COUNT(*) FROM rung_bulks"), "0");
}

TEST_F(Bulks, CancelsWhatMatchesAndNothingElse) {
  several(700);
  const auto others = several(2, "invoices");
  const Ran ran = rung({"cancel", "--queue", "orders", "--yes", "--reason", "closing down"});
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_EQ(ran.out, "cancel: 700 of 700 done\n");
  EXPECT_THAT(ran.err, HasSubstr("cancel 700 tasks (--queue orders --state scheduled), bulk 1"));
  // As over HTTP, which finds in it whether a person may pause or abort the bulk.
  EXPECT_EQ(db.value("SELECT filter FROM rung_bulks"), R"({"queue":"orders","state":"scheduled"})");
  EXPECT_EQ(count(State::cancelled), 700);
  for (const TaskId id : others) EXPECT_EQ(state_of(id), State::scheduled);
  EXPECT_EQ(db.value("SELECT COUNT(*) FROM retry_audit WHERE reason = 'closing down' AND retry_id > 0"),
            "700");
  EXPECT_EQ(
      db.value("SELECT COUNT(*) FROM retry_audit WHERE retry_id > 0 AND what = 'cancel' AND who LIKE '" +
               who_like() + "'"),
      "700");
  EXPECT_EQ(rung({"cancel", "--queue", "orders", "--yes"}).out,
            "no tasks match (--queue orders --state scheduled)\n");
  // Aborted, unless a sidecar (that of the API) was quicker: there was nothing left to do.
  const json none = rung_json({"cancel", "--queue", "orders", "--yes"});
  EXPECT_EQ(none["state"], db.value("SELECT state FROM rung_bulks ORDER BY id DESC LIMIT 1"));
  EXPECT_THAT(none["state"], AnyOf(json("aborted"), json("done")));
  EXPECT_EQ(none["total"], 0);
}

// A person says what became of deliveries whose failures may have been dropped. What is being handled just
// now is left alone.
TEST_F(Bulks, FinishesDeliveriesWhoseSilenceIsHeldOpen) {
  const auto ids = several(5);
  for (const TaskId id : ids) {
    happen(id, event::Fire{});
    happen(id, event::Claim{});
    happen(id, event::Confirmed{1, now()});
  }
  db.exec("UPDATE rung_tasks SET next_at = TIMESTAMPADD(HOUR, -1, next_at)");  // their silence ends now
  for (std::size_t i = 0; i < 4; ++i)
    happen(ids[i], event::SilenceOver{.held = "queue orders is not attached"});
  EXPECT_EQ(rung_json({"list", "--outcome-unknown"})["tasks"].size(), 4U);
  EXPECT_EQ(rung_json({"finish", "--queue", "orders", "--succeeded", "--limit", "1", "--yes"})["applied"], 1);
  EXPECT_EQ(count(State::succeeded), 1);
  const json failed =
      rung_json({"finish", "--outcome-unknown", "--failed", "--reason", "says the shop", "--yes"});
  EXPECT_EQ(failed["applied"], 3);
  EXPECT_EQ(failed["action"], "fail");
  EXPECT_EQ(failed["filter"], (json{{"state", "awaiting"}, {"outcome_unknown", "true"}}));
  EXPECT_EQ(db.value("SELECT COUNT(*) FROM retry_current WHERE last_error LIKE '%says the shop%'"), "3");
  EXPECT_EQ(state_of(ids[4]), State::awaiting) << "its consumer may still answer";
}

TEST_F(Bulks, ATerminalIsAsked) {
  several(5);
  {
    AtTerminal no(with_access({"cancel", "--queue", "orders"}));
    EXPECT_THAT(no.until("[y/N] "), HasSubstr("cancel 5 tasks (--queue orders --state scheduled)? [y/N] "));
    no.type("n\n");
    EXPECT_THAT(no.until("nothing was changed"), HasSubstr("nothing was changed"));
    EXPECT_EQ(no.exit(), 1);
  }
  {
    AtTerminal left(with_access({"cancel", "--queue", "orders"}));
    left.until("[y/N] ");
    left.type("\x03");
    left.exit();
  }
  EXPECT_EQ(count(State::scheduled), 5);
  EXPECT_EQ(db.value("SELECT COUNT(*) FROM rung_bulks"), "0") << "a prompt that is left leaves nothing";
  AtTerminal yes(with_access({"cancel", "--queue", "orders"}));
  yes.until("[y/N] ");
  // No more tasks than confirmed: those received first.
  const TaskId late = several(1).front();
  yes.type("y\n");
  EXPECT_THAT(yes.until("of 5 done"), HasSubstr("cancel: 5 of 5 done"));
  EXPECT_EQ(yes.exit(), 0);
  EXPECT_EQ(count(State::cancelled), 5);
  EXPECT_EQ(state_of(late), State::scheduled);
}

TEST_F(Bulks, CtrlCPausesAndResumeGoesOn) {
  several(60);
  {
    AtTerminal slow(with_access({"fire", "--queue", "orders", "--yes", "--rate", kSlow}));
    slow.until("fire: 1 of 60");
    slow.type("\x03");
    EXPECT_THAT(slow.until("rung bulk abort"), HasSubstr("`rung bulk resume 1` resumes it"));
    EXPECT_EQ(slow.exit(), 1);
  }
  const json paused = rung_json({"bulk", "show", "1"});
  EXPECT_EQ(paused["state"], "paused");
  EXPECT_EQ(paused["total"], 60);
  EXPECT_GE(paused["done"], 1);
  EXPECT_LT(paused["done"], 60);
  EXPECT_THAT(rung({"bulk", "list"}).out,
              AllOf(HasSubstr("paused"), HasSubstr("--queue orders --state scheduled")));
  const Ran on = rung({"bulk", "resume", "1", "--rate", "1000"});
  EXPECT_EQ(on.exit, 0) << on.err;
  EXPECT_THAT(on.out, HasSubstr("fire: 60 of 60 done"));
  EXPECT_EQ(db.value("SELECT COUNT(*) FROM retry_current WHERE next_due_at <= UTC_TIMESTAMP(3)"), "60");
  // Each once: no task was fired twice.
  EXPECT_EQ(db.value("SELECT COUNT(*) FROM retry_audit WHERE retry_id > 0"), "60");
}

// Not by the API, whose server carries out bulks.
TEST_F(Bulks, WithoutASidecarItSaysSoAndWaits) {
  several(40);
  db.exec("UPDATE rung_nodes SET expires_at = expires_at - INTERVAL 2 HOUR");
  AtTerminal command({"cancel", "--queue", "orders", "--yes", "-c", config_path()});
  command.until("no sidecar is running: the bulk waits for one");
  EXPECT_EQ(count(State::scheduled), 40);
  test::SidecarConfig config;
  config.store_url = db.url();
  config.prefix = prefix;
  test::Sidecar sidecar(config);
  sidecar.start();
  EXPECT_THAT(command.until("of 40 done"), HasSubstr("cancel: 40 of 40 done")) << sidecar.log_tail();
  EXPECT_EQ(command.exit(), 0);
  // Each once, recorded under the requester's name.
  EXPECT_EQ(db.value("SELECT COUNT(*) FROM retry_audit WHERE retry_id > 0 AND who LIKE '%@% (cli)'"), "40");
  sidecar.signal(SIGTERM);
  sidecar.wait_exit();
  test::AmqpProbe().remove_place(prefix);
}

}  // namespace
}  // namespace rung::cli
