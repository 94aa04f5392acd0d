// Filters on errors, counts by field, reasons, and what the history says about changes by hand.
#include <unistd.h>

#include "tests/integration/cli/fixture.h"

namespace rung::cli {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class Filters : public CliTest {
 protected:
  TaskId failed(const std::string& error, const std::string& type, Ms ago,
                const std::string& queue = "orders") {
    NewTask n = fresh(queue, 1h);
    n.task.last_error = error;
    n.task.error_type = type;
    n.task.first_failed_at = now() - ago;
    return insert(n);
  }
  std::vector<std::string> listed(std::vector<std::string> words) {
    words.insert(words.begin(), {"list", "--sort", "oldest"});
    std::vector<std::string> ids;
    const json seen = rung_json(words);
    for (const json& task : seen["tasks"]) ids.push_back(task["retry_id"]);
    return ids;
  }
};

TEST_F(Filters, ListAndBulksSelectByError) {
  const TaskId bank = failed("HTTP 503 from bank", "Unavailable", 3h),
               slow = failed("http 429", "RateLimited", 2h),
               shop = failed("HTTP 500", "Unavailable", 10min, "shop");
  using Ids = std::vector<std::string>;
  EXPECT_EQ(listed({"--error", "/HTTP 5../"}), (Ids{bank.str(), shop.str()}));
  EXPECT_EQ(listed({"--error", "/http/i"}), (Ids{bank.str(), slow.str(), shop.str()}));
  EXPECT_EQ(listed({"--error", "429"}), (Ids{slow.str()}));
  EXPECT_EQ(listed({"--error-type", "Unavailable"}), (Ids{bank.str(), shop.str()}));
  EXPECT_EQ(listed({"--first-failed-after", "150m"}), (Ids{slow.str(), shop.str()}));
  EXPECT_EQ(listed({"--first-failed-before", "150m"}), (Ids{bank.str()}));
  const Ran wrong = rung({"list", "--error", "/(/"});
  EXPECT_EQ(wrong.exit, 1);
  EXPECT_THAT(wrong.err, HasSubstr("--error: not a regular expression"));
  EXPECT_EQ(rung({"list", "--error", "/^(([A-Z0-9 ]+)+)+!$/"}).out, "no tasks match\n") << "and it returns";

  EXPECT_EQ(rung({"list", "--count", "--by", "error_type"}).out,
            "TASKS  ERROR TYPE\n    2  Unavailable\n    1  RateLimited\n");
  const json counts = rung_json({"list", "--count", "--by", "queue", "--error", "/HTTP/"});
  EXPECT_EQ(counts["count"], 2);
  EXPECT_EQ(counts["groups"], json::parse(R"([{"value":"orders","count":1},{"value":"shop","count":1}])"));
  const Ran header = rung({"list", "--count", "--by", "header.tenant"});
  EXPECT_EQ(header.exit, 1);
  EXPECT_THAT(header.err, HasSubstr("is not indexed"));
  EXPECT_THAT(rung({"list", "--count", "--by", "queu"}).err, HasSubstr("did you mean queue?"));
  const json dry = rung_json({"cancel", "--error-type", "Unavailable", "--dry-run", "--by", "queue"});
  EXPECT_EQ(dry["count"], 2);
  EXPECT_EQ(dry["groups"].size(), 2U);
  EXPECT_EQ(rung_json({"cancel", "--error", "/http/i", "--dry-run", "--limit", "2"})["count"], 2);

  EXPECT_EQ(rung({"cancel", "--error", "/http/i", "--limit", "2", "--reason", "bank is gone", "--yes"}).exit,
            0);
  EXPECT_EQ(state_of(bank), State::cancelled);
  EXPECT_EQ(state_of(slow), State::cancelled);
  EXPECT_EQ(state_of(shop), State::scheduled) << "the oldest two only";
  EXPECT_EQ(db.value("SELECT COUNT(*) FROM retry_audit a JOIN retry_bulks b ON b.bulk_id = a.bulk_id "
                     "WHERE a.retry_id > 0 AND a.reason = 'bank is gone' AND b.reason = a.reason AND "
                     "b.filter LIKE '%limit%2%'"),
            "2");
}

TEST_F(Filters, TheHistoryTellsWhoRedroveItAndWhy) {
  const TaskId id = insert(fresh("orders", 0ms));
  const EpochMs at = now();
  happen(id, event::Claim{});
  happen(id, event::Confirmed{1, at});
  happen(id, event::Failed{1, "boom again", "", {}});
  ASSERT_EQ(rung({"retry", id.str(), "--reason", "bank is back"}).exit, 0);
  happen(id, event::Claim{});
  happen(id, event::Confirmed{2, now()});
  ASSERT_EQ(rung({"finish", id.str(), "--failed", "--error", "no", "--reason", "by phone"}).exit, 0);
  const std::string text = rung({"history", id.str()}).out;
  const auto first = text.find("boom again"), redrive = text.find("redrive by "),
             finish = text.find("finish by ");
  EXPECT_LT(first, redrive) << text;
  EXPECT_LT(redrive, finish) << text;
  EXPECT_NE(finish, std::string::npos) << text;
  EXPECT_THAT(text, AllOf(HasSubstr(": bank is back\n"), HasSubstr(": by phone\n")));
  const json changes = rung_json({"audit", id.str()})["changes"];
  ASSERT_EQ(changes.size(), 2U);
  EXPECT_EQ(changes[0]["what"], "redrive");
  EXPECT_EQ(changes[0]["reason"], "bank is back");
  EXPECT_THAT(rung({"audit", id.str()}).out, HasSubstr("bank is back"));
}

TEST_F(Filters, TheHistoryHasTheWholeErrorIfItIsNotATerminal) {
  NewTask n = fresh("orders", 1h);
  n.origin_json = R"({"retry-error":")" + std::string(300, 'e') + R"("})";
  const TaskId id = insert(n);
  EXPECT_THAT(rung({"history", id.str()}).out, HasSubstr(std::string(300, 'e')));
}

TEST_F(Filters, TimesAreTimestampsWithUtc) {
  const TaskId id = insert(fresh("orders", 1h));
  const std::string due = rung_json({"show", id.str()})["next_due_at"].get<std::string>().substr(0, 19) + "Z";
  EXPECT_THAT(rung({"list", "--utc"}).out, HasSubstr(due));
  EXPECT_THAT(rung({"queues", "--utc"}).out, HasSubstr(due));
  for (const auto& words :
       {std::vector<std::string>{"show", id.str()}, {"history", id.str()}, {"stats"}, {"nodes"}}) {
    std::vector<std::string> with = words;
    with.emplace_back("--utc");
    EXPECT_THAT(rung(with).out, testing::Not(testing::ContainsRegex("in [0-9]+m|ago"))) << words[0];
  }
}

// Changes are audited under the user who called sudo, not under root.
TEST_F(Filters, SudosCallerIsWhoDidIt) {
  const TaskId id = insert(fresh("orders", 1h));
  setenv("SUDO_USER", "alice", 1);
  EXPECT_EQ(rung({"fire", id.str()}).exit, 0);
  unsetenv("SUDO_USER");
  const std::string who = db.value("SELECT who FROM retry_audit");
  if (getuid() == 0) {
    EXPECT_THAT(who, StartsWith("alice@"));
  } else {
    EXPECT_THAT(who, testing::Not(StartsWith("alice@"))) << "only root may name another";
  }
}

TEST_F(Filters, AResumeHasAReasonToo) {
  now();  // migrates
  ASSERT_EQ(rung({"pause", "orders", "--reason", "audit"}).exit, 0);
  ASSERT_EQ(rung({"resume", "orders", "--reason", "done"}).exit, 0);
  EXPECT_EQ(db.value("SELECT GROUP_CONCAT(reason ORDER BY audit_id) FROM retry_audit"), "audit,done");
  EXPECT_THAT(db.value("SELECT detail FROM retry_events WHERE kind = 'queue_resumed'"), HasSubstr(": done"));
}

}  // namespace
}  // namespace rung::cli
