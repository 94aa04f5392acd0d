// A SQL user who may read the views alone, as docs/permissions.md says: list, show and history work, and
// bodies are a right of their own. And the views' definer: they run with the rights of the user who created
// them.
#include <iterator>

#include "src/core/base/url.h"
#include "tests/integration/cli/fixture.h"

namespace rung::cli {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Readers : public CliTest {
 protected:
  Readers() : user_(test::unique_name("reader").substr(0, 30)) { std::ranges::replace(user_, '-', '_'); }
  ~Readers() override { db.exec("DROP USER IF EXISTS '" + user_ + "'@'%'"); }

  // Runs the statements of the page's block for this test's schema and user.
  void grant(const std::string& block) {
    std::ifstream file(RUNG_SOURCE_DIR "/docs/permissions.md");
    bool on = false, any = false;
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("```")) {
        on = line == "```sql " + block;
        continue;
      }
      if (!on) continue;
      any = true;
      replace(line, "`rung`", "`" + db.name() + "`");
      replace(line, "'reader'", "'" + user_ + "'");
      replace(line, "PASSWORD", "pw");
      db.exec(line);
    }
    if (!any) throw std::runtime_error("docs/permissions.md has no block sql " + block);
  }
  // From now on the program uses the reader's login.
  void log_in() {
    Url url = *parse_url(db.url());
    url.user = user_;
    url.password = "pw";
    std::ofstream(config_path()) << "broker: { url: \"" << test::amqp_url() << "\" }\n"
                                 << "index_headers: [tenant]\n"
                                 << "store: { url: \"" << format_url(url) << "\" }\n";
  }
  static void replace(std::string& text, const std::string& from, const std::string& to) {
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
  }

  std::string user_;
};

TEST_F(Readers, ListShowAndHistoryNeedTheViewsAlone) {
  NewTask n = fresh("orders", 1h, "order-17");
  n.task.error_type = "ValueError";
  const TaskId id = insert(n);
  ASSERT_EQ(rung({"fire", id.str(), "--reason", "at once"}).exit, 0);
  const json seen = rung_json({"list"}), story = rung_json({"history", id.str()});
  const json audited = rung_json({"audit", "--queue", "orders", "--action", "fire"});
  ASSERT_EQ(audited["audit"].size(), 1U);
  grant("reader");
  log_in();
  EXPECT_EQ(rung_json({"list"}), seen) << "the same as with all rights";
  EXPECT_EQ(rung_json({"list", "--error", "/^ValueError/", "--error-type", "ValueError"})["tasks"].size(),
            1U);
  EXPECT_EQ(rung({"list", "--count", "--queue", "orders"}).out, "1\n");
  EXPECT_EQ(rung_json({"list", "--count", "--by", "queue"})["groups"][0]["value"], "orders");
  EXPECT_EQ(rung({"list", "--header", "tenant=acme"}).exit, 0);
  EXPECT_EQ(rung({"list", "--count", "--by", "header.tenant"}).exit, 0);
  EXPECT_EQ(rung_json({"history", "order-17"}), story);
  EXPECT_EQ(rung_json({"audit", "--queue", "orders", "--action", "fire"}), audited);
  const Ran shown = rung({"show", id.str()});
  EXPECT_EQ(shown.exit, 0) << shown.err;
  EXPECT_THAT(shown.out,
              AllOf(HasSubstr("ValueError: boom"), HasSubstr("not readable"), HasSubstr("retry_bodies"),
                    HasSubstr("retry_origins"), Not(HasSubstr("acme"))));
}

TEST_F(Readers, BodiesAreARightOfTheirOwn) {
  const TaskId id = insert(fresh("orders", 1h));
  grant("reader");
  log_in();
  for (const char* flag : {"--body", "--raw"}) {
    const Ran denied = rung({"show", id.str(), flag});
    EXPECT_EQ(denied.exit, 1);
    EXPECT_EQ(denied.out, "");
    EXPECT_THAT(denied.err,
                HasSubstr("GRANT SELECT ON `" + db.name() + "`.`retry_bodies` TO '" + user_ + "'"));
  }
  grant("bodies");
  EXPECT_EQ(rung({"show", id.str(), "--raw"}).out, "hello");
  EXPECT_THAT(rung({"show", id.str(), "--body"}).out,
              AllOf(HasSubstr("acme"), Not(HasSubstr("not readable"))));
}

TEST_F(Readers, AReaderChangesNothing) {
  const TaskId id = insert(fresh("orders", 1h));
  grant("reader");
  grant("bodies");
  log_in();
  for (const auto& words :
       {std::vector<std::string>{"cancel", id.str()}, {"fire", "--queue", "orders", "--yes"}}) {
    const Ran ran = rung(words);
    EXPECT_EQ(ran.exit, 1) << ran.out;
    EXPECT_THAT(ran.err, HasSubstr("denied"));
  }
  EXPECT_EQ(state_of(id), State::scheduled);
}

// The views run with the rights of the user who created them.
TEST_F(Readers, MigrateMendsViewsWhoseDefinerIsGone) {
  insert(fresh("orders", 1h));
  db.exec("CREATE USER '" + user_ + "'@'%' IDENTIFIED BY 'pw'");
  db.exec("GRANT ALL ON `" + db.name() + "`.* TO '" + user_ + "'@'%'");
  const std::string view =
      "VIEW retry_by_queue AS SELECT queue, state, 1 AS tasks, NULL AS oldest_due_at, 0 AS overdue "
      "FROM rung_tasks";
  db.exec("CREATE OR REPLACE DEFINER = '" + user_ + "'@'%' SQL SECURITY DEFINER " + view);
  db.exec("DROP USER '" + user_ + "'@'%'");
  EXPECT_EQ(rung({"stats"}).exit, 1);
  EXPECT_EQ(rung({"migrate"}).exit, 0);
  EXPECT_THAT(rung({"stats"}).out, HasSubstr("orders"));
  EXPECT_EQ(db.value("SELECT overdue FROM retry_by_queue"), "0");
}

}  // namespace
}  // namespace rung::cli
