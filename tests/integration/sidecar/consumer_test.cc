// A consumer that publishes to <prefix>.failed itself, to say why, when, and how often.
#include "tests/integration/sidecar/messages.h"

namespace rung::test {
namespace {

class Consumer : public SidecarTest {
 protected:
  // As a consumer does: the message, its headers forwarded, and its word about it.
  void say_failed(const Message& message, const Table& words) {
    Message out = message;
    if (!out.headers) out.headers.emplace();
    for (const auto& word : words) out.headers->push_back(word);
    ASSERT_TRUE(amqp.publish(failed(), "", out));
  }
  // When the one task of the queue is due, in ms after `since`.
  std::int64_t due_after(const std::string& queue, std::int64_t since) {
    return ms_of(wait_state(queue, "scheduled")["next_due_at"]) - since;
  }
};

TEST_F(Consumer, SaysWhyAndForwardsItsHeaders) {
  start();
  const std::string queue = new_name("plain");
  amqp.declare(queue);  // no dead-lettering at all
  const Message message = everything();
  say_failed(message, {{"retry-queue", queue}, {"retry-error", "no stock"}, {"retry-error-type", "Stock"}});
  const Received first = delivery(queue);
  expect_same(message, first.message);
  EXPECT_EQ(current(queue)[0]["last_error"], "no stock");
  amqp.ack(first);
  say_failed(first.message, {{"retry-queue", queue}, {"retry-error", "still none"}});
  const Received second = delivery(queue);
  expect_same(message, second.message);
  EXPECT_EQ(retry_id(second), retry_id(first));
  EXPECT_EQ(int_header(second.message, "retry-attempt"), 2);
  ASSERT_EQ(current(queue).size(), 1U);
  EXPECT_EQ(current(queue)[0]["last_error"], "still none");
  EXPECT_EQ(history(retry_id(first))[0]["error"], "still none");
}

// A retry's retry-id says already where it belongs.
TEST_F(Consumer, NeedsNoQueueForARetry) {
  start();
  const std::string queue = attached();
  fail(queue, order());
  const Received first = delivery(queue);
  amqp.ack(first);
  say_failed(first.message, {{"retry-error", "again"}});
  const Received second = delivery(queue);
  EXPECT_EQ(int_header(second.message, "retry-attempt"), 2);
  EXPECT_EQ(retry_id(second), retry_id(first));
}

TEST_F(Consumer, RetryAfterShorter) {
  config.ladder = "[1h, 2h]";
  start();
  const std::string queue = attached();
  const std::int64_t now = wall_ms();
  say_failed(order(), {{"retry-queue", queue}, {"retry-after", "300ms"}});
  const Received back = delivery(queue);
  EXPECT_GE(wall_ms(), now + 300);
  EXPECT_EQ(int_header(back.message, "retry-level"), 1);
}

TEST_F(Consumer, RetryAfterLonger) {
  config.ladder = "[100ms, 1h]";
  start();
  const std::string queue = attached();
  const std::int64_t now = wall_ms();
  say_failed(order(), {{"retry-queue", queue}, {"retry-after", "30m"}});
  const std::int64_t due = due_after(queue, now);
  EXPECT_GE(due, 30 * 60'000);
  EXPECT_LE(due, 30 * 60'000 + kBound.count());
}

TEST_F(Consumer, RetryAfterIsCappedByTheHighest) {
  config.ladder = "[100ms, 20m]";
  start();
  const std::string queue = attached();
  const std::int64_t now = wall_ms();
  say_failed(order(), {{"retry-queue", queue}, {"retry-after", "9d"}});
  const std::int64_t due = due_after(queue, now);
  EXPECT_GE(due, 20 * 60'000);
  EXPECT_LE(due, 20 * 60'000 + kBound.count());
}

// It stands for one step: the level after it has its own delay again.
TEST_F(Consumer, RetryAfterHoldsOnce) {
  config.ladder = "[400ms, 800ms, 1h]";
  start();
  const std::string queue = attached();
  say_failed(order(), {{"retry-queue", queue}, {"retry-after", "100ms"}});
  const Received first = delivery(queue);
  const std::int64_t now = wall_ms();
  amqp.reject(first);
  const Received second = delivery(queue);
  EXPECT_GE(wall_ms(), now + 800);
  EXPECT_EQ(int_header(second.message, "retry-level"), 2);
}

TEST_F(Consumer, RetryAfterWithAResult) {
  config.ladder = "[100ms, 1h, 2h]";
  start();
  const std::string queue = attached();
  fail(queue, order());
  const Received first = delivery(queue);
  amqp.ack(first);
  Message word;
  word.headers = Table{{"retry-id", retry_id(first)},
                       {"retry-token", text_header(first.message, "retry-token")},
                       {"retry-result", "failed"},
                       {"retry-error", "busy"},
                       {"retry-after", "200ms"}};
  ASSERT_TRUE(amqp.publish(results(), "", word));
  EXPECT_EQ(int_header(delivery(queue).message, "retry-attempt"), 2);
}

TEST_F(Consumer, RetryLadder) {
  config.ladder = "[1h]";
  config.ladders = "  quickly: [100ms, 200ms]\n";
  start();
  const std::string queue = attached();
  say_failed(order(), {{"retry-queue", queue}, {"retry-ladder", "quickly"}});
  for (int attempt = 1; attempt <= 2; ++attempt) {  // it is kept for the levels after
    const Received back = delivery(queue);
    EXPECT_EQ(text_header(back.message, "retry-ladder"), "quickly");
    EXPECT_EQ(int_header(back.message, "retry-levels"), 2);
    EXPECT_EQ(int_header(back.message, "retry-level"), attempt);
    amqp.reject(back);
  }
  EXPECT_EQ(wait_state(queue, "parked")["ladder"], "quickly");
}

TEST_F(Consumer, UnknownRetryLadderTakesTheQueues) {
  config.ladder = "[100ms]";
  start();
  const std::string queue = attached();
  say_failed(order(), {{"retry-queue", queue}, {"retry-ladder", "no such"}});
  EXPECT_EQ(text_header(delivery(queue).message, "retry-ladder"), "default");
}

TEST_F(Consumer, RetryMaxAttempts) {
  config.ladder = "[100ms, 100ms, 100ms, 100ms]";
  start();
  const std::string queue = attached();
  say_failed(order(), {{"retry-queue", queue}, {"retry-max-attempts", std::int64_t{2}}});
  for (int attempt = 1; attempt <= 2; ++attempt) amqp.reject(delivery(queue));
  EXPECT_EQ(wait_state(queue, "parked")["attempt"], "2");
}

TEST_F(Consumer, RetryNeverParksAtOnce) {
  start();
  for (const Value& never : {Value{true}, Value{"true"}, Value{std::int64_t{1}}}) {
    const std::string queue = attached();
    say_failed(order(), {{"retry-queue", queue}, {"retry-never", never}, {"retry-error", "broken order"}});
    Row row = wait_state(queue, "parked");
    EXPECT_EQ(row["attempt"], "0");
    EXPECT_NE(row["last_error"].find("broken order"), std::string::npos) << row["last_error"];
    EXPECT_TRUE(history(row["retry_id"]).empty());
  }
}

TEST_F(Consumer, RetryNeverOnARetryParksIt) {
  start();
  const std::string queue = attached();
  fail(queue, order());
  const Received first = delivery(queue);
  amqp.ack(first);
  say_failed(first.message, {{"retry-never", true}, {"retry-error", "hopeless"}});
  Row row = wait_state(queue, "parked");
  EXPECT_EQ(row["retry_id"], retry_id(first));
  EXPECT_EQ(row["attempt"], "1");
  EXPECT_NE(row["last_error"].find("hopeless"), std::string::npos) << row["last_error"];
}

TEST_F(Consumer, RetryNeverFalseIsNothing) {
  config.ladder = "[100ms]";
  start();
  const std::string queue = attached();
  say_failed(order(), {{"retry-queue", queue}, {"retry-never", false}});
  EXPECT_EQ(int_header(delivery(queue).message, "retry-attempt"), 1);
}

}  // namespace
}  // namespace rung::test
