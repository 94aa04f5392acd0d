// SQL users who may read the views alone, by the grants of docs/permissions.md; and the views' definer, with
// whose rights they run.
#include <set>

#include "src/core/base/url.h"
#include "tests/integration/cli/fixture.h"

namespace rung::cli {
namespace {

using namespace std::chrono_literals;

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
  static void replace(std::string& text, const std::string& from, const std::string& to) {
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
  }

  std::string user_;
};

TEST_F(Readers, TheGrantsOfThePageAreTheViewsWithoutBodies) {
  db.open_store();
  const auto granted = [&] {
    std::set<std::string> views;
    for (const auto& row : db.query("SHOW GRANTS FOR '" + user_ + "'")) {
      const std::string on = "GRANT SELECT ON `" + db.name() + "`.`";
      if (row[0].starts_with(on))
        views.insert(row[0].substr(on.size(), row[0].find('`', on.size()) - on.size()));
    }
    return views;
  };
  std::set<std::string> views;
  for (const auto& row : db.query("SHOW FULL TABLES WHERE table_type = 'VIEW'")) views.insert(row[0]);
  std::set<std::string> without_bodies = views;
  without_bodies.erase("retry_bodies");
  without_bodies.erase("retry_origins");
  grant("reader");
  EXPECT_EQ(granted(), without_bodies);
  grant("bodies");
  EXPECT_EQ(granted(), views);
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
