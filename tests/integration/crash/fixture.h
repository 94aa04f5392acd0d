// The fixture of the crash tests: a sidecar that is killed at a failpoint and restarted, and the checks
// afterwards. Thread: one test.
#pragma once

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <ostream>
#include <set>
#include <string>

#include "src/core/base/failpoint.h"
#include "tests/support/sidecar.h"

namespace rung::test {

// The value that kills the next process when it reaches the failpoint `name` for the n-th time: "NAME" or
// "NAME:n".
class Armed {
 public:
  explicit Armed(const std::string& point) { setenv("RUNG_FAILPOINT", point.c_str(), 1); }
  ~Armed() { unsetenv("RUNG_FAILPOINT"); }
  Armed(const Armed&) = delete;
  Armed& operator=(const Armed&) = delete;
};

inline constexpr int kKilled = 128 + SIGKILL;

// "claim.before_commit:2" as part of a test's name.
inline std::string point_name(const ::testing::TestParamInfo<const char*>& point) {
  std::string name = point.param;
  for (char& c : name) {
    if (c == '.' || c == ':') c = '_';
  }
  return name;
}

class Crash : public SidecarTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(kFailpoints) << "built without RUNG_FAILPOINTS";
    // Far longer than any test waits: a restarted node with the same name continues at once.
    config.more = "lease: 10m\ndrain: 10m\n";
    config.ladder = "[300ms, 400ms]";
  }

  void start_armed() {
    sidecar_ = std::make_unique<Sidecar>(config);
    const Armed armed(GetParam());
    rung().start();
  }

  // Waits until the process was killed at the failpoint; calls `until_then` meanwhile.
  void die(const std::function<void()>& until_then = {}) {
    ASSERT_TRUE(eventually([&] {
      if (until_then) until_then();
      return !rung().running();
    })) << "the point "
        << GetParam() << " was never reached\n"
        << rung().log_tail();
    EXPECT_NE(rung().log().find("failpoint "), std::string::npos) << rung().log_tail();
  }

  void restart() {
    rung().start();
    ASSERT_TRUE(rung().wait_ready());
  }

  // A consumer of retried messages, which follows a script, also for repeated deliveries. Character n of the
  // script is its answer to attempt n: 'r' rejects, 's' reports success, 'f' reports failure, '.' acks and
  // reports nothing.
  void consume(AmqpProbe& consumer, const std::string& script) {
    while (auto received = consumer.next(Ms{20})) {
      const auto attempt = int_header(received->message, "retry-attempt");
      ids_.insert(retry_id(*received));
      ++deliveries_[attempt];
      EXPECT_EQ(received->message.body, body_);
      ASSERT_GE(attempt, 1);
      ASSERT_LE(attempt, static_cast<std::int64_t>(script.size())) << "more attempts than there should be";
      const char word = script[static_cast<std::size_t>(attempt) - 1];
      if (word == 'r') {
        consumer.reject(*received);
        continue;
      }
      if (word != '.') report(*received, word == 's' ? "succeeded" : "failed", "as the script says");
      consumer.ack(*received);
    }
  }

  // Continues the script until the queue's only row has that state.
  void consume_until(AmqpProbe& consumer, const std::string& queue, const std::string& script,
                     const std::string& state) {
    EXPECT_TRUE(eventually([&] {
      consume(consumer, script);
      const auto all = current(queue);
      return all.size() == 1 && all[0].at("state") == state;
    })) << state
        << " was not reached\n"
        << rung().log_tail();
  }

  // A message fails, and reaches `state` by `script`; on the way the process is killed once, at the
  // failpoint, and restarted.
  void climb(const std::string& script, const std::string& state) {
    start_armed();
    const std::string queue = climbing();
    publish_failed(queue);
    AmqpProbe consumer;
    consumer.consume(queue);
    die([&] { consume(consumer, script); });
    restart();
    consume_until(consumer, queue, script, state);
    expect_whole(queue, script, state);
  }

  std::string climbing() {
    const std::string queue = attached();
    queue_ = queue;
    return queue;
  }

  void publish_failed(const std::string& queue, std::string body = unique_name("body")) {
    body_ = std::move(body);
    Message message;
    message.properties.message_id = unique_name("m");
    message.body = body_;
    message.headers = Table{{"retry-queue", queue}};
    // The sidecar declares the topology: it may be killed before or after that.
    ASSERT_TRUE(
        eventually([&] { return amqp.exchange_exists(failed()) && amqp.publish(failed(), "", message); }));
  }

  // Publishes to an exchange of `delays:` (config.more), whose messages go to the queue through another one.
  void publish_delayed(const std::string& exchange, const std::string& delay_ms) {
    body_ = unique_name("body");
    Message message;
    message.properties.message_id = unique_name("m");
    message.properties.delivery_mode = std::uint8_t{2};
    message.body = body_;
    message.headers = Table{{"x-delay", delay_ms}};
    ASSERT_TRUE(eventually(
        [&] { return amqp.exchange_exists(exchange) && amqp.publish(exchange, "created", message); }));
  }

  // Checks that there is one row, each attempt from 1 on exists once, and Rung's own queues are empty.
  void expect_whole(const std::string& queue, const std::string& script, const std::string& state) {
    const auto all = current(queue);
    ASSERT_EQ(all.size(), 1U) << "one message, one row";
    EXPECT_EQ(all[0].at("state"), state);
    const auto attempts = history(all[0].at("retry_id"));
    EXPECT_EQ(attempts.size(), script.size());
    EXPECT_EQ(all[0].at("attempt"), std::to_string(script.size()));
    for (std::size_t i = 0; i < attempts.size(); ++i) {
      EXPECT_EQ(attempts[i].at("attempt"), std::to_string(i + 1));
      EXPECT_NE(attempts[i].at("outcome"), "pending");
    }
    EXPECT_EQ(ids_.size(), 1U) << "a repeat under another retry-id";
    EXPECT_EQ(deliveries_.size(), script.size()) << "an attempt that nobody saw";
    expect_nothing_left();
  }

  void expect_nothing_left() {
    const std::string inlets[] = {failed(), results(), config.prefix + ".delay"};
    const auto left = [&] {
      return std::ranges::any_of(inlets, [&](const std::string& inlet) { return amqp.depth(inlet) > 0; });
    };
    rung().signal(SIGTERM);
    EXPECT_EQ(rung().wait_exit(), 0);
    if (left()) {  // delivered just as the process ended: the broker keeps it for the next one
      restart();
      EXPECT_TRUE(eventually([&] { return !left(); }));
      // Delivered does not mean received: once a later message has its row, it was, and a stop completes it.
      const std::string later = unique_name("later");
      Message message;
      message.headers = Table{{"retry-queue", later}};
      ASSERT_TRUE(amqp.publish(failed(), "", message));
      EXPECT_TRUE(eventually([&] { return current(later).size() == 1; }));
      rung().signal(SIGTERM);
      EXPECT_EQ(rung().wait_exit(), 0);
    }
    EXPECT_EQ(amqp.depth(failed()), 0U) << "a failed message was never acked";
    EXPECT_EQ(amqp.depth(results()), 0U) << "a result was never acked";
    EXPECT_EQ(amqp.depth(config.prefix + ".delay"), 0U) << "a delayed message was never acked";
  }

  std::string queue_, body_;
  std::set<std::string> ids_;
  std::map<std::int64_t, int> deliveries_;  // by attempt
};

}  // namespace rung::test
