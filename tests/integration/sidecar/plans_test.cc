// Every statement that the program sends while messages flow, and while people ask, reads its rows by an
// index. The statements are those that the server's own log has of it: none can be forgotten here.
// RUNG_TEST_PLAN_ROWS: how many tasks there are (20,000; tests/matrix has a million).
#include <gmock/gmock.h>

#include <cstdlib>
#include <regex>

#include "tests/integration/sidecar/messages.h"

namespace rung::test {
namespace {

constexpr int kMostRowsOfAScan = 1000;  // rung_nodes, rung_shards, rung_settings and the like

class Plans : public SidecarTest {
 protected:
  ~Plans() override {
    try {
      db.exec("SET GLOBAL general_log = OFF");
    } catch (const std::exception&) {  // the server is gone
    }
  }

  // Old tasks: of twenty, one waits for next month, one is parked, the others are over. Each with a body and
  // an attempt.
  void fill_with_old_tasks() {
    const char* given = std::getenv("RUNG_TEST_PLAN_ROWS");
    tasks_ = given != nullptr ? std::atoi(given) : 20'000;
    db.open_store();
    const std::string from = " FROM " + numbers(tasks_);
    db.exec(
        "INSERT INTO rung_tasks (id, shard, state, next_at, attempt, queue, message_id, created_at, "
        "finished_at) SELECT "
        "seq, seq % 64, CASE seq % 20 WHEN 0 THEN 'scheduled' WHEN 1 THEN 'parked' ELSE 'succeeded' END, "
        "IF(seq % 20 = 0, UTC_TIMESTAMP(3) + INTERVAL 30 DAY, NULL), 1, CONCAT('old-', seq % 100), "
        "CONCAT('m', seq), "
        "UTC_TIMESTAMP(3) - INTERVAL seq SECOND, IF(seq % 20 < 2, NULL, UTC_TIMESTAMP(3) - INTERVAL seq "
        "SECOND)" +
        from);
    db.exec("INSERT INTO rung_bodies SELECT seq, '{}', NULL, '{}', 'old body'" + from);
    db.exec(
        "INSERT INTO rung_attempts (task_id, attempt, level, due_at, outcome) SELECT seq, 1, 1, "
        "UTC_TIMESTAMP(3), 'failed'" +
        from);
    db.query("ANALYZE TABLE rung_tasks, rung_bodies, rung_attempts");
  }

  // The statements that the server has logged for this schema, one of each shape.
  std::map<std::string, std::string> statements() {
    std::map<std::string, std::string> out;
    const std::string sessions =
        "SELECT thread_id FROM mysql.general_log WHERE CONVERT(argument USING utf8mb4) = 'USE `" + db.name() +
        "`' AND thread_id <> CONNECTION_ID()";
    for (const auto& row :
         db.query("SELECT argument FROM mysql.general_log WHERE command_type = 'Query' AND thread_id IN (" +
                  sessions + ")")) {
      static const std::regex begin("^\\(*(SELECT|UPDATE|DELETE|WITH|INSERT[^;]*SELECT)\\b");
      const std::string one = first_of(row[0]);
      if (std::regex_search(one.substr(0, 2000), begin)) out.emplace(shape_of(one), one);
    }
    return out;
  }
  // Of a packet of several: the server logs the first one with all that follow, and then each by itself.
  static std::string first_of(const std::string& packet) {
    char quote = 0;
    for (std::size_t i = 0; i < packet.size(); ++i) {
      const char c = packet[i];
      if (quote != 0) {
        if (c == '\\') ++i;
        if (c == quote) quote = 0;
      } else if (c == '\'' || c == '"' || c == '`') {
        quote = c;
      } else if (c == ';') {
        return packet.substr(0, i);
      }
    }
    return packet;
  }
  // Without values; a list of them is as long as any.
  static std::string shape_of(std::string statement) {
    std::string out;
    for (std::size_t i = 0; i < statement.size();) {
      const char c = statement[i];
      const auto is_word = [](char x) {
        return std::isalnum(static_cast<unsigned char>(x)) != 0 || x == '_';
      };
      if (c == '\'' || c == '"') {
        while (++i < statement.size() && statement[i] != c) i += statement[i] == '\\' ? 1U : 0U;
        ++i;
        out += '?';
      } else if (std::isdigit(static_cast<unsigned char>(c)) != 0 && (out.empty() || !is_word(out.back()))) {
        while (i < statement.size() && is_word(statement[i])) ++i;
        out += '?';
      } else {
        out += c;
        ++i;
      }
    }
    static const std::regex list("\\?(\\s*,\\s*\\?)+"), tuples("\\(\\?\\)(\\s*,\\s*\\(\\?\\))+"),
        many("( OR [^()]*\\?)+");
    out = std::regex_replace(out, list, "?");
    out = std::regex_replace(out, tuples, "(?)");
    return std::regex_replace(out, many, " OR ..");
  }

  void cli(const std::string& arguments) {
    const Ran ran =
        run_shell("'" + rung_program() + "' " + arguments + " --config '" + rung().config_path() + "'");
    EXPECT_LE(ran.code, 1) << arguments << "\n" << ran.out;
  }

  int tasks_ = 0;
};

TEST_F(Plans, NoStatementOfTheProgramReadsABigTableFromEndToEnd) {
  fill_with_old_tasks();
  db.exec("SET GLOBAL log_output = 'TABLE'");
  db.exec("SET GLOBAL general_log = ON");
  config.more = "retention: 3650d\ndefaults: { success: { presumed_after: 1s } }\n";
  start();
  const std::string queue = attached();
  for (int i = 0; i < 3; ++i) {
    fail(queue, order());
    Received back = delivery(queue);
    amqp.reject(back);  // climbs on
    back = delivery(queue);
    report(back, i == 0 ? "failed" : "succeeded");
  }
  fail(queue, order());
  delivery(queue);  // and not a word: success by silence
  cli("submit --queue " + queue + " --delay 1h --body x --tag order.close");
  for (const char* command :
       {"list --state parked --limit 5", "list --queue old-7 --limit 5", "list --message-id m4711", "stats",
        "nodes", "history --message-id m4711", "show 4711", "audit --limit 5",
        "list --error-type Timeout --limit 5", "list --error boom --state parked --limit 5",
        "list --first-failed-after 1h --limit 5", "list --state parked --count --by error_type",
        "causes --limit 5", "cancel --tag order.close --error boom --limit 5 --yes",
        "cancel --tag order.close --yes", "reschedule 20 --in 3h", "fire 40", "retry 21", "bulk list"}) {
    cli(command);
  }
  // A lease that is lost meanwhile sends the message once more: an unread copy would keep it from success.
  ASSERT_TRUE(eventually([&] {
    if (const auto copy = amqp.get(queue)) amqp.ack(*copy);
    const auto tasks = current(queue);
    return tasks.size() >= 4 && tasks[3].at("state") == "succeeded";
  }));
  const auto sent = statements();
  db.exec("SET GLOBAL general_log = OFF");
  EXPECT_GT(sent.size(), 25U);
  std::printf("%zu statements at %d tasks\n", sent.size(), tasks_);
  for (const auto& [shape, statement] : sent) {
    for (const auto& line : db.explain(statement)) {
      const std::string &type = line.at("type"), &rows = line.at("rows");
      if ((type != "ALL" && type != "index") || rows == "NULL" || line.at("table")[0] == '<') continue;
      if (std::stoll(rows) <= kMostRowsOfAScan) continue;  // such as rung_promises, which the same view reads
      // It counts all tasks: nothing less than an index with all that it counts will do.
      if (shape.find("FROM retry_by_queue") != std::string::npos && type == "index") {
        EXPECT_THAT(line.at("Extra"), testing::HasSubstr("Using index")) << line.at("table");
        continue;
      }
      ADD_FAILURE() << "table " << line.at("table") << ", " << rows << " rows, is read from end to end ("
                    << type << ") by\n"
                    << statement.substr(0, 1500);
    }
  }
}

}  // namespace
}  // namespace rung::test
