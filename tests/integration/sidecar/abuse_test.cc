// Malformed and hostile messages. Each is parked, climbs or is ignored, with a reason that a person
// understands; none stops the flow: after each, a plain message still climbs, and nothing stays unacked.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "src/core/base/utf8.h"
#include "tests/integration/sidecar/messages.h"

namespace rung::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Abuse : public SidecarTest {
 protected:
  void SetUp() override { config.ladder = "[200ms, 400ms]"; }

  // Proves that nothing before it has stopped the flow.
  void plain_one_climbs() {
    const std::string queue = attached("plain");
    const Message message = order(unique_name("plain"));
    fail(queue, message);
    const Received back = delivery(queue);
    EXPECT_EQ(back.message.body, message.body);
    amqp.ack(back);
    report(back, "succeeded");
    wait_id(retry_id(back), "succeeded");
  }

  // What stays unacked shows when the process has gone: it lies there again.
  void nothing_stays() {
    plain_one_climbs();
    EXPECT_TRUE(rung().running());
    rung().signal(SIGTERM);
    EXPECT_EQ(rung().wait_exit(), 0);
    EXPECT_EQ(amqp.depth(failed()), 0U) << "not acked";
    EXPECT_EQ(amqp.depth(results()), 0U) << "not acked";
  }

  void send(const Message& message) { ASSERT_TRUE(amqp.publish(failed(), "", message)); }
  void word(Table headers) {
    Message message;
    message.headers = std::move(headers);
    ASSERT_TRUE(amqp.publish(results(), "", message));
  }

  // As a consumer says it: `more` beside retry-queue, to <prefix>.failed.
  Message said(const std::string& queue, Table more, const std::string& message_id = unique_name("said")) {
    Message message;
    message.properties.message_id = message_id;
    message.body = "said";
    message.headers = Table{{"retry-queue", queue}};
    for (auto& entry : more) message.headers->push_back(std::move(entry));
    return message;
  }
  Row row_of_message(const std::string& message_id) {
    std::vector<Row> found;
    EXPECT_TRUE(eventually(
        [&] {
          found = rows("SELECT * FROM retry_current WHERE message_id = '" + message_id + "'");
          return found.size() == 1;
        },
        kBound))
        << found.size() << " rows of " << message_id;
    return found.empty() ? Row{} : found[0];
  }
  std::string error_of(const std::string& queue) {
    const auto found = current(queue);
    return found.empty() ? "no row" : found[0].at("last_error");
  }

  // Headers whose one text is so long that the header frame is the largest that this client sends.
  static Message with_header_of(std::size_t bytes) {
    Message message;
    message.properties.message_id = unique_name("wide");
    message.headers = Table{{"wide", std::string(bytes, 'w')}};
    message.body = "small";
    return message;
  }

  Ran cli(const std::string& words) {
    return run_shell(rung_program() + " " + words + " -c " + rung().config_path());
  }
};

// What a consumer makes of the header that it was given.
void with_attempt(Message& message, const Value& attempt) {
  for (auto& [name, value] : *message.headers) {
    if (name == "retry-attempt") value = attempt;
  }
}

std::string in_shell(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

// --- size

TEST_F(Abuse, BodyOfSixteenMegabytes) {
  start();
  const std::string queue = attached();
  Message message = order(std::string(16'000'000, 'b'));
  fail(queue, message);
  const Received back = delivery(queue);
  EXPECT_TRUE(back.message.body == message.body) << back.message.body.size();
  amqp.ack(back);
  EXPECT_EQ(current(queue).at(0)["body_bytes"], "16000000");
  nothing_stays();
}

// Above the database's max_allowed_packet (64 MiB, by tests/servers): the message is kept by the broker.
TEST_F(Abuse, BodyThatTheDatabaseDoesNotTake) {
  start();
  const std::string queue = attached();
  Message message = said(queue, {});
  message.body = std::string(68'000'000, 'b');
  send(message);
  Row row = wait_state(queue, "parked");
  EXPECT_THAT(row["last_error"],
              AllOf(HasSubstr("68000000 bytes"), HasSubstr("max_allowed_packet"), HasSubstr(parked())));
  const auto copy = amqp.get_within(parked());
  ASSERT_TRUE(copy);
  EXPECT_TRUE(copy->message.body == message.body);
  amqp.ack(*copy);
  nothing_stays();
}

TEST_F(Abuse, TenThousandHeaders) {
  start();
  const std::string queue = attached();
  Message message = order();
  for (int i = 0; i < 10'000; ++i) message.headers->emplace_back("n" + std::to_string(i), std::int32_t{i});
  fail(queue, message);
  const Received back = delivery(queue);
  expect_same(message, back.message);
  amqp.ack(back);
  nothing_stays();
}

// A header frame of 128 KB less a few bytes is the largest that may be sent (frame_max). What the broker adds
// when it dead-letters comes on top: the frame that reaches us is larger than agreed.
TEST_F(Abuse, HeadersOfAWholeFrame) {
  start();
  for (const std::size_t bytes : {130'000U, 130'900U, 131'000U}) {
    const std::string queue = attached();
    const Message message = with_header_of(bytes);
    fail(queue, message);
    std::vector<Row> found;
    ASSERT_TRUE(eventually([&] { return !(found = current(queue)).empty(); }, kBound))
        << bytes << ": no row\n";
    Row row;
    ASSERT_TRUE(eventually(
        [&] {
          row = current(queue).at(0);
          return row["state"] == "parked" || row["state"] == "awaiting";
        },
        kBound))
        << bytes;
    if (row["state"] == "parked") {
      EXPECT_THAT(row["last_error"], HasSubstr("more than fit into a frame")) << bytes;
    } else {
      const Received back = delivery(queue);
      expect_same(message, back.message);
      amqp.ack(back);
    }
    std::printf("%zu bytes of headers: %s %s\n", bytes, row["state"].c_str(), row["last_error"].c_str());
    plain_one_climbs();
  }
  nothing_stays();
}

// --- loops

// A target whose messages expire at once, their dead letters to us: each delivery comes straight back.
TEST_F(Abuse, TargetThatExpiresAtOnceEndsParked) {
  start();
  const std::string queue = new_name();
  amqp.declare(queue, {{"x-dead-letter-exchange", failed()}, {"x-message-ttl", std::int32_t{1}}});
  ASSERT_TRUE(amqp.publish("", queue, order()));
  Row row = wait_state(queue, "parked");
  EXPECT_EQ(row["attempt"], "2");
  EXPECT_THAT(row["last_error"], HasSubstr("dead-lettered: expired"));
  EXPECT_EQ(history(row["retry_id"]).size(), 2U);
  nothing_stays();
}

// a -> b -> a -> b by rejections, then to us: x-death has entries of both, the newest names the queue.
TEST_F(Abuse, RoundOfDeadLettersBeforeItComesToUs) {
  start();
  const std::string a = new_name("a"), b = new_name("b");
  amqp.declare(a, {{"x-dead-letter-exchange", ""}, {"x-dead-letter-routing-key", b}});
  amqp.declare(b, {{"x-dead-letter-exchange", ""}, {"x-dead-letter-routing-key", a}});
  const Message message = order();
  ASSERT_TRUE(amqp.publish("", a, message));
  for (int i = 0; i < 3; ++i) {
    amqp.reject(delivery(a));
    amqp.reject(delivery(b));
  }
  Received last = delivery(a);
  // By hand what a policy would do: on to us, with the x-death that it has by now.
  ASSERT_TRUE(amqp.publish(failed(), "", last.message));
  amqp.ack(last);
  const Received back = delivery(b);  // it died in b last
  EXPECT_EQ(back.message.body, message.body);
  EXPECT_FALSE(has_header(back.message, "x-death"));
  amqp.ack(back);
  nothing_stays();
}

// --- ids and attempts

TEST_F(Abuse, RetryIdOfNoTaskIsTakenInAsNew) {
  start();
  for (const Value& id : {Value{"4711"}, Value{std::int64_t{4711}}, Value{"9223372036854775807"},
                          Value{"nonsense"}, Value{std::int64_t{-1}}, Value{"\xff\xfe"}, Value{Table{}}}) {
    const std::string queue = attached();
    send(said(queue, {{"retry-id", id}, {"retry-attempt", std::int64_t{3}}, {"retry-error", "no stock"}}));
    const Received back = delivery(queue);
    EXPECT_EQ(int_header(back.message, "retry-attempt"), 1);
    EXPECT_THAT(retry_id(back), Not(HasSubstr("4711")));
    EXPECT_EQ(error_of(queue), "no stock");
    amqp.ack(back);
  }
  nothing_stays();
}

TEST_F(Abuse, RetryAttemptOutOfRange) {
  config.ladder = "[200ms, 1h]";
  // Else the retry-token, which says the attempt too, would not fit.
  config.more = "results: { require_token: false }\n";
  start();
  const auto odd = [](std::int64_t number) { return Value{number}; };
  for (const Value& attempt :
       {odd(0), odd(-1), odd(std::int64_t{1} << 31), odd(INT64_MAX), Value{~std::uint64_t{0}}, Value{"first"},
        Value{""}, Value{Table{}}, Value{Array{Value{1.0}}}}) {
    const std::string queue = attached();
    fail(queue, order());
    Received back = delivery(queue);
    with_attempt(back.message, attempt);
    back.message.headers->emplace_back("retry-error", "no stock");
    send(back.message);
    amqp.ack(back);
    // It says which task; which attempt nobody can read: the one under way.
    wait_id(retry_id(back), "scheduled");
    Row row = current(queue).at(0);
    EXPECT_EQ(row["level"], "2");
    EXPECT_THAT(row["last_error"],
                AllOf(HasSubstr("no stock"), HasSubstr("retry-attempt is not understood")));
  }
  // One that can be read, and is none of its attempts: beside it, for a person.
  for (const std::int64_t attempt : {std::int64_t{2}, std::int64_t{1'000'000'000}}) {
    const std::string queue = attached();
    fail(queue, order());
    Received back = delivery(queue);
    with_attempt(back.message, attempt);
    back.message.headers->emplace_back("retry-queue", queue);
    send(back.message);
    amqp.ack(back);
    ASSERT_TRUE(eventually([&] { return current(queue).size() == 2; }, kBound));
    Row apart = current(queue).at(1);
    EXPECT_EQ(apart["state"], "parked");
    EXPECT_THAT(apart["last_error"],
                AllOf(HasSubstr("retry-attempt " + std::to_string(attempt)), HasSubstr("it had 1")));
  }
  nothing_stays();
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
    EXPECT_EQ(current(queue).at(0)["last_error"], "not wanted") << result;
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

// --- rows changed by hand

TEST_F(Abuse, AMessageThatIsDamagedOrGoneParksAlone) {
  config.ladder = "[2s]";
  const std::string queue = attached("damaged"), good = attached("good");
  config.queue(queue, "{ parked: publish }");
  start();
  for (const auto& [name, to] : {std::pair{"broken", queue}, {"gone", queue}, {"good", good}}) {
    Message message = order();
    message.properties.message_id = name;
    fail(to, message);
  }
  wait_state(good, "scheduled");
  ASSERT_TRUE(eventually([&] { return current(queue).size() == 2; }, kBound));
  const std::string bodies = "`" + db.name() + "`.rung_bodies";
  const std::string ids =
      " WHERE task_id = (SELECT id FROM `" + db.name() + "`.rung_tasks WHERE message_id = ";
  db.exec("UPDATE " + bodies + " SET properties = '['" + ids + "'broken')");
  db.exec("DELETE FROM " + bodies + ids + "'gone')");
  EXPECT_EQ(delivery(good).message.properties.message_id, "good");
  ASSERT_TRUE(eventually(
      [&] {
        const auto found = current(queue);
        return std::ranges::all_of(found, [](const Row& row) { return row.at("state") == "parked"; });
      },
      kBound));
  for (const Row& row : current(queue)) {
    EXPECT_THAT(row.at("last_error"), HasSubstr(row.at("message_id") == "broken"
                                                    ? "its row in rung_bodies cannot be read: properties: "
                                                    : "its body is not in the database"));
  }
  // No copy of them is owed any more.
  EXPECT_TRUE(eventually(
      [&] {
        return db.value("SELECT COUNT(*) FROM `" + db.name() +
                        "`.rung_tasks WHERE state = 'parked' AND next_at IS NOT NULL") == "0";
      },
      kBound));
  EXPECT_EQ(amqp.depth(parked()), 0U);
}

}  // namespace
}  // namespace rung::test
