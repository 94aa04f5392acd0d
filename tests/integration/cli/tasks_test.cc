// migrate, list, show, history on rows as the sidecar writes them.
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

TEST_F(Tasks, MigrateSaysWhatItDid) {
  const Ran before = rung({"list"});
  EXPECT_EQ(before.exit, 1);
  EXPECT_THAT(before.err, HasSubstr("rung migrate"));
  const Ran first = rung({"migrate"});
  EXPECT_EQ(first.exit, 0) << first.err;
  EXPECT_THAT(first.out, AllOf(HasSubstr("applied 0001"), HasSubstr("schema is now up to date\n")));
  EXPECT_EQ(rung({"migrate"}).out, "schema is up to date\n");
  EXPECT_EQ(rung_json({"migrate"})["applied"], json::array());
  EXPECT_EQ(rung({"list"}).out, "no tasks match\n");
}

// A slip in store.url leaves nothing behind.
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
  EXPECT_THAT(ids({"--created-since", "2m"}).size(), 3U);
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
  EXPECT_THAT(text.out, ::testing::ContainsRegex("in (10m|9m5[0-9]s)"));
}

TEST_F(Tasks, ListPages) {
  std::vector<std::string> all;
  for (int i = 0; i < 5; ++i) all.insert(all.begin(), insert(fresh("orders", 1h)).str());
  const json first = rung_json({"list", "--limit", "2"});
  EXPECT_EQ(ids_of(first), (std::vector<std::string>{all[0], all[1]}));
  EXPECT_EQ(first["next"], all[1]);
  const json second = rung_json({"list", "--limit", "2", "--below", first["next"]});
  EXPECT_EQ(rung_json({"list", "--limit", "2", "--cursor", first["next"]}), second);
  EXPECT_EQ(ids_of(second), (std::vector<std::string>{all[2], all[3]}));
  const json last = rung_json({"list", "--limit", "2", "--below", second["next"]});
  EXPECT_EQ(ids_of(last), (std::vector<std::string>{all[4]}));
  EXPECT_TRUE(last["next"].is_null());
  EXPECT_EQ(ids_of(rung_json({"list", "--all"})), all);
  EXPECT_THAT(rung({"list", "--limit", "2"}).out, HasSubstr("--below " + all[1]));
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
  happen(id, event::Failed{1, "second \x1b[31mboom", "", {}});
  const Ran text = rung({"history", id.str()});
  EXPECT_EQ(text.exit, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("retry " + id.str()), HasSubstr("message-id m-1"),
                              HasSubstr("ValueError: first boom"), HasSubstr("second \\x1b[31mboom"),
                              HasSubstr("test-node"), HasSubstr("scheduled: level 2 of 2, due")));
  EXPECT_THAT(text.out, Not(HasSubstr("\x1b")));
  const json story = rung_json({"history", id.str()});
  ASSERT_EQ(story["attempts"].size(), 1U);
  EXPECT_EQ(story["attempts"][0]["outcome"], "failed");
  EXPECT_GE(story["attempts"][0]["late_ms"], 1000);
  EXPECT_EQ(story["first_error"], "ValueError: first boom");
  EXPECT_EQ(story["task"]["level"], 2);
}

}  // namespace
}  // namespace rung::cli
