// What a consumer says, and its silence, on the real servers. What the state machine makes of each word:
// MachineTable and Failed in tests/unit/core; what the headers may hold: ReadFailure and ReadResult there.
#include "tests/integration/sidecar/messages.h"

namespace rung::test {
namespace {

class Answers : public SidecarTest {
 protected:
  // One message that failed once and came back: what the consumer holds then.
  Received under_way(const std::string& queue) {
    fail(queue, order());
    return delivery(queue);
  }
  // As a consumer publishes a failure: the message with the headers that it came with, and its own words.
  void say_failed(Message message, const Table& words) {
    if (!message.headers) message.headers.emplace();
    for (const auto& word : words) message.headers->push_back(word);
    ASSERT_TRUE(amqp.publish(failed(), "", message));
  }
};

TEST_F(Answers, ReportedFailureTakesTheNextLevel) {
  start();
  const std::string queue = attached();
  const Received first = under_way(queue);
  amqp.ack(first);
  report(first, "failed", "no stock \xe2\x82\xac 'quoted'");
  const Received second = delivery(queue);
  EXPECT_EQ(retry_id(second), retry_id(first));
  EXPECT_EQ(int_header(second.message, "retry-attempt"), 2);
  EXPECT_EQ(int_header(second.message, "retry-level"), 2);
  auto attempts = history(retry_id(first));
  ASSERT_GE(attempts.size(), 1U);
  EXPECT_EQ(attempts[0]["outcome"], "failed");
  EXPECT_EQ(attempts[0]["error"], "no stock \xe2\x82\xac 'quoted'");
  EXPECT_EQ(current(queue)[0]["last_error"], "no stock \xe2\x82\xac 'quoted'");
}

TEST_F(Answers, SilenceIsPresumedSuccessAndLabelledSo) {
  config.queue("default", "{ success: { presumed_after: 600ms } }");
  start();
  const std::string queue = attached();
  const Received back = under_way(queue);
  amqp.ack(back);
  Row row = wait_state(queue, "succeeded");
  EXPECT_EQ(row["finished_by"], "presumed");
  auto attempts = history(retry_id(back));
  ASSERT_EQ(attempts.size(), 1U);
  EXPECT_EQ(attempts[0]["outcome"], "succeeded");
  EXPECT_GE(ms_of(row["finished_at"]) - ms_of(attempts[0]["published_at"]), 600);
}

TEST_F(Answers, SilenceIsFailureWhereReportsAreDue) {
  config.ladder = "[200ms, 300ms]";
  config.queue("default", "{ success: { reported_within: 500ms } }");
  start();
  const std::string queue = attached();
  const Received first = under_way(queue);
  amqp.ack(first);
  const Received second = delivery(queue);
  EXPECT_EQ(retry_id(second), retry_id(first));
  EXPECT_EQ(int_header(second.message, "retry-attempt"), 2);
  auto attempts = history(retry_id(first));
  ASSERT_GE(attempts.size(), 1U);
  EXPECT_EQ(attempts[0]["outcome"], "timed_out");
  EXPECT_GE(ms_of(attempts[0]["outcome_at"]) - ms_of(attempts[0]["published_at"]), 500);
  amqp.ack(second);
  Row row = wait_state(queue, "parked");
  attempts = history(retry_id(first));
  ASSERT_EQ(attempts.size(), 2U);
  EXPECT_EQ(attempts[1]["outcome"], "timed_out");
  EXPECT_NE(row["last_error"], "");
}

TEST_F(Answers, SaysWhyAndForwardsItsHeaders) {
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

}  // namespace
}  // namespace rung::test
