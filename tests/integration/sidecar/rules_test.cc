// Rules by kind of failure, seen from outside. What each rule does: FailureRules, RuledFailure and GiveUp in
// tests/unit/core.
#include <csignal>

#include "tests/integration/sidecar/messages.h"

namespace rung::test {
namespace {

class Rules : public SidecarTest {
 protected:
  // A queue with `keys`, and the lists of rules, a YAML line each: "list: [{ ... }]".
  std::string queue_with(const std::string& keys, const std::vector<std::string>& lists = {}) {
    const std::string queue = new_name();
    config.ladder = "[200ms, 400ms]";
    if (!lists.empty()) config.more += "rules:\n";
    for (const std::string& list : lists) config.more += "  " + list + "\n";
    config.queue(queue, keys);
    start();
    declare_attached(queue);
    return queue;
  }

  // Publishes a failed message as a consumer does that says why.
  void fail_saying(const std::string& queue, Message message, const std::string& error,
                   const std::string& type = "") {
    message.headers->emplace_back("retry-queue", queue);
    message.headers->emplace_back("retry-error", error);
    if (!type.empty()) message.headers->emplace_back("retry-error-type", type);
    ASSERT_TRUE(amqp.publish(failed(), "", message));
  }
  // The same with one of our deliveries.
  void fail_again(const Received& back, const std::string& queue, const std::string& error,
                  const std::string& type = "") {
    fail_saying(queue, back.message, error, type);
    amqp.ack(back);
  }
};

TEST_F(Rules, ASnoozeCostsNoLevelAndIsInTheHistory) {
  const std::string queue =
      queue_with("{ rules: list }", {"list: [{ when: { error: \"/HTTP 429/\" }, then: { snooze: 300ms } }]"});
  const Message message = order();
  fail_saying(queue, message, "HTTP 429 from the bank");
  Received back;
  // More often than the ladder has levels.
  for (int attempt = 1; attempt <= 4; ++attempt) {
    back = delivery(queue);
    EXPECT_EQ(back.message.body, message.body);
    EXPECT_EQ(int_header(back.message, "retry-attempt"), attempt);
    EXPECT_EQ(int_header(back.message, "retry-level"), 0);
    if (attempt < 4) fail_again(back, queue, "HTTP 429 again");
  }
  Row row = wait_state(queue, "awaiting");
  EXPECT_EQ(row["rule"], "list[1]");
  EXPECT_EQ(row["uncounted_attempts"], "3");
  fail_again(back, queue, "boom");
  back = delivery(queue);
  EXPECT_EQ(int_header(back.message, "retry-level"), 1) << "now the ladder begins";
  report(back, "succeeded");
  row = wait_state(queue, "succeeded");
  EXPECT_EQ(row["rule"], "") << "the last failure had none";
  auto attempts = history(row["retry_id"]);
  ASSERT_EQ(attempts.size(), 5U);
  for (std::size_t i = 0; i < attempts.size(); ++i)
    EXPECT_EQ(attempts[i]["rule"], i < 3 ? "list[1]" : "") << described(attempts[i]);
  const Ran shown = command("history " + row["retry_id"]);
  EXPECT_NE(shown.out.find("list[1]"), std::string::npos) << shown.out;
}

TEST_F(Rules, ReloadedOnSighup) {
  const std::string queue = queue_with("{ rules: list }", {"list: [{ when: { type: A }, then: park }]"});
  fail_saying(queue, order("1"), "x", "B");
  report(delivery(queue), "succeeded");
  wait_state(queue, "succeeded");
  std::string text = config.text();
  text.replace(text.find("type: A"), 7, "type: B");
  rung().rewrite(text);
  rung().signal(SIGHUP);
  ASSERT_TRUE(rung().logged("reloaded"));
  fail_saying(queue, order("2"), "x", "B");
  EXPECT_TRUE(eventually(
      [&] {
        return rows("SELECT 1 FROM retry_current WHERE rule = 'list[1]' AND state = 'parked'").size() == 1;
      },
      kBound));
}

}  // namespace
}  // namespace rung::test
