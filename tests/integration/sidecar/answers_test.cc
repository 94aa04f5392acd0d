// The end of a climb: reported or presumed success, reported failure, silence, and late results.
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
};

TEST_F(Answers, ReportedSuccess) {
  config.queue("default", "{ success: { reported_within: 1h } }");
  start();
  const std::string queue = attached();
  const Received back = under_way(queue);
  wait_state(queue, "awaiting");
  amqp.ack(back);
  report(back, "succeeded");
  Row row = wait_state(queue, "succeeded");
  EXPECT_EQ(row["finished_by"], "reported");
  EXPECT_NE(row["finished_at"], "NULL");
  auto attempts = history(retry_id(back));
  ASSERT_EQ(attempts.size(), 1U);
  EXPECT_EQ(attempts[0]["outcome"], "succeeded");
  EXPECT_NE(attempts[0]["outcome_at"], "NULL");
  EXPECT_EQ(attempts[0]["node"], config.node);
  expect_nothing(queue);
}

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

TEST_F(Answers, LateFailureAfterPresumedSuccessOpensTheSameRow) {
  config.queue("default", "{ success: { presumed_after: 300ms } }");
  start();
  const std::string queue = attached();
  const Received slow = under_way(queue);
  wait_state(queue, "succeeded");
  amqp.reject(slow);  // it had been working on it all the time
  const Received again = delivery(queue);
  EXPECT_EQ(retry_id(again), retry_id(slow));
  EXPECT_EQ(int_header(again.message, "retry-attempt"), 2);
  EXPECT_EQ(int_header(again.message, "retry-level"), 2);
  auto attempts = history(retry_id(slow));
  ASSERT_GE(attempts.size(), 1U);
  EXPECT_EQ(attempts[0]["outcome"], "failed");
  auto now = current(queue);
  ASSERT_EQ(now.size(), 1U) << "a second row for the same message";
  amqp.ack(again);
  report(again, "succeeded");
  EXPECT_EQ(wait_state(queue, "succeeded")["finished_by"], "reported");
}

// A report after a presumed success: now the task records who reported it.
TEST_F(Answers, ReportAfterPresumedSuccessIsKept) {
  config.queue("default", "{ success: { presumed_after: 300ms } }");
  start();
  const std::string queue = attached();
  const Received slow = under_way(queue);
  EXPECT_EQ(wait_state(queue, "succeeded")["finished_by"], "presumed");
  amqp.ack(slow);
  report(slow, "succeeded");
  EXPECT_TRUE(eventually([&] { return current(queue)[0]["finished_by"] == "reported"; }));
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

TEST_F(Answers, LateSuccessAfterATimeOutEndsTheClimb) {
  config.ladder = "[200ms, 20s]";
  config.queue("default", "{ success: { reported_within: 300ms } }");
  start();
  const std::string queue = attached();
  const Received first = under_way(queue);
  amqp.ack(first);
  ASSERT_TRUE(eventually([&] {
    auto attempts = history(retry_id(first));
    return attempts.size() == 1 && attempts[0]["outcome"] == "timed_out";
  }));
  wait_state(queue, "scheduled");
  report(first, "succeeded");
  EXPECT_EQ(wait_state(queue, "succeeded")["finished_by"], "reported");
  EXPECT_EQ(history(retry_id(first))[0]["outcome"], "succeeded");
}

TEST_F(Answers, LateSuccessTakesAMessageOutOfTheParkingLot) {
  config.ladder = "[200ms]";
  config.queue("default", "{ success: { reported_within: 300ms } }");
  start();
  const std::string queue = attached();
  const Received only = under_way(queue);
  amqp.ack(only);
  wait_state(queue, "parked");
  report(only, "succeeded");
  wait_state(queue, "succeeded");
}

// A repeated result, or a result of an attempt that has ended: nothing changes, nothing is counted twice.
TEST_F(Answers, RepeatedAndOutdatedWordsChangeNothing) {
  config.ladder = "[200ms, 400ms, 20s]";
  start();
  const std::string queue = attached();
  const Received first = under_way(queue);
  amqp.ack(first);
  report(first, "failed", "one");
  report(first, "failed", "one");
  const Received second = delivery(queue);
  EXPECT_EQ(int_header(second.message, "retry-attempt"), 2);
  report(first, "failed", "outdated");  // attempt 1 is over, attempt 2 is under way
  amqp.ack(second);
  report(second, "failed", "two");
  ASSERT_TRUE(eventually([&] { return current(queue)[0]["level"] == "3"; }));
  auto attempts = history(retry_id(first));
  ASSERT_EQ(attempts.size(), 2U);
  EXPECT_EQ(attempts[1]["error"], "two");
  EXPECT_EQ(current(queue)[0]["state"], "scheduled");
  EXPECT_EQ(current(queue)[0]["attempt"], "2");
}

// A consumer that does both, reports and rejects: one failure.
TEST_F(Answers, ReportedAndRejectedIsOneFailure) {
  config.ladder = "[200ms, 400ms, 20s]";
  start();
  const std::string queue = attached();
  const Received first = under_way(queue);
  report(first, "failed", "said so");
  amqp.reject(first);
  const Received second = delivery(queue);
  EXPECT_EQ(int_header(second.message, "retry-attempt"), 2);
  amqp.ack(second);
  report(second, "succeeded");
  wait_state(queue, "succeeded");
  EXPECT_EQ(current(queue).size(), 1U);
  EXPECT_EQ(history(retry_id(first)).size(), 2U);
}

// A consumer copies the headers of what it got into another message, and that one fails: it is a task of its
// own, and the one whose retry-id it carries goes on.
TEST_F(Answers, AnothersRetryIdIsNoFailureOfThatTask) {
  start();
  const std::string queue = attached(), other = attached("other");
  const Received back = under_way(queue);
  Message copy = back.message;
  copy.body = "what was made of it";
  amqp.ack(back);
  fail(other, copy);  // the x-death says another queue
  copy.properties.message_id = "of its own";
  fail(queue, copy);  // the same queue, another message-id
  const Received from_other = delivery(other), from_same = delivery(queue);
  for (const Received& received : {from_other, from_same}) {
    EXPECT_EQ(received.message.body, copy.body);
    EXPECT_NE(retry_id(received), retry_id(back));
    EXPECT_EQ(int_header(received.message, "retry-attempt"), 1);
  }
  report(back, "succeeded");
  EXPECT_EQ(wait_id(retry_id(back), "succeeded")["attempt"], "1");
}

TEST_F(Answers, WordsThatMeanNothingDoNotStopTheFlow) {
  start();
  const std::string queue = attached();
  std::vector<Message> odd(9);
  odd[1].headers = Table{};
  odd[2].headers = Table{{"retry-id", "123456789"}, {"retry-result", "succeeded"}};
  odd[3].headers = Table{{"retry-id", "nonsense"}, {"retry-result", "failed"}};
  odd[4].headers = Table{{"retry-id", std::int64_t{-4}}, {"retry-result", "failed"}};
  odd[5].headers = Table{{"retry-id", Array{}}, {"retry-result", Table{}}};
  odd[6].headers = Table{{"retry-result", "succeeded"}};
  odd[7].headers =
      Table{{"retry-id", std::string("\xff\x00", 2)}, {"retry-result", std::string("\xfe\x00", 2)}};
  odd[8].headers = Table{{"retry-id", "99999999999999999999999999"}, {"retry-result", "succeeded"}};
  for (const Message& word : odd) {
    ASSERT_TRUE(amqp.publish(results(), "", word));
    const Received back = under_way(queue);
    amqp.ack(back);
    Message maybe;
    maybe.headers = Table{{"retry-id", retry_id(back)}, {"retry-result", "maybe"}};
    ASSERT_TRUE(amqp.publish(results(), "", maybe));
    report(back, "succeeded");
    wait_id(retry_id(back), "succeeded");
  }
  ASSERT_TRUE(eventually([&] { return amqp.depth(results()) == 0U; }));
}

}  // namespace
}  // namespace rung::test
