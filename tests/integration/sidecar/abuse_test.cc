// Malformed and hostile messages: their size, loops, ids and attempts, damaged rows.
#include "tests/integration/sidecar/abuse.h"

#include <gmock/gmock.h>

namespace rung::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// What a consumer makes of the header that it was given.
void with_attempt(Message& message, const Value& attempt) {
  for (auto& [name, value] : *message.headers) {
    if (name == "retry-attempt") value = attempt;
  }
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
