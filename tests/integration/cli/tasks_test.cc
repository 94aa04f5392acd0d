// list, show, history on rows as the sidecar writes them; changes by ids. What they print: snapshot_test.cc.
#include <unistd.h>

#include <algorithm>

#include "src/core/base/utf8.h"
#include "tests/integration/cli/fixture.h"

namespace rung::cli {
namespace {

using namespace std::chrono_literals;
using Tasks = CliTest;

std::vector<std::string> ids_of(const json& list) {
  std::vector<std::string> ids;
  for (const json& task : list["tasks"]) ids.push_back(task["retry_id"]);
  return ids;
}

// A typo in store.url creates nothing.
TEST_F(Tasks, NobodyButMigrateAndRunMakesTheDatabase) {
  const std::string name = db.name() + "_slip";
  std::ofstream(config_path()) << "broker: { url: \"" << test::amqp_url() << "\" }\n"
                               << "store: { url: \"" << db.url() << "_slip\" }\n";
  const auto there = [&] {
    return db.value("SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = '" + name + "'") ==
           "1";
  };
  for (const std::vector<std::string>& words : {std::vector<std::string>{"list"},
                                                {"stats"},
                                                {"cancel", "1"},
                                                {"submit", "--queue", "q", "--delay", "1h"}}) {
    const Ran ran = rung(words);
    EXPECT_EQ(ran.exit, 1) << words[0];
    EXPECT_THAT(ran.err, HasSubstr("the database '" + name + "' is missing: run `rung migrate`"));
    EXPECT_FALSE(there()) << words[0];
  }
  EXPECT_EQ(rung({"migrate"}).exit, 0);
  EXPECT_TRUE(there());
  db.exec("DROP DATABASE " + name);
}

TEST_F(Tasks, ShowTakesAMessageIdAndSaysThereAreMore) {
  insert(fresh("orders", 10min, "m-1"));
  const TaskId newest = insert(fresh("invoices", 10min, "m-1"));
  const Ran text = rung({"show", "m-1"});
  EXPECT_EQ(text.exit, 0);
  EXPECT_THAT(text.out, HasSubstr(newest.str()));
  EXPECT_THAT(text.err, HasSubstr("rung list --message-id m-1"));
}

TEST_F(Tasks, ShowPrintsTheBody) {
  ASSERT_EQ(rung({"migrate"}).exit, 0);
  const TaskId id = insert(fresh("orders", 10min));
  EXPECT_THAT(rung({"show", id.str(), "--body"}).out, HasSubstr("\n\nhello\n"));
  EXPECT_EQ(rung({"show", id.str(), "--raw"}).out, "hello");
  EXPECT_EQ(rung_json({"show", id.str(), "--body"})["body"], "hello");
  EXPECT_FALSE(rung_json({"show", id.str()}).contains("body"));
  NewTask odd = fresh("orders", 10min);
  auto message = std::make_shared<Message>(*odd.message);
  message->body = std::string("\xff\x00[\x1b", 4);
  odd.message = message;
  insert(odd);
  const std::string odd_id = odd.task.id.str();
  EXPECT_THAT(rung({"show", odd_id, "--body"}).out, HasSubstr("\n\n\uFFFD\uFFFD[\\x1b\n"));
  EXPECT_EQ(rung({"show", odd_id, "--raw"}).out, message->body);
  EXPECT_EQ(rung_json({"show", odd_id, "--body"})["body_base64"], "/wBbGw==");
}

TEST_F(Tasks, ListTakesSeveralStatesSortsAndCounts) {
  ASSERT_EQ(rung({"migrate"}).exit, 0);
  const TaskId late = insert(fresh("orders", 20min)), soon = insert(fresh("orders", 10min));
  const TaskId off = insert(fresh("orders", 15min));
  ASSERT_EQ(rung({"cancel", off.str()}).exit, 0);
  using Ids = std::vector<std::string>;
  EXPECT_EQ(ids_of(rung_json({"list", "--state", "scheduled,cancelled"})),
            (Ids{off.str(), soon.str(), late.str()}));
  EXPECT_EQ(ids_of(rung_json({"list", "--state", "parked", "--state", "cancelled"})), Ids{off.str()});
  EXPECT_EQ(ids_of(rung_json({"list", "--sort", "oldest"})), (Ids{late.str(), soon.str(), off.str()}));
  EXPECT_EQ(ids_of(rung_json({"list", "--sort", "due"})), (Ids{soon.str(), late.str(), off.str()}));
  EXPECT_EQ(rung({"list", "--state", "scheduled", "--count"}).out, "2\n");
  EXPECT_EQ(rung_json({"list", "--count"})["count"], 3);
  for (const std::string sort : {"newest", "oldest", "due"}) {
    const json all = rung_json({"list", "--sort", sort, "--all-pages"});
    const json first = rung_json({"list", "--sort", sort, "--limit", "1"});
    const json rest = rung_json({"list", "--sort", sort, "--cursor", first["next"]});
    EXPECT_EQ(all["tasks"].size(), 3U);
    EXPECT_EQ(ids_of(rest), (Ids{all["tasks"][1]["retry_id"], all["tasks"][2]["retry_id"]})) << sort;
  }
}

// No text of a message affects the terminal, and scripts get it unchanged.
TEST_F(Tasks, NoControlOrFormatCharacterReachesTheTerminal) {
  const std::string bad =
      "\x1b[2J\x7f\u009b31m\u00ad\u061c\u200b\u200d\u200e\u2028\u2029\u202e\u2060\u2066\ufeff\U000e0041"
      "e";
  NewTask one = fresh("q" + bad, -1s, "m" + bad);
  one.task.tag = "t" + bad;
  const TaskId id = insert(one);
  happen(id, event::Claim{});
  happen(id, event::Confirmed{1, now()});
  happen(id, event::Failed{1, "boom " + bad, "Type" + bad, {}});
  const int node = store().register_node({"n" + bad, "9.9", "host:1", 7}, std::chrono::hours{1});
  store().heartbeat(node, 7, std::chrono::hours{1}, {{"detached", "queue q" + bad, now(), false}});
  const auto harmless = [](std::string text) {
    std::ranges::replace(text, '\n', ' ');
    return escape_controls(text) == text;
  };
  const std::vector<std::vector<std::string>> commands = {
      {"list"},
      {"list", "--queue", "q" + bad},
      {"show", "m" + bad},
      {"history", id.str()},
      {"audit", id.str()},
      {"stats"},
      {"nodes"},
      {"show", "none" + bad},
      {"list", "--queue" + bad},
      {"cancel", "--queue", "q" + bad, "--reason", bad, "--yes"},
      {"cancel", id.str()},
      {"reschedule", id.str(), "--delay", bad},
      {"audit", id.str()},
      {"bulk", "list"},
      {bad}};
  for (const auto& words : commands) {
    for (const bool as_json : {false, true}) {
      auto all = words;
      if (as_json) all.emplace_back("--json");
      const Ran ran = rung(all);
      EXPECT_TRUE(harmless(ran.out)) << words.front() << ": " << ran.out;
      EXPECT_TRUE(harmless(ran.err)) << words.front() << ": " << ran.err;
    }
  }
  EXPECT_EQ(rung_json({"show", id.str()})["message_id"], "m" + bad);
  EXPECT_EQ(rung_json({"list", "--queue", "q" + bad})["tasks"][0]["tag"], "t" + bad);
}

TEST_F(Tasks, TheHistoryTellsWhoRedroveItAndWhy) {
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
  const json changes = rung_json({"audit", id.str()})["audit"];
  ASSERT_EQ(changes.size(), 2U);
  EXPECT_EQ(changes[0]["what"], "redrive");
  EXPECT_EQ(changes[0]["reason"], "bank is back");
  EXPECT_THAT(rung({"audit", id.str()}).out, HasSubstr("bank is back"));
}

TEST_F(Tasks, TheHistoryHasTheWholeErrorIfItIsNotATerminal) {
  NewTask n = fresh("orders", 1h);
  n.origin_json = R"({"retry-error":")" + std::string(300, 'e') + R"("})";
  const TaskId id = insert(n);
  EXPECT_THAT(rung({"history", id.str()}).out, HasSubstr(std::string(300, 'e')));
}

// Changes are audited under the user who called sudo, not under root.
TEST_F(Tasks, SudosCallerIsWhoDidIt) {
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

// cancel, retry by ids; and who did it.
using Changes = CliTest;

// Found by the torture run: the row is read again for its text, and another table of that read was away.
TEST_F(Changes, WhatWasDoneIsToldAlsoWhereTheRowCannotBeReadAgain) {
  const TaskId id = insert(fresh("orders", 10min));
  db.exec("RENAME TABLE rung_nodes TO away");
  const Ran ran = rung({"cancel", id.str()});
  db.exec("RENAME TABLE away TO rung_nodes");
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr(id.str() + "  cancelled: level 1 of 9"));
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
