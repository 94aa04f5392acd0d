// Every query of sql/mysql/cookbook.sql runs on real rows and reads no big table from end to end; so do the
// filters that people put on the views, and the statements of the store.
#include <algorithm>
#include <fstream>
#include <map>
#include <numeric>

#include "sql/sql.h"
#include "src/store/mysql/render.h"
#include "tests/integration/sql/fixture.h"
#include "tests/support/clock.h"

namespace rung::test {
namespace {

// The question, and its statements: SETs of variables first, the query last.
struct Recipe {
  std::string title;
  std::vector<std::string> statements;
};

std::vector<Recipe> cookbook() {
  std::ifstream file(RUNG_SOURCE_DIR "/sql/mysql/cookbook.sql");
  std::vector<Recipe> all;
  std::string line, text;
  const auto close = [&] {
    if (!all.empty()) all.back().statements = sql::split(text);
    text.clear();
  };
  while (std::getline(file, line)) {
    if (!line.starts_with("-- ## ")) {
      text += line + '\n';
      continue;
    }
    close();
    all.push_back({line.substr(6), {}});
  }
  close();
  EXPECT_GT(all.size(), 25U);
  return all;
}

class Cookbook : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    schema_ = new MysqlSchema;
    schema_->open_store();
    fill(*schema_);
    schema_->exec("UPDATE rung_tasks SET correlation_id = CONCAT('c-', message_id)");
    schema_->exec(
        "INSERT INTO rung_task_headers SELECT id, 'tenant', ELT(1 + id % 3, 'acme', 'globex', 'initech') "
        "FROM "
        "rung_tasks");
    schema_->exec("UPDATE rung_tasks SET rule = 'payments[1]' WHERE id % 5 = 0");
    schema_->exec(
        "INSERT INTO rung_pauses (queue, length, since, who, reason) VALUES "
        "('queue-3', 7, UTC_TIMESTAMP(3), 'alice@host (cli)', 'deploy')");
    schema_->exec(
        "INSERT INTO rung_events (at, kind, subject, detail) VALUES "
        "(UTC_TIMESTAMP(3), 'queue_paused', 'queue-3', 'until it is resumed, by alice@host (cli): deploy')");
    for (const char* minutes : {"5", "60"})
      schema_->exec("INSERT INTO rung_promises VALUES ('queue-3', 7, " + std::string(minutes) +
                    ", UTC_TIMESTAMP(3), 99, 1, 20)");
    write_causes();
    divide("rung_attempts");
    divide("rung_bodies");
    schema_->query("ANALYZE TABLE rung_attempts, rung_bodies");
    schema_->exec("SET sql_mode = 'ONLY_FULL_GROUP_BY,STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO'");
  }
  static void TearDownTestSuite() {
    delete schema_;
    schema_ = nullptr;
  }

  // Of the tasks that have failed: their errors differ in a number alone.
  static void write_causes() {
    schema_->exec(
        "UPDATE rung_tasks SET cause_id = LEFT(SHA2(CONCAT(queue, error_type), 256), 12) "
        "WHERE last_error IS NOT NULL AND first_failed_at > '1970-01-01'");
    schema_->exec(
        "INSERT INTO rung_causes (cause_id, queue, error_type, sample, first_seen, last_seen, scheduled, "
        "parked, "
        "succeeded, total) SELECT cause_id, MIN(queue), '', MIN(last_error), MIN(first_failed_at), "
        "MAX(first_failed_at), SUM(state IN ('scheduled', 'publishing', 'awaiting')), SUM(state = 'parked'), "
        "SUM(state = 'succeeded'), COUNT(*) FROM rung_tasks WHERE cause_id IS NOT NULL GROUP BY cause_id");
    schema_->exec("INSERT INTO rung_cause_rates SELECT cause_id, UTC_TIMESTAMP(3), 7 FROM rung_causes");
  }

  // Into twenty parts, as twenty days are.
  static void divide(const std::string& table) {
    std::string parts;
    for (int i = 1; i <= 20; ++i)
      parts += "PARTITION p" + std::to_string(i) + " VALUES LESS THAN (" + std::to_string(i * 2000) + "), ";
    const std::string end = schema_->value(
        "SELECT partition_description FROM information_schema.partitions WHERE table_schema = DATABASE() AND "
        "table_name = '" +
        table + "' AND partition_name = 'd0'");
    schema_->exec("ALTER TABLE " + table + " REORGANIZE PARTITION d0 INTO (" + parts +
                  "PARTITION d0 VALUES LESS THAN (" + end + "))");
  }

  static std::vector<std::map<std::string, std::string>> plan(const std::string& query) {
    return schema_->explain(query);
  }

  // The tables of a plan that are read from end to end. t, a: rung_tasks and rung_attempts within the views;
  // h: rung_task_headers.
  static std::vector<std::string> scanned(const std::string& query) {
    std::vector<std::string> out;
    for (const auto& line : plan(query)) {
      const std::string& table = line.at("table");
      const bool big = table == "t" || table == "a" || table == "rung_tasks" || table == "rung_attempts" ||
                       table == "rung_bodies" || table == "h";
      if (big && (line.at("type") == "ALL" || line.at("type") == "index")) {
        out.push_back(table + " " + line.at("type") + " " + line.at("key"));
      }
    }
    return out;
  }

  static MysqlSchema* schema_;
};
MysqlSchema* Cookbook::schema_ = nullptr;

TEST_F(Cookbook, EachRunsAsItStandsAndFindsSomething) {
  for (const auto& recipe : cookbook()) {
    SCOPED_TRACE(recipe.title);
    for (std::size_t i = 0; i + 1 < recipe.statements.size(); ++i) schema_->exec(recipe.statements[i]);
    EXPECT_FALSE(schema_->query(recipe.statements.back()).empty());
  }
}

TEST_F(Cookbook, NoneReadsABigTableFromEndToEnd) {
  for (const auto& recipe : cookbook()) {
    SCOPED_TRACE(recipe.title);
    for (std::size_t i = 0; i + 1 < recipe.statements.size(); ++i) schema_->exec(recipe.statements[i]);
    const std::string& query = recipe.statements.back();
    if (query.find("retry_by_queue") != std::string::npos) {
      EXPECT_THAT(scanned(query),
                  testing::Each(testing::StartsWith("t index by_due")));  // counts read an index
    } else {
      EXPECT_THAT(scanned(query), testing::IsEmpty());
    }
  }
}

TEST_F(Cookbook, TheFiguresAreRight) {
  const auto recipe = [](const std::string& title) {
    const auto all = cookbook();
    const auto it = std::find_if(all.begin(), all.end(), [&](const auto& r) { return r.title == title; });
    if (it == all.end()) throw std::runtime_error("no recipe " + title);
    for (std::size_t i = 0; i + 1 < it->statements.size(); ++i) schema_->exec(it->statements[i]);
    return schema_->query(it->statements.back());
  };
  const auto story = recipe("One message's whole story");
  ASSERT_EQ(story.size(), 3U);
  EXPECT_EQ(story[0][0], "4712");
  EXPECT_EQ(story[2][2], "3");
  EXPECT_EQ(story[0][6], "712");  // late_ms
  const auto late = recipe("How late are deliveries today");
  ASSERT_EQ(late.size(), 1U);
  EXPECT_LE(std::stoi(late[0][1]), std::stoi(late[0][2]));
  EXPECT_LE(std::stoi(late[0][2]), std::stoi(late[0][3]));
  EXPECT_LE(std::stoi(late[0][3]), std::stoi(late[0][4]));
  const auto parked = recipe("What is parked, and why");
  ASSERT_EQ(parked.size(), 17U);
  int total = 0;
  for (const auto& row : parked) {
    EXPECT_THAT(row[3], testing::MatchesRegex("timeout after .* ms"));
    total += std::stoi(row[4]);
  }
  EXPECT_EQ(total, 2000);
  const auto shards = recipe("Who holds which shards");
  ASSERT_EQ(shards.size(), 2U);
  EXPECT_EQ(shards[0][3], "4");
  EXPECT_EQ(shards[1][0], "sidecar-1");
  EXPECT_EQ(shards[1][3], "60");
  const auto order = recipe("Everything that ever happened to one order");
  ASSERT_EQ(order.size(), 8U);  // taken in, three sent, three answered, one change by hand
  EXPECT_EQ(order[0][1], "taken in: retry");
  const auto by_hand = std::ranges::find(order, "fire by hand", [](const auto& row) { return row[1]; });
  ASSERT_NE(by_hand, order.end());
  EXPECT_EQ((*by_hand)[3], "alice@host (cli)");
  int unfinished = 0;
  for (const auto& row : recipe("Unfinished work, by age")) {
    EXPECT_EQ(std::stoi(row[1]),
              std::stoi(row[2]) + std::stoi(row[3]) + std::stoi(row[4]) + std::stoi(row[5]));
    unfinished += std::stoi(row[1]);
  }
  EXPECT_EQ(unfinished, 6000);  // three of twenty states
  const auto bulks = recipe("How far are the bulk changes");
  ASSERT_EQ(bulks.size(), 1U);
  EXPECT_EQ(bulks[0][5], "25.0");
  EXPECT_EQ(recipe("Who cancelled what").size(), 100U);
  for (const auto& row : recipe("The slowest to recover")) EXPECT_NE(row[4], "NULL") << row[0];
  for (const auto& row : recipe("Delays that failed when their time came"))
    EXPECT_NE(row[7], "NULL") << row[0];
  // Silence is nobody's failure.
  schema_->exec(
      "UPDATE rung_attempts SET outcome = 'timed_out' WHERE outcome = 'failed' AND executor = 'app-3:8080'");
  for (const auto& row : recipe("Which executor fails most"))
    EXPECT_EQ(row[0] == "app-3:8080", row[2] == "0") << row[0] << " " << row[2];
}

TEST_F(Cookbook, FiltersOnTheViewsMeetAnIndex) {
  const std::string soon = "UTC_TIMESTAMP(3) + INTERVAL 1 HOUR";
  const std::map<std::string, std::string> filters{
      {"state = 'scheduled' AND next_due_at < " + soon, "by_due"},
      {"queue = 'queue-3' AND state = 'scheduled' AND next_due_at < " + soon, "by_due"},
      {"queue = 'queue-3' ORDER BY retry_id DESC LIMIT 50", "by_queue"},
      {"state = 'parked'", "by_due or by_shard"},
      {"message_id = '4711'", "by_message"},
      {"retry_id = 4711", "PRIMARY"},
      {"created_at > UTC_TIMESTAMP(3) - INTERVAL 1 HOUR", "by_created"},
      {"finished_at > UTC_TIMESTAMP(3) - INTERVAL 1 HOUR", "by_finished"}};
  for (const auto& [filter, key] : filters) {
    const auto lines = plan("SELECT * FROM retry_current WHERE " + filter);
    EXPECT_THAT(key, testing::HasSubstr(lines[0].at("key"))) << filter;
    EXPECT_NE(lines[0].at("type"), "ALL") << filter;
  }
  EXPECT_THAT(scanned("SELECT * FROM retry_history WHERE retry_id = 4711"), testing::IsEmpty());
  EXPECT_THAT(scanned("SELECT * FROM retry_history WHERE message_id = '4711'"), testing::IsEmpty());
  EXPECT_THAT(scanned("SELECT * FROM retry_by_queue WHERE queue = 'queue-3'"),
              testing::Not(testing::Contains("t ALL ")));
}

// Counting open tasks reads no ended task. Counting a piece of the ended ones reads only that piece.
TEST_F(Cookbook, CountingReadsARangeOfAnIndex) {
  const auto read_of = [](const std::string& statement, const std::string& table) {
    const auto lines = plan(statement);
    const auto line = std::ranges::find(lines, table, [](const auto& l) { return l.at("table"); });
    EXPECT_NE(line, lines.end()) << statement;
    return line == lines.end() ? lines.at(0) : *line;
  };
  const auto open = read_of(std::string(sql::statement("open_by_queue")), "t");
  EXPECT_EQ(open.at("type"), "range");
  EXPECT_EQ(open.at("key"), "by_due");
  std::vector<int> shards(kShards);
  std::iota(shards.begin(), shards.end(), 0);
  const std::string held_silences = mysql::render("held_silences", {{"shards", shards}}).str();
  const auto held = read_of(held_silences, "t");
  EXPECT_EQ(held.at("type"), "range");
  EXPECT_EQ(held.at("key"), "by_shard");
  // An entry for each such task, and the first one after them in each shard; not those whose silence has an
  // end.
  EXPECT_GT(std::stoi(schema_->value("SELECT COUNT(*) FROM rung_tasks WHERE stage = 3")), 500);
  const int without_end =
      std::stoi(schema_->value("SELECT COUNT(*) FROM rung_tasks WHERE stage = 3 AND next_at IS NULL"));
  schema_->exec("FLUSH STATUS");
  schema_->query(held_silences);
  EXPECT_LE(std::stoi(schema_->query("SHOW SESSION STATUS LIKE 'Handler_read_next'").at(0).at(1)),
            without_end + 64);
  for (const char* which : {"same_queue", "next_queues"}) {
    const mysql::Sql condition =
        mysql::render(std::string("count_ended.") + which, {{"queue", "queue-3"}, {"id", 4711}});
    const mysql::Sql statement =
        mysql::render("count_ended", {{"state", State::succeeded}, {"which", condition}, {"most", 50}});
    const auto piece = read_of(statement.str(), "rung_tasks");
    EXPECT_EQ(piece.at("type"), "range") << which;
    EXPECT_EQ(piece.at("key"), "by_due") << which;
    EXPECT_THAT(piece.at("Extra"), testing::HasSubstr("Using index")) << which;
    EXPECT_THAT(piece.at("Extra"), testing::Not(testing::HasSubstr("filesort"))) << which;
  }
}

}  // namespace
}  // namespace rung::test
