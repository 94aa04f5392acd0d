// submit: what it writes, its times, targets, bodies, and what a message-id means.
#include <iterator>
#include <sstream>

#include "tests/integration/cli/fixture.h"

namespace rung::cli {
namespace {

using namespace std::chrono_literals;

class Submit : public CliTest {
 protected:
  Submit() { store(); }

  static std::vector<std::string> words(const std::string& text) {
    std::istringstream in(text);
    return {std::istream_iterator<std::string>(in), {}};
  }
  Task task_of(const json& answer) { return row(*TaskId::parse(answer["retry_id"].get<std::string>())); }
};

TEST_F(Submit, ADelayIsARowThatWaits) {
  const EpochMs before = now();
  const json answer = rung_json(
      words("submit --queue orders.close --delay 30m --tag order.close --message-id close-17 "
            "--body {\"order\":17} --content-type application/json --header tenant=acme --header empty= "
            "--property priority=5 --property correlation_id=c-1 --max-attempts 3"));
  EXPECT_EQ(answer["result"], "created");
  EXPECT_EQ(answer["task"]["kind"], "delay");
  EXPECT_EQ(answer["task"]["version"], 1);
  const Task task = task_of(answer);
  EXPECT_EQ(task.kind, Kind::delay);
  EXPECT_EQ(task.state, State::scheduled);
  EXPECT_EQ(task.level, 0);
  EXPECT_EQ(task.queue, "orders.close");
  EXPECT_EQ(task.tag, "order.close");
  EXPECT_EQ(task.message_id, "close-17");
  EXPECT_EQ(task.max_attempts, 3);
  EXPECT_EQ(task.first_failed_at.ms, 0);
  EXPECT_GE(task.next_at->ms, (before + 30min).ms);
  EXPECT_LE(task.next_at->ms, (now() + 30min).ms);
  const Message message = message_of(task.id);
  EXPECT_EQ(message.body, R"({"order":17})");
  EXPECT_EQ(message.properties.content_type, "application/json");
  EXPECT_EQ(message.properties.type, "order.close");
  EXPECT_EQ(message.properties.message_id, "close-17");
  EXPECT_EQ(message.properties.priority, 5);
  EXPECT_EQ(message.properties.correlation_id, "c-1");
  EXPECT_EQ(message.headers, (Table{{"tenant", "acme"}, {"empty", ""}}));
}

TEST_F(Submit, BodiesToTheByte) {
  const std::string bytes("\0\xff\x80 any\r\n", 9);
  const json from_file =
      rung_json({"submit", "--queue", "q", "--delay", "1h", "--file", file("body", bytes)});
  EXPECT_EQ(message_of(task_of(from_file).id).body, bytes);
  EXPECT_EQ(message_of(task_of(from_file).id).properties.content_type, std::nullopt);
  const json empty = rung_json({"submit", "--queue", "q", "--delay", "1h", "--file", file("empty", "")});
  EXPECT_EQ(message_of(task_of(empty).id).body, "");
  const std::string piped = "printf 'a\\0b' | " + std::string(RUNG_TEST_PROGRAM) +
                            " submit --queue q --delay 1h --file - --json" + access_words("submit");
  const auto ran = run_program({"sh", "-c", piped});
  EXPECT_EQ(message_of(task_of(json::parse(ran.out)).id).body, std::string("a\0b", 3));
}

TEST_F(Submit, WhatCannotBeReadIsNoEmptyBody) {
  store();
  for (const std::string how : {"--queue q --delay 1h --file /tmp", "--queue q --delay 1h --file - <&-",
                                "--queue q --delay 1h --file - </tmp", "--jsonl - <&-", "--jsonl /tmp"}) {
    const auto ran = run_program(
        {"sh", "-c", std::string(RUNG_TEST_PROGRAM) + " submit" + access_words("submit") + " " + how});
    EXPECT_EQ(ran.exit, 1) << how;
    EXPECT_THAT(ran.err, AnyOf(HasSubstr("cannot read "), HasSubstr("cannot be read"))) << how;
  }
  EXPECT_EQ(db.value("SELECT COUNT(*) FROM rung_tasks"), "0");
}

TEST_F(Submit, ManyByJsonLines) {
  std::string lines;
  for (int i = 0; i < 1200; ++i) {
    lines += R"({"queue": "q", "delay": "1h", "message_id": "m-)" + std::to_string(i % 1100) +
             R"(", "body": {"n": )" + std::to_string(i % 1100) + "}}\n";
  }
  lines +=
      "\n{\"queue\": \"q\"}\nnot json\n{\"queue\": \"q\", \"delay\": \"1h\", \"message_id\": \"m-1\", "
      "\"body\": 2}\n";
  const std::string path = file("tasks.jsonl", lines);
  const Ran ran = rung({"submit", "--jsonl", path});
  EXPECT_EQ(ran.exit, 1);  // three lines are wrong
  EXPECT_EQ(ran.out, "1100 submitted, 100 duplicates, 3 refused\n");
  EXPECT_THAT(ran.err, AllOf(HasSubstr("line 1202: delay: missing: set"), HasSubstr("line 1203: "),
                             HasSubstr("line 1204: message-id m-1 belongs to task")));
  EXPECT_EQ(db.value("SELECT COUNT(*) FROM rung_tasks"), "1100");

  const Ran answers = rung({"submit", "--jsonl", path, "--json"});
  std::istringstream out(answers.out);
  std::map<std::string, int> results;
  for (std::string line; std::getline(out, line);) ++results[json::parse(line)["result"]];
  EXPECT_EQ(results["duplicate"], 1200);
  EXPECT_EQ(results["refused"], 2);
  EXPECT_EQ(results["conflict"], 1);
}

TEST_F(Submit, APipeThatPausesIsNotWaitedFor) {
  const std::string command =
      std::string(RUNG_TEST_PROGRAM) + " submit --jsonl -" + access_words("submit") + " >/dev/null";
  FILE* pipe = popen(command.c_str(), "w");
  ASSERT_NE(pipe, nullptr);
  for (const char* body : {"1", "2"}) {
    const EpochMs before = now();
    std::fprintf(pipe, "{\"queue\": \"q\", \"delay\": \"1h\", \"body\": %s}\n", body);
    std::fflush(pipe);
    EXPECT_TRUE(test::eventually([&] { return db.value("SELECT COUNT(*) FROM rung_tasks") == body; }, 120s));
    // The delay counts from the arrival of the line, not from the start of the command.
    const auto newest = store().list({});
    EXPECT_GE(newest.front().task.next_at->ms, (before + 1h).ms);
  }
  EXPECT_EQ(pclose(pipe), 0);
}

}  // namespace
}  // namespace rung::cli
