// Rules by kind of failure, and give_up: what a user configures, seen from outside.
#include <csignal>
#include <thread>

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
  // The one task that the rule decided about.
  Row decided_by(const std::string& rule) {
    for (const auto until = wall_ms() + kBound.count(); wall_ms() < until;) {
      // Not in WHERE: the schema may still be in the making.
      for (Row& row : rows("SELECT * FROM retry_current")) {
        if (row["rule"] == rule) return row;
      }
      std::this_thread::sleep_for(Ms{20});
    }
    ADD_FAILURE() << "nothing was decided by " << rule;
    return {};
  }
  Ran run(const std::string& words) {
    return run_shell(rung_program() + " " + words + " -c " + rung().config_path());
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
  const Ran shown = run("history " + row["retry_id"]);
  EXPECT_NE(shown.out.find("list[1]"), std::string::npos) << shown.out;
}

TEST_F(Rules, ParkAndDiscardOnArrivalByTypeHeaderAndTag) {
  const std::string queue = queue_with(
      "{ rules: list }",
      {"list:", "  - { when: { type: [ValidationError, \"*.JsonException\"] }, then: park }",
       "  - { when: { header: { tier: bronze } }, then: discard }",
       "  - { type_from: \"/^([A-Za-z.]+Error):/\", when: { type: SchemaError }, then: discard }"});
  fail_saying(queue, order("1"), "bad", "System.Text.Json.JsonException");
  Row row = decided_by("list[1]");
  EXPECT_EQ(row["state"], "parked");
  EXPECT_EQ(row["attempt"], "0");
  Message bronze = order("2");
  bronze.headers->emplace_back("tier", "bronze");
  fail_saying(queue, bronze, "bad");
  row = decided_by("list[2]");
  EXPECT_EQ(row["state"], "discarded");
  EXPECT_NE(row["finished_at"], "NULL");
  fail_saying(queue, order("3"), "SchemaError: no such field");
  row = decided_by("list[3]");
  EXPECT_EQ(row["state"], "discarded");
  EXPECT_EQ(row["error_type"], "SchemaError") << "found in the error text";
  expect_nothing(queue);
}

// The header is read from the row: the second failure comes without the message.
TEST_F(Rules, AHeaderCountsAtEveryFailure) {
  const std::string queue = queue_with(
      "{ rules: list }", {"list: [{ when: { header: { tier: gold }, attempts_above: 0 }, then: park }]"});
  Message gold = order();
  gold.headers->emplace_back("tier", "gold");
  fail_saying(queue, gold, "boom");
  const Received back = delivery(queue);
  EXPECT_EQ(text_header(back.message, "tier"), "gold");
  report(back, "failed", "boom again");
  EXPECT_EQ(wait_state(queue, "parked")["rule"], "list[1]");
}

TEST_F(Rules, RetryInAnotherQueue) {
  const std::string slow = new_name("slow");
  const std::string queue = queue_with(
      "{ rules: list }", {"list: [{ when: { type: TimeoutError }, then: { to: " + yaml(slow) + " } }]"});
  declare_attached(slow);
  fail_saying(queue, order(), "no answer", "TimeoutError");
  const Received back = delivery(slow);
  EXPECT_EQ(int_header(back.message, "retry-level"), 1);
  report(back, "succeeded");
  EXPECT_EQ(wait_state(slow, "succeeded")["rule"], "list[1]");
}

TEST_F(Rules, GiveUpAfterAttempts) {
  const std::string queue = queue_with("{ give_up: { attempts: 1 } }");
  fail_saying(queue, order(), "boom");
  amqp.reject(delivery(queue));
  Row row = wait_state(queue, "parked");
  EXPECT_EQ(row["rule"], "give_up");
  EXPECT_NE(row["last_error"].find("gave up: 1 attempts failed"), std::string::npos) << row["last_error"];
  // A person sends it back: it has all its attempts again.
  ASSERT_EQ(run("retry " + row["retry_id"]).code, 0);
  report(delivery(queue), "succeeded");
  wait_state(queue, "succeeded");
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
  EXPECT_EQ(decided_by("list[1]")["state"], "parked");
}

}  // namespace
}  // namespace rung::test
