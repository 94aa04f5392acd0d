// Targets of retries: queues that are not there, queues of any name, routing keys. (Line breaks
// in a name are not legal: RabbitMQ takes them out.)
#include <cstdlib>

#include "tests/integration/sidecar/messages.h"

namespace rung::test {
namespace {

using Routes = SidecarTest;

// A queue bound to a topic exchange: the retry has the original routing key, and nobody else gets a copy.
TEST_F(Routes, RetryKeepsItsRoutingKey) {
  config.ladder = "[200ms, 1h]";
  start();
  const std::string queue = attached(), other = new_name("other"), key = new_name("key");
  const std::string exchange = unique_name("topic");
  amqp.declare(other);
  amqp.declare(key);  // a queue whose name is the routing key
  amqp.declare_exchange(exchange, "topic");
  amqp.bind(queue, exchange, "#");
  amqp.bind(other, exchange, "#");
  const Message message = order();
  ASSERT_TRUE(amqp.publish(exchange, key, message));
  const Received first = delivery(queue);
  EXPECT_EQ(first.routing_key, key);
  amqp.reject(first);
  for (int attempt = 1; attempt <= 2; ++attempt) {
    const Received back = delivery(queue);
    EXPECT_EQ(back.routing_key, key);
    EXPECT_EQ(int_header(back.message, "retry-attempt"), attempt);
    EXPECT_EQ(text_header(back.message, "retry-origin-exchange"), exchange);
    EXPECT_EQ(text_header(back.message, "retry-origin-routing-key"), key);
    EXPECT_EQ(text_header(back.message, "retry-reason"), "rejected");
    EXPECT_FALSE(has_header(back.message, "BCC"));
    expect_same(message, back.message);
    const std::vector<Row> row = current(queue);
    ASSERT_EQ(row.size(), 1U);
    EXPECT_EQ(row[0].at("exchange"), exchange);
    EXPECT_EQ(row[0].at("routing_key"), key);
    // The binding goes with the queue, and is made again.
    if (attempt == 1) {
      amqp.reject(back);
      ASSERT_TRUE(eventually([&] { return current(queue)[0]["level"] == "2"; }));
      amqp.remove(queue);
      declare_attached(queue);
      ASSERT_EQ(command("fire --queue " + queue + " --yes").code, 0);
    } else {
      amqp.ack(back);
    }
  }
  EXPECT_EQ(amqp.depth(other), 1U) << "only the original";
  EXPECT_EQ(amqp.depth(key), 0U);
  EXPECT_TRUE(rows("SELECT * FROM retry_history WHERE outcome = 'returned'").empty());
  amqp.remove_exchange(exchange);
}

// A routing key that looks like a binding of ours must not reach that other queue.
TEST_F(Routes, RoutingKeyThatLooksLikeABindingGetsNoCopy) {
  start();
  const std::string queue = attached(), victim = attached("victim"), exchange = unique_name("topic");
  amqp.declare_exchange(exchange, "topic");
  amqp.bind(queue, exchange, "#");
  amqp.bind(victim, exchange, "for.victim");
  ASSERT_TRUE(amqp.publish(exchange, "for.victim", order()));
  amqp.ack(delivery(queue));
  amqp.reject(delivery(victim));
  amqp.ack(delivery(victim));  // its binding stands
  ASSERT_TRUE(amqp.publish(exchange, "queue:" + victim, order()));
  amqp.reject(delivery(queue));
  const Received back = delivery(queue);
  EXPECT_EQ(back.routing_key, queue);
  amqp.ack(back);
  EXPECT_EQ(amqp.depth(victim), 0U);
  amqp.remove_exchange(exchange);
}

TEST_F(Routes, QueueNamesWithEveryOddCharacter) {
  config.ladders = "  odd: [150ms, 1h]\n";
  const std::string base = unique_name("odd") + " ";
  std::vector<std::string> names;
  for (const char* tail : {"a b",
                           "it's",
                           "\"quoted\"",
                           "`back`",
                           "a/b//c",
                           "%2f %s %d %n",
                           "*.#",
                           "back\\slash\\",
                           "-- ; DROP TABLE x",
                           "\xc3\xbcml\xc3\xa4ut-\xe9\x98\x9f\xe5\x88\x97-\xf0\x9f\x90\x87",
                           "e\xcc\x81",
                           "\xc3\xa9",

                           "tab\t.",
                           "Case",
                           "case",
                           "trail",
                           "trail ",
                           "trail  ",
                           "<b>&amp;",
                           "null",
                           "{}[]()|^$+?!",
                           "a:b=c,d@e~",
                           "\x01\x1f"}) {
    names.push_back(base + tail);
  }
  names.push_back(base + std::string(255 - base.size(), 'x'));
  std::string wide = base;
  while (wide.size() + 4 <= 255) wide += "\xf0\x9f\x90\x87";
  names.push_back(wide);
  for (const std::string& name : names) config.queue(name, "{ ladder: odd }");
  start();
  for (const std::string& name : names) {
    remove_at_end(name);
    declare_attached(name);
    fail(name, order(name));
  }
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const Received back = delivery(name);
    EXPECT_EQ(back.message.body, name);
    EXPECT_EQ(text_header(back.message, "retry-ladder"), "odd") << "its rules are those of another queue";
    amqp.ack(back);
    report(back, "succeeded");
    const Row row = wait_state(name, "succeeded");
    ASSERT_EQ(row.count("queue"), 1U);
    EXPECT_EQ(row.at("queue"), name);
    EXPECT_EQ(history(row.at("retry_id"))[0]["queue"], name);
  }
  // Not one more row, and each queue counted for itself.
  std::map<std::string, std::string> tasks;
  for (Row& row : rows("SELECT * FROM retry_by_queue")) tasks[row["queue"]] = row["tasks"];
  EXPECT_EQ(tasks.size(), names.size());
  for (const std::string& name : names) EXPECT_EQ(tasks[name], "1") << name;
}

// The queue confirms it, and then drops its oldest message: without this failure it would be lost.
TEST_F(Routes, ARetryThatItsFullQueueEvictsHasFailed) {
  start();
  const std::string queue = new_name();
  amqp.declare(queue, {{"x-dead-letter-exchange", failed()},
                       {"x-max-length", std::int64_t{1}},
                       {"x-overflow", std::string("drop-head")}});
  Message message = order();
  message.headers->emplace_back("retry-queue", queue);
  message.headers->emplace_back("retry-origin-exchange", std::string());
  message.headers->emplace_back("retry-origin-routing-key", queue);
  ASSERT_TRUE(amqp.publish(failed(), "", message));
  const std::string id = wait_state(queue, "awaiting").at("retry_id");
  EXPECT_TRUE(amqp.publish("", queue, Message{{}, {}, "in the way"}));
  EXPECT_TRUE(eventually([&] {
    const auto attempts = history(id);
    return !attempts.empty() && attempts[0].at("outcome") == "failed";
  })) << rung().log_tail();
}

// Where a framework publishes its failures; MassTransit's.
TEST_F(Routes, APatternOfErrorQueuesFindsThemByTheManagementApi) {
  const char* management = std::getenv("RUNG_TEST_MANAGEMENT");
  ASSERT_NE(management, nullptr) << "start the servers with --management";
  const std::string orders = new_name("orders"), errors = orders + "_error";
  amqp.declare(orders);
  amqp.declare(errors);
  remove_at_end(errors);
  config.broker += "  management: \"" + std::string(management) + "\"\n";
  config.more = "error_queues: [ { from: \"" + orders + "*_error\", dialect: masstransit } ]\n";
  start();
  ASSERT_TRUE(rung().logged("consuming an error queue")) << rung().log_tail();
  Message message = order();
  message.headers->emplace_back("MT-Fault-InputAddress", "rabbitmq://localhost/" + orders);
  message.headers->emplace_back("MT-Fault-Message", "card refused");
  ASSERT_TRUE(amqp.publish("", errors, message));
  amqp.ack(delivery(orders));
}

}  // namespace
}  // namespace rung::test
