// rung causes: what fails and why, what people say about it, and --cause on lists and bulks.
#include "tests/integration/cli/fixture.h"

namespace rung::cli {
namespace {

using namespace std::chrono_literals;

class CausesOfTasks : public CliTest {
 protected:
  std::string failed(const std::string& error, const std::string& queue = "orders",
                     const std::string& type = "") {
    NewTask n = fresh(queue, 1h);
    n.task.last_error = error;
    n.task.error_type = type;
    return insert(n).str();
  }
  std::string cause_of(const std::string& id) { return rung_json({"show", id})["cause_id"]; }
};

TEST_F(CausesOfTasks, TenThousandFailuresAreThreeCauses) {
  const std::string one = failed("charges/ch_e778fec30fae: card declined", "orders", "CardError"),
                    two = failed("charges/ch_0001: card declined", "orders", "CardError"),
                    other = failed("dead-lettered: rejected (from invoices)", "invoices");
  const std::string cause = cause_of(one);
  EXPECT_EQ(cause_of(two), cause);
  EXPECT_NE(cause_of(other), cause);
  const std::string table = rung({"causes"}).out;
  EXPECT_THAT(table, HasSubstr("CardError: charges/"));
  EXPECT_THAT(table, HasSubstr(cause));
  EXPECT_THAT(table, HasSubstr("the consumer rejects without a reason"));
  const json causes = rung_json({"causes", "--queue", "orders"});
  ASSERT_EQ(causes["causes"].size(), 1U);
  EXPECT_EQ(causes["next"], nullptr);
  EXPECT_EQ(causes["causes"][0]["cause_id"], cause);
  EXPECT_EQ(causes["causes"][0]["scheduled"], 2);
  EXPECT_EQ(causes["causes"][0]["state"], "new");
  const std::string next = rung_json({"causes", "--limit", "1"})["next"];
  EXPECT_EQ(rung_json({"causes", "--limit", "1", "--cursor", next})["causes"].size(), 1U);

  EXPECT_THAT(rung({"list", "--cause", "grüße"}).err, HasSubstr("12 hexadecimal digits"));
  EXPECT_EQ(rung_json({"list", "--cause", cause})["tasks"].size(), 2U);
  EXPECT_EQ(rung_json({"cancel", "--cause", cause, "--dry-run"})["count"], 2);
  EXPECT_THAT(rung({"list", "--since", "1h", "--count", "--by", "cause"}).out, HasSubstr("2  " + cause));
  const Ran cancelled = rung({"cancel", "--cause", cause, "--yes"});
  EXPECT_THAT(cancelled.out, HasSubstr("2"));
  EXPECT_THAT(cancelled.err, HasSubstr("--cause " + cause + ": CardError: charges/"));
  EXPECT_THAT(rung({"bulk", "list"}).out, HasSubstr(cause + ": CardError: charges/"));
  EXPECT_EQ(rung({"causes", "--queue", "orders"}).out,
            "no task that has failed is under way or parked (see --include-ended)\n");
  EXPECT_EQ(rung_json({"causes", "--queue", "orders", "--include-ended"})["causes"][0]["total"], 2);
}

TEST_F(CausesOfTasks, PeopleSayWhatTheyAre) {
  const std::string cause = cause_of(failed("no stock"));
  EXPECT_THAT(rung({"causes", "note", cause, "the supplier is late", "--link", "https://t/1"}).out,
              HasSubstr("cause " + cause + " is known: the supplier is late"));
  EXPECT_THAT(rung({"causes"}).out, HasSubstr("the supplier is late https://t/1"));
  EXPECT_EQ(rung_json({"causes", "own", cause, "alice"})["state"], "working");
  EXPECT_EQ(rung_json({"causes", "--state", "working,new"})["causes"][0]["owner"], "alice");
  const json nobody = rung_json({"causes", "own", cause, "--nobody"});
  EXPECT_EQ(nobody["owner"], nullptr);
  EXPECT_EQ(nobody["state"], "known");
  EXPECT_EQ(rung_json({"causes", "ignore", cause})["state"], "ignored");
  EXPECT_THAT(
      db.value("SELECT detail FROM retry_events WHERE kind = 'cause_triaged' ORDER BY event_id DESC LIMIT 1"),
      ContainsRegex(who() + ": state 'ignored'"));
  EXPECT_EQ(rung_json({"causes", "resolve", cause, "--note", "mended in 1.2"})["state"], "resolved");
  const std::string one = rung({"causes", cause}).out;
  EXPECT_THAT(one, HasSubstr("no stock"));
  EXPECT_THAT(one, HasSubstr("resolved"));
  EXPECT_THAT(one, HasSubstr("mended in 1.2"));
  EXPECT_THAT(one, ContainsRegex("\nscheduled +1\n"));
  EXPECT_EQ(rung_json({"causes", cause})["cause_id"], cause);
}

}  // namespace
}  // namespace rung::cli
