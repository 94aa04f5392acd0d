// Malformed and hostile words: results, names, and what a consumer asks for.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "src/core/base/utf8.h"
#include "tests/integration/sidecar/abuse.h"

namespace rung::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string in_shell(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

// --- results

TEST_F(Abuse, ResultsForWhatIsOver) {
  config.ladder = "[200ms]";
  start();
  const auto finished = [&](const std::string& how) {
    const std::string queue = attached();
    fail(queue, order());
    const Received back = delivery(queue);
    amqp.ack(back);
    report(back, how, how == "failed" ? "no stock" : "");
    wait_state(queue, how == "failed" ? "parked" : "succeeded");
    return back;
  };
  const auto unchanged = [&](const Received& about, std::string_view result) {
    const auto before = rows("SELECT * FROM retry_current WHERE retry_id = " + retry_id(about));
    report(about, result, "too late");
    plain_one_climbs();  // results are taken in order: that one has been dealt with
    EXPECT_EQ(rows("SELECT * FROM retry_current WHERE retry_id = " + retry_id(about)), before) << result;
  };
  unchanged(finished("failed"), "failed");
  unchanged(finished("succeeded"), "failed");
  unchanged(finished("succeeded"), "succeeded");

  // But a success that was slower than presumed_after or reported_within is one.
  const Received late = finished("failed");
  report(late, "succeeded");
  wait_id(retry_id(late), "succeeded");
  nothing_stays();
}

TEST_F(Abuse, ResultsForACancelledTask) {
  config.ladder = "[200ms, 1h]";
  start();
  const std::string queue = attached();
  fail(queue, order());
  const Received back = delivery(queue);
  amqp.reject(back);
  wait_state(queue, "scheduled");
  ASSERT_TRUE(eventually([&] { return current(queue).at(0)["level"] == "2"; }, kBound));
  ASSERT_EQ(cli("cancel " + retry_id(back) + " --reason 'not wanted'").code, 0);
  wait_state(queue, "cancelled");
  for (const char* result : {"failed", "succeeded", "maybe", ""}) {
    report(back, result, "too late");
    plain_one_climbs();
    EXPECT_EQ(current(queue).at(0)["state"], "cancelled") << result;
    EXPECT_EQ(current(queue).at(0)["last_error"].find("too late"), std::string::npos) << result;
  }
  nothing_stays();
}

TEST_F(Abuse, ResultsThatNobodyUnderstands) {
  config.queue("default", "{ success: { presumed_after: 1h } }");
  config.more += "results: { require_token: false }\n";
  start();
  const std::string queue = attached();
  fail(queue, order());
  const Received back = delivery(queue);
  amqp.ack(back);
  wait_state(queue, "awaiting");
  const std::string id = retry_id(back);
  const std::string bad("\xff\xfe\x1b[2J\n", 7);
  for (const Value& result : {Value{"SUCCEEDED"}, Value{""}, Value{bad}, Value{true}, Value{Table{}}, Value{},
                              Value{std::string(100'000, 's')}}) {
    word({{"retry-id", id}, {"retry-result", result}});
  }
  word({{"retry-id", id}});
  word({{"retry-id", "4711"}, {"retry-result", "succeeded"}});
  word({{"retry-id", std::int64_t{INT64_MAX}}, {"retry-result", "failed"}, {"retry-error", bad}});
  word({{"retry-id", id}, {"retry-attempt", std::int64_t{77}}, {"retry-result", "succeeded"}});
  plain_one_climbs();
  EXPECT_EQ(current(queue).at(0)["state"], "awaiting");
  const std::string log = rung().log();
  EXPECT_THAT(log, HasSubstr("retry-result must be succeeded or failed, not 'SUCCEEDED'"));
  EXPECT_THAT(log, HasSubstr("no such task"));
  EXPECT_THAT(log, HasSubstr("no such attempt: it had 1"));
  EXPECT_THAT(log, Not(HasSubstr("\x1b[2J")));
  EXPECT_TRUE(is_utf8(log));
  report(back, "succeeded");
  wait_id(id, "succeeded");
  nothing_stays();
}

// --- names

TEST_F(Abuse, NamesThatAreNotUtf8) {
  start();
  const std::string bad("\xff\xfe\x80name", 7), shown = "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBDname";
  // Of the queue: nowhere to go back to.
  for (const Value& name :
       {Value{bad}, Value{std::string(256, 'q')}, Value{""}, Value{std::int64_t{5}}, Value{Table{}}}) {
    Message message = said("", {{"retry-error", "no stock"}});
    message.headers->front().second = name;
    send(message);
    Row row = row_of_message(*message.properties.message_id);
    EXPECT_EQ(row["state"], "parked");
    EXPECT_EQ(row["queue"], "");
    EXPECT_THAT(row["last_error"], AllOf(HasSubstr("retry-queue is not understood"), HasSubstr("no stock")));
  }
  // Of everything else: it climbs, and the row shows what can be shown.
  const std::string queue = attached();
  Message message =
      said(queue, {{"retry-error", bad}, {"retry-error-type", bad}, {"retry-ladder", bad}}, bad);
  message.properties.type = bad;
  send(message);
  const Received back = delivery(queue);
  EXPECT_EQ(back.message.properties.message_id, bad);
  EXPECT_EQ(back.message.properties.type, bad);
  Row row = current(queue).at(0);
  EXPECT_EQ(row["message_id"], shown);
  EXPECT_EQ(row["tag"], shown);
  EXPECT_THAT(row["last_error"], AllOf(HasSubstr(shown), HasSubstr("which is not in the config")));
  EXPECT_TRUE(is_utf8(row["last_error"]));
  amqp.ack(back);
  nothing_stays();
}

TEST_F(Abuse, QueueNamesThatAreSql) {
  start();
  std::string long_name;
  while (long_name.size() + 28 <= 255) long_name += "'; DROP TABLE rung_tasks; --";
  long_name += std::string(255 - long_name.size(), '%');
  for (const std::string& name :
       {std::string("'; DROP TABLE rung_tasks; --"), std::string("`; SELECT \"1\\"),
        std::string("100%_\\'\" OR 1=1"), std::string("a\tb c\x1b[2J"), long_name}) {
    remove_at_end(name);
    declare_attached(name);
    Message message = order();
    message.properties.type = name;
    message.properties.message_id = name;
    fail(name, message);
    const Received back = delivery(name);
    EXPECT_EQ(back.message.body, message.body);
    amqp.ack(back);
    report(back, "succeeded");
    Row row = wait_state(name, "succeeded");
    EXPECT_EQ(row["tag"], name);

    const Ran list = cli("list --json --queue " + in_shell(name) + " --tag " + in_shell(name) +
                         " --message-id " + in_shell(name));
    ASSERT_EQ(list.code, 0) << list.out;
    const auto json = nlohmann::json::parse(list.out);
    ASSERT_EQ(json["tasks"].size(), 1U) << list.out;
    EXPECT_EQ(json["tasks"][0]["queue"], name);
    EXPECT_EQ(cli("list --json --queue " + in_shell(name + " ")).out.find(retry_id(back)), std::string::npos);
    const Ran errors = cli("list --json --error " + in_shell(name));
    EXPECT_EQ(errors.code, 0) << errors.out;
    for (const std::string& words :
         {"show " + retry_id(back), "history " + in_shell(name), std::string("stats"),
          "list --queue " + in_shell(name), "show --json " + in_shell(name)}) {
      const Ran ran = cli(words);
      EXPECT_EQ(ran.code, 0) << words << "\n" << ran.out;
      EXPECT_THAT(ran.out, Not(HasSubstr("\x1b[2J"))) << words;
    }
    EXPECT_EQ(rows("SELECT COUNT(*) AS n FROM retry_by_queue")[0]["n"] != "0", true);
  }
  nothing_stays();
}

// --- what a consumer asks for

TEST_F(Abuse, LadderThatIsNotThere) {
  start();
  const std::string queue = attached();
  send(said(queue, {{"retry-error", "no stock"}, {"retry-ladder", "'; DROP TABLE rung_tasks; --"}}));
  const Received back = delivery(queue);
  EXPECT_EQ(text_header(back.message, "retry-ladder"), "default");
  EXPECT_EQ(error_of(queue),
            "no stock [retry-ladder names ''; DROP TABLE rung_tasks; --', which is not in the config]");
  amqp.ack(back);
  nothing_stays();
}

TEST_F(Abuse, RetryAfterNonsense) {
  start();
  for (const Value& after :
       {Value{"yesterday"}, Value{"-5s"}, Value{std::int64_t{-5}}, Value{"1.5h"}, Value{""}, Value{Table{}},
        Value{true}, Value{1e300}, Value{"9999999999999999999999999d"}, Value{Timestamp{1'900'000'000}}}) {
    const std::string queue = attached();
    send(said(queue, {{"retry-error", "no stock"}, {"retry-after", after}}));
    const Received back = delivery(queue);  // the level's delay
    EXPECT_THAT(error_of(queue), AllOf(HasSubstr("no stock"), HasSubstr("retry-after is not understood")));
    amqp.ack(back);
  }
  // Years are understood, and capped by the ladder.
  for (const Value& after : {Value{"3650d"}, Value{std::int64_t{INT64_MAX}}, Value{"99999999999"}}) {
    const std::string queue = attached();
    send(said(queue, {{"retry-error", "no stock"}, {"retry-after", after}}));
    const Received back = delivery(queue);
    EXPECT_EQ(error_of(queue), "no stock");
    amqp.ack(back);
  }
  nothing_stays();
}

TEST_F(Abuse, MostAttemptsNonsense) {
  start();
  for (const Value& most : {Value{"many"}, Value{std::int64_t{-1}}, Value{std::int64_t{INT64_MAX}},
                            Value{Array{}}, Value{2.5}, Value{"\xff"}}) {
    const std::string queue = attached();
    send(said(queue, {{"retry-error", "no stock"}, {"retry-max-attempts", most}}));
    const Received back = delivery(queue);
    EXPECT_THAT(error_of(queue),
                AllOf(HasSubstr("no stock"), HasSubstr("retry-max-attempts is not understood")));
    amqp.ack(back);
  }
  nothing_stays();
}

// An x-death that somebody made up: dates of no calendar, counts of no number.
TEST_F(Abuse, DeathsThatNeverWere) {
  start();
  for (const std::uint64_t time : {9'223'372'036'854'776ULL, 1ULL << 62, ~0ULL, 253'402'300'800ULL, 0ULL}) {
    const std::string queue = attached();
    Message message = order();
    message.headers->emplace_back("x-death", Array{Value{Table{{"queue", queue},
                                                               {"reason", "rejected"},
                                                               {"time", Timestamp{time}},
                                                               {"count", static_cast<std::int64_t>(time)}}}});
    send(message);
    const Received back = delivery(queue);
    Row row = current(queue).at(0);
    EXPECT_LE(std::abs(ms_of(row["first_failed_at"]) - wall_ms()), 600'000) << time << " " << described(row);
    amqp.ack(back);
  }
  nothing_stays();
}

}  // namespace
}  // namespace rung::test
