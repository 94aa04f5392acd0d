// Events for other systems: the exchange <prefix>.events, as its consumers see it.
#include <gmock/gmock.h>

#include <future>
#include <nlohmann/json.hpp>

#include "tests/integration/sidecar/messages.h"

namespace rung::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class EventExchange : public SidecarTest {
 protected:
  EventExchange() {
    config.ladder = "[200ms]";
    config.more = "events: [cause_appeared, task_parked, bulk_ended]\n";
  }
  std::string exchange() const { return config.prefix + ".events"; }
  Ran command(const std::string& words) {
    return run_shell("'" + rung_program() + "' " + words + " -c '" + rung().config_path() + "'");
  }
  // A queue of a consumer of events.
  std::string bound(const std::string& key) {
    const std::string queue = new_name("events");
    amqp.declare(queue);
    amqp.bind(queue, exchange(), key);
    return queue;
  }
  json next(const std::string& queue) {
    const auto got = amqp.get_within(queue, kBound);
    if (!got) {
      ADD_FAILURE() << "no event came";
      return json::object();
    }
    amqp.ack(*got);
    EXPECT_EQ(got->exchange, exchange());
    EXPECT_EQ(got->message.properties.content_type, "application/json");
    json event = json::parse(got->message.body.str(), nullptr, false);
    EXPECT_TRUE(event.is_object()) << got->message.body.str();
    if (!event.is_object()) return json::object();
    EXPECT_EQ(got->message.properties.type, "rung." + event.value("type", ""));
    EXPECT_EQ(got->message.properties.message_id, event.value("id", ""));
    return event;
  }
  // It fails as often as the ladder has levels, and once more.
  void park(const std::string& queue, const std::string& message_id) {
    Message message;
    message.properties.message_id = message_id;
    message.body = "secret body";
    fail(queue, message);
    const Received again = delivery(queue);
    report(again, "failed", "no answer from the bank");
    amqp.ack(again);
    wait_state(queue, "parked");
  }
};

TEST_F(EventExchange, TellsOfACauseAParkedTaskAndTheEndOfABulk) {
  start();
  ASSERT_TRUE(amqp.exchange_exists(exchange()));
  const std::string all = bound("#"), parked_only = bound("task_parked.#");
  const std::string queue = attached();
  park(queue, "order-4711");

  std::map<std::string, json> by_type;
  std::string texts;
  // The reject, which says nothing, is one cause; the reported failure another.
  for (int i = 0; i < 3; ++i) {
    json event = next(all);
    texts += event.dump();
    const std::string type = event.value("type", "");
    by_type[type] = std::move(event);
  }
  const json& parked = by_type["task_parked"];
  ASSERT_TRUE(parked.is_object() && by_type["cause_appeared"].is_object()) << texts;
  ASSERT_TRUE(parked["task"].is_object() && by_type["cause_appeared"]["cause"].is_object()) << texts;
  EXPECT_EQ(parked.value("queue", ""), queue);
  EXPECT_EQ(parked["task"].value("message_id", ""), "order-4711");
  EXPECT_EQ(parked["task"].value("state", ""), "parked");
  EXPECT_EQ(parked["task"].value("last_error", ""), "no answer from the bank");
  EXPECT_EQ(by_type["cause_appeared"]["cause"].value("queue", ""), queue);
  EXPECT_THAT(texts, testing::Not(HasSubstr("secret body")));
  EXPECT_EQ(next(parked_only), parked) << "the routing key selects";

  const std::string id = parked["task"].value("retry_id", "");
  EXPECT_EQ(command("discard --queue " + queue + " --yes --reason over").code, 0);
  const json ended = next(all);
  ASSERT_EQ(ended.value("type", ""), "bulk_ended") << ended.dump();
  ASSERT_TRUE(ended.contains("bulk") && ended["bulk"].is_object()) << ended.dump();
  EXPECT_EQ(ended["bulk"].value("state", ""), "done");
  EXPECT_EQ(ended["bulk"].value("applied", 0), 1);
  EXPECT_TRUE(eventually([&] { return rows("SELECT * FROM rung_outgoing_events").empty(); }, kBound))
      << "published ones are deleted";
  EXPECT_FALSE(rows("SELECT * FROM retry_events WHERE kind = 'bulk_ended'").empty());
}

TEST_F(EventExchange, AConsumerOfEventsThatFailsMakesNoLoop) {
  start();
  const std::string queue = attached(), events = attached("events");
  amqp.bind(events, exchange(), "task_parked.#");
  park(queue, "order-1");
  // The event itself fails, climbs and is parked. Another parked task's event comes, but none of its own.
  const auto reject = [&] {
    const Received got = delivery(events);
    amqp.reject(got);
    return json::parse(got.message.body.str()).at("task").value("message_id", "");
  };
  EXPECT_EQ(reject(), "order-1");
  EXPECT_EQ(reject(), "order-1") << "its retry";
  ASSERT_EQ(wait_state(events, "parked").at("exchange"), exchange());
  const std::string other = attached();
  park(other, "order-2");
  EXPECT_EQ(reject(), "order-2");
}

// The failed message that a consumer publishes names its queue, but not the exchange that it came by.
TEST_F(EventExchange, NorDoesOneThatPublishesItsFailuresToRungFailed) {
  start();
  const std::string queue = attached(), events = bound("task_parked.#");
  park(queue, "order-1");
  const Received got = delivery(events);
  amqp.ack(got);
  Message failure = got.message;
  failure.headers = Table{{"retry-queue", events}, {"retry-error", "no chat"}, {"retry-never", true}};
  ASSERT_TRUE(amqp.publish(failed(), "", failure));
  ASSERT_EQ(wait_state(events, "parked").at("last_error"), "no chat");
  park(attached(), "order-2");
  EXPECT_EQ(next(events)["task"].value("message_id", ""), "order-2");
}

TEST_F(EventExchange, TheExamplePrintsThem) {
  start();
  const std::string queue = attached(), events = new_name("events");
  const std::string example =
      "/usr/bin/python3 '" RUNG_SOURCE_DIR "/examples/consumers/python/events.py' --url '" + amqp_url() +
      "' --exchange " + exchange() + " --queue " + events + " --bind 'task_parked.#' --count 1";
  auto printed = std::async(std::launch::async, [&] { return run_shell("timeout 60 " + example); });
  ASSERT_TRUE(eventually([&] { return amqp.consumers(events).value_or(0) == 1; }, kBound));
  park(queue, "order-4711");
  const Ran ran = printed.get();
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("of " + queue + " is parked: no answer from the bank"));
}

TEST_F(EventExchange, IsNotDeclaredUnlessTheConfigAsksForEvents) {
  config.more = "";
  start();
  park(attached(), "order-4711");
  EXPECT_FALSE(amqp.exchange_exists(exchange()));
  EXPECT_TRUE(rows("SELECT * FROM rung_outgoing_events").empty());
}

TEST_F(EventExchange, OneOfAnotherTypeIsUsedAsItIs) {
  amqp.declare_exchange(exchange(), "fanout");
  start();
  const std::string all = bound(""), queue = attached();
  park(queue, "order-4711");
  EXPECT_TRUE(rung().logged("exchange " + exchange() + ": ", kBound)) << rung().log_tail();
  EXPECT_EQ(next(all).value("queue", ""), queue);
}

}  // namespace
}  // namespace rung::test
