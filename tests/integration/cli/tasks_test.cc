// migrate, list, show, history on rows as the sidecar writes them.
#include "src/core/base/utf8.h"
#include "tests/integration/cli/fixture.h"

namespace rung::cli {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
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

// A token file that the operator may not read: the database is asked directly.
TEST_F(Tasks, TheSidecarsFilesAreItsOwnAffair) {
  write_config("http: { listen: \"127.0.0.1:8025\", token_file: /no/such/token }\n",
               ", password_file: /no/such");
  const TaskId id = insert(fresh("orders", 10min));
  const Ran ran = rung({"cancel", id.str()});
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  EXPECT_EQ(state_of(id), State::cancelled);
}

TEST_F(Tasks, ListFilters) {
  const TaskId a = insert(fresh("orders", 10min, "m-1"));
  const TaskId b = insert(fresh("orders", 2h, "m-2"));
  NewTask other = fresh("invoices", 3min);
  other.task.last_error = "timeout at 100%";
  const TaskId c = insert(other);
  const auto ids = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), "list");
    return ids_of(rung_json(flags));
  };
  using ::testing::ElementsAre;
  EXPECT_THAT(ids({}), ElementsAre(c.str(), b.str(), a.str()));
  EXPECT_THAT(ids({"--queue", "orders"}), ElementsAre(b.str(), a.str()));
  EXPECT_THAT(ids({"--message-id", "m-1"}), ElementsAre(a.str()));
  EXPECT_THAT(ids({"--error", "100%"}), ElementsAre(c.str()));
  EXPECT_THAT(ids({"--due-before", "5m"}), ElementsAre(c.str()));
  EXPECT_THAT(ids({"--due-after", "1h"}), ElementsAre(b.str()));
  EXPECT_THAT(ids({"--created-after", "2m"}).size(), 3U);
  EXPECT_THAT(ids({"--created-before", "2m"}).size(), 0U);
  EXPECT_THAT(ids({"--created-after", "2m"}).size(), 3U);  // HTTP's name for it
  EXPECT_THAT(ids({"--state", "parked"}).size(), 0U);
  EXPECT_THAT(ids({"--tag", "order", "--ladder", "default"}).size(), 3U);
  EXPECT_THAT(ids({"--exchange", "shop", "--kind", "retry"}).size(), 3U);
  EXPECT_THAT(ids({"--exchange", "other"}).size(), 0U);
  EXPECT_THAT(ids({"--kind", "delay"}).size(), 0U);

  const Ran text = rung({"list", "--queue", "orders", "--message-id", "m-1"});
  EXPECT_THAT(text.out, AllOf(HasSubstr("RETRY-ID"), HasSubstr(a.str()), HasSubstr("scheduled"),
                              HasSubstr("1/9"), HasSubstr("ValueError: boom")));
  EXPECT_THAT(text.out, ::testing::ContainsRegex("in (10m|9m[0-9]+s)"));
}

TEST_F(Tasks, ListPages) {
  std::vector<std::string> all;
  for (int i = 0; i < 5; ++i) all.insert(all.begin(), insert(fresh("orders", 1h)).str());
  const json first = rung_json({"list", "--limit", "2"});
  EXPECT_EQ(ids_of(first), (std::vector<std::string>{all[0], all[1]}));
  EXPECT_EQ(first["next"], all[1]);
  const json second = rung_json({"list", "--limit", "2", "--cursor", first["next"]});
  EXPECT_EQ(ids_of(second), (std::vector<std::string>{all[2], all[3]}));
  const json last = rung_json({"list", "--limit", "2", "--cursor", second["next"]});
  EXPECT_EQ(ids_of(last), (std::vector<std::string>{all[4]}));
  EXPECT_TRUE(last["next"].is_null());
  EXPECT_EQ(ids_of(rung_json({"list", "--all"})), all);
  EXPECT_THAT(rung({"list", "--limit", "2"}).out, HasSubstr("--cursor " + all[1]));
}

TEST_F(Tasks, ShowTellsEverythingAndNoBody) {
  const TaskId id = insert(fresh("orders", 10min, "m-1"));
  const Ran text = rung({"show", id.str()});
  EXPECT_EQ(text.exit, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr(id.str()), HasSubstr("scheduled: level 1 of 9, due"),
                              HasSubstr("exchange shop"), HasSubstr("tenant: acme"),
                              HasSubstr("retry-error: first boom"), HasSubstr("5 bytes"),
                              HasSubstr("ValueError: boom"), Not(HasSubstr("hello"))));
  const json shown = rung_json({"show", id.str()});
  EXPECT_EQ(shown["headers"]["tenant"], "acme");
  EXPECT_EQ(shown["origin"]["retry-error"], "first boom");
  EXPECT_EQ(shown["state"], "scheduled");
  EXPECT_EQ(shown["history"], json::array());
}

TEST_F(Tasks, ShowTakesAMessageIdAndSaysThereAreMore) {
  insert(fresh("orders", 10min, "m-1"));
  const TaskId newest = insert(fresh("invoices", 10min, "m-1"));
  const Ran text = rung({"show", "m-1"});
  EXPECT_EQ(text.exit, 0);
  EXPECT_THAT(text.out, HasSubstr(newest.str()));
  EXPECT_THAT(text.err, HasSubstr("rung list --message-id m-1"));
  const Ran none = rung({"show", "m-2"});
  EXPECT_EQ(none.exit, 3);
  EXPECT_EQ(none.out, "");
  EXPECT_EQ(rung({"history", "12345"}).exit, 3);
}

TEST_F(Tasks, HistoryIsTheWholeStory) {
  const TaskId id = insert(fresh("orders", -1s, "m-1"));
  happen(id, event::Claim{});
  happen(id, event::Confirmed{1, now()});
  happen(id, event::Failed{1, "second \x1b[31mboom\n  at pay.py:17", "", {}});
  const Ran text = rung({"history", id.str()});
  EXPECT_EQ(text.exit, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("retry " + id.str()), HasSubstr("message-id m-1"),
                              HasSubstr("ValueError: first boom"), HasSubstr("second \\x1b[31mboom"),
                              HasSubstr("test-node"), HasSubstr("scheduled: level 2 of 2, due")));
  EXPECT_THAT(text.out, AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("pay.py"))));
  for (const std::vector<std::string>& words : {std::vector<std::string>{"show", id.str()}, {"list"}})
    EXPECT_THAT(rung(words).out, AllOf(HasSubstr("boom"), Not(HasSubstr("pay.py")))) << words[0];
  EXPECT_THAT(rung({"show", id.str(), "--trace"}).out, HasSubstr("at pay.py:17"));
  const json story = rung_json({"history", id.str()});
  ASSERT_EQ(story["attempts"].size(), 1U);
  EXPECT_EQ(story["attempts"][0]["outcome"], "failed");
  EXPECT_GE(story["attempts"][0]["late_ms"], 1000);
  EXPECT_EQ(story["attempts"][0]["retry_id"], id.str());
  EXPECT_EQ(story["next"], nullptr);
}

TEST_F(Tasks, AreFoundByCorrelationIdAndByIndexedHeaders) {
  write_config("index_headers: [tenant, priority]\n");
  ASSERT_EQ(rung({"migrate"}).exit, 0);
  const auto submit = [&](const std::string& tenant, const std::string& correlation) {
    const json made =
        rung_json({"submit", "--queue", "orders", "--delay", "1h", "--header", "tenant=" + tenant, "--header",
                   "other=x", "--property", "correlation_id=" + correlation});
    const json& task = made.contains("task") ? made["task"] : made;
    return task["retry_id"].get<std::string>();
  };
  const std::string a = submit("acme", "c-1"), b = submit("umbrella", "c-2");
  EXPECT_EQ(ids_of(rung_json({"list", "--correlation-id", "c-2"})), std::vector{b});
  EXPECT_EQ(ids_of(rung_json({"list", "--header", "tenant=acme"})), std::vector{a});
  EXPECT_EQ(ids_of(rung_json({"list", "--header", "tenant=nobody"})), std::vector<std::string>{});
  EXPECT_EQ(rung({"list", "--header", "tenant=acme", "--count"}).out, "1\n");
  EXPECT_EQ(rung_json({"list", "--correlation-id", "c-1"})["tasks"][0]["correlation_id"], "c-1");
  EXPECT_EQ(db.value("SELECT correlation_id FROM " + db.name() + ".retry_current WHERE retry_id = " + a),
            "c-1");
  EXPECT_EQ(db.value("SELECT COUNT(*) FROM " + db.name() + ".rung_task_headers"), "2");
  // A header that is not indexed is an error, not an empty answer.
  const Ran other = rung({"list", "--header", "other=x"});
  EXPECT_EQ(other.exit, 1);
  EXPECT_THAT(other.err, HasSubstr("the header 'other' is not indexed: add it to `index_headers`"));
  EXPECT_EQ(rung({"list", "--header", "tenant"}).exit, 1);
  const Ran twice = rung({"cancel", "--header", "tenant=acme", "--header", "tenant=beta", "--yes"});
  EXPECT_EQ(twice.exit, 1);
  EXPECT_THAT(twice.err, HasSubstr("--header: 'tenant' is given twice"));
  // Of a bulk.
  EXPECT_EQ(rung({"cancel", "--header", "tenant=acme", "--yes"}).exit, 0);
  EXPECT_EQ(rung_json({"list", "--state", "cancelled"})["tasks"][0]["retry_id"], a);
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
  EXPECT_THAT(rung({"show", odd_id, "--body"}).out, HasSubstr("\n\n\\xff\\x00[\\x1b\n"));
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
    const json all = rung_json({"list", "--sort", sort, "--all"});
    const json first = rung_json({"list", "--sort", sort, "--limit", "1"});
    const json rest = rung_json({"list", "--sort", sort, "--cursor", first["next"]});
    EXPECT_EQ(all["tasks"].size(), 3U);
    EXPECT_EQ(ids_of(rest), (Ids{all["tasks"][1]["retry_id"], all["tasks"][2]["retry_id"]})) << sort;
  }
  EXPECT_THAT(rung({"list", "--cursor", "1.5"}).err, HasSubstr("not the `next` of a page in this order"));
  EXPECT_EQ(rung({"list", "--watch", "--json"}).exit, 1);
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
  const int node = *store().register_node({"n" + bad, "9.9", "host:1", 7}, std::chrono::hours{1});
  ASSERT_TRUE(
      store().heartbeat(node, 7, std::chrono::hours{1}, {{"detached", "queue q" + bad, now(), false}}));
  const auto harmless = [](const std::string& text) {
    for (std::size_t at = 0; at < text.size();) {
      const char32_t c = next_char(text, at);
      if (c != '\n' && is_control_or_format(c)) return false;
    }
    return is_utf8(text);
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

}  // namespace
}  // namespace rung::cli
