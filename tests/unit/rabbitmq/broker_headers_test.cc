// RabbitMQ's own headers, in every form that the broker or a client may write.
#include "plugin/rabbitmq/wire/broker_headers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "levels/duration.h"
#include "plugin/rabbitmq/topology/return_route.h"
#include "src/core/machine/headers.h"
#include "src/core/message/message.h"

namespace rung::rabbit {
namespace {

using testing::HasSubstr;

Message message_with(Table headers) {
  Message m;
  m.headers = std::move(headers);
  m.body = "body";
  return m;
}
Failure failure_of(Table headers) {
  Message m = message_with(std::move(headers));
  const BrokerFacts facts = take_broker_headers(m, Inlet::failed);
  return read_failure(m, "rung.failed", "rk", facts.failure);
}
DelayFacts delay_of(Table headers) {
  Message m = message_with(std::move(headers));
  return take_broker_headers(m, Inlet::delay).delay;
}

// As RabbitMQ writes it.
Table death(const char* queue, const char* reason = "rejected") {
  return {{"count", std::int64_t{3}}, {"reason", reason},
          {"queue", queue},           {"time", Timestamp{1'700'000'000}},
          {"exchange", "shop"},       {"routing-keys", Array{"order.new", "cc.copy"}}};
}

// ---- x-death

TEST(ReadDeath, TheNewestIsTheFirst) {
  const Failure f = failure_of(Table{{"x-death", Array{death("orders"), death("older", "expired")}},
                                     {"x-first-death-queue", "first"},
                                     {"x-last-death-queue", "last"}});
  EXPECT_EQ(f.queue, "orders");
  EXPECT_EQ(f.queue_by, "the header x-death");
  EXPECT_EQ(f.exchange, "shop");
  EXPECT_EQ(f.routing_key, "order.new");
  EXPECT_EQ(f.error, "dead-lettered: rejected (queue orders)");
  EXPECT_EQ(f.failed_at_s, 1'700'000'000);
  EXPECT_EQ(f.failed_count, 3);
}

// It came while the queue of its inlet was declared anew.
TEST(TakeBack, WhatStoodInForItsInletIsKnownByItsExchange) {
  BrokerOptions options;
  options.rabbitmq.delay_exchanges = {"my-delayed"};
  const auto inlet_of = [&](const std::string& exchange) {
    Delivery d;
    d.inlet = Inlet::results;
    d.exchange = exchange;
    take_back(d, options);
    return d.inlet;
  };
  EXPECT_EQ(inlet_of("rung.failed"), Inlet::failed);
  EXPECT_EQ(inlet_of("rung.delay"), Inlet::delay);
  EXPECT_EQ(inlet_of("my-delayed"), Inlet::delay);
  for (const char* other : {"", "rung.results", "shop", "rung.parked"})
    EXPECT_EQ(inlet_of(other), Inlet::results) << other;
}

// By the TTL of the message: RabbitMQ then moved it from one inlet to another.
TEST(TakeBack, ItIsAgainWhatItWasInItsInlet) {
  Delivery d;
  d.inlet = Inlet::delay;
  d.exchange = "rung.delay";
  d.message = message_with({{"x-death", Array{death("rung.failed", "expired"), death("orders")}},
                            {"x-last-death-queue", "rung.failed"}});
  take_back(d, BrokerOptions{});
  EXPECT_EQ(d.inlet, Inlet::failed);
  EXPECT_TRUE(d.expired);
  EXPECT_EQ(d.exchange, "shop");
  EXPECT_EQ(d.routing_key, "order.new");
  EXPECT_EQ(read_failure(d.message, "", "", take_broker_headers(d.message, d.inlet).failure).queue, "orders");
  // Published there: no queue has failed it.
  d.inlet = Inlet::failed;
  d.message = message_with({{"x-death", Array{death("rung.delay", "expired")}},
                            {"x-last-death-queue", "rung.delay"},
                            {"x-first-death-reason", "expired"},
                            {"x-delay", 1000}});
  take_back(d, BrokerOptions{});
  EXPECT_EQ(d.inlet, Inlet::delay);
  EXPECT_EQ(d.message.headers, (Table{{"x-delay", 1000}}));
  // Anything else stays as it is.
  for (const Table& other : {death("rung.failed", "rejected"), death("orders", "expired"),
                             death("rung2.failed", "expired"), death("rung.parked", "expired"), Table{}}) {
    Delivery same;
    same.message = message_with({{"x-death", Array{other}}});
    take_back(same, BrokerOptions{});
    EXPECT_FALSE(same.expired);
    EXPECT_EQ(same.message.headers->size(), 1U);
  }
}

TEST(ReadDeath, WhateverItHoldsInstead) {
  const std::vector<Value> oddities = {Value{},
                                       true,
                                       std::int32_t{5},
                                       "text",
                                       Bytes{"\xFF"},
                                       Array{},
                                       Table{},
                                       Table{{"queue", "not in an array"}},
                                       Array{"not a table", death("second")},
                                       Array{Value{}},
                                       Array{Array{death("too deep")}},
                                       Array{Table{}},
                                       Array{Table{{"queue", std::int32_t{7}}}},
                                       Array{Table{{"queue", ""}}},
                                       Array{Table{{"queue", std::string(256, 'q')}}},
                                       Array{Table{{"queue", "\xC0\xAF"}}},
                                       Array{Table{{"routing-keys", Array{}}, {"time", "x"}, {"count", "x"}}},
                                       Array{Table{{"routing-keys", Table{}}, {"reason", Array{}}}}};
  for (std::size_t i = 0; i < oddities.size(); ++i) {
    const Failure alone = failure_of(Table{{"x-death", oddities[i]}, {"x-first-death-queue", "first"}});
    EXPECT_EQ(alone.queue, "") << i << ": the first death is where it came from once, not now";
    EXPECT_EQ(alone.routing_key, "rk") << i;
    EXPECT_NE(alone.error, "") << i;
    const Failure fallback = failure_of(
        Table{{"x-death", oddities[i]}, {"x-last-death-queue", "last"}, {"x-first-death-queue", "f"}});
    EXPECT_EQ(fallback.queue, "last") << i;
  }
}

// Found by fuzzing: seconds that are no date overflowed when they were made ms, and no column took what came
// out.
TEST(ReadDeath, ADeathWithoutADate) {
  const auto died = [](std::uint64_t at) {
    return failure_of(Table{{"x-death", Array{Value{Table{{"queue", "orders"}, {"time", Timestamp{at}}}}}}})
        .failed_at_s;
  };
  EXPECT_EQ(died(1'700'000'000), 1'700'000'000);
  EXPECT_EQ(died(253'402'300'799), 253'402'300'799) << "9999-12-31 23:59:59";
  for (const std::uint64_t none : {std::uint64_t{253'402'300'800}, std::uint64_t{9'223'372'036'854'776},
                                   std::uint64_t{1} << 62, std::numeric_limits<std::uint64_t>::max()}) {
    EXPECT_FALSE(died(none)) << none;
  }
}

// ---- x-delay

struct Case {
  const char* name;
  Value value;
  std::int64_t delay;  // ms; -1: parked
};

TEST(TakeBrokerHeaders, EveryFormOfXDelay) {
  const std::vector<Case> cases = {
      {"int8", std::int8_t{100}, 100},
      {"uint8", std::uint8_t{200}, 200},
      {"int16", std::int16_t{30'000}, 30'000},
      {"uint16", std::uint16_t{60'000}, 60'000},
      {"int32", std::int32_t{2'000'000'000}, 2'000'000'000},
      {"uint32", std::uint32_t{4'294'967'295}, 4'294'967'295},
      {"int64", std::int64_t{1'800'000}, 1'800'000},
      {"uint64", std::uint64_t{1'800'000}, 1'800'000},
      {"zero", 0, 0},
      {"negative, as the plugin leaves it behind", -5000, 0},
      {"the least of all", std::numeric_limits<std::int64_t>::min(), 0},
      {"more than the plugin's timer", std::int64_t{4'294'967'296}, 4'294'967'296},
      {"the longest", std::int64_t{levels::kLongest.count()}, levels::kLongest.count()},
      {"longer", std::int64_t{levels::kLongest.count() + 1}, -1},
      {"an int64's most", std::numeric_limits<std::int64_t>::max(), -1},
      {"beyond an int64", std::numeric_limits<std::uint64_t>::max(), -1},
      {"float", 1500.9F, 1500},
      {"double", 1500.9, 1500},
      {"negative double", -0.5, 0},
      {"a large double", 1e300, -1},
      {"a small double", -1e300, 0},
      {"infinity", std::numeric_limits<double>::infinity(), -1},
      {"no number at all", std::nan(""), -1},
      {"decimal", Decimal{2, 150'099}, 1500},
      {"decimal of a large scale", Decimal{255, 7}, 0},
      {"text", "5000", 5000},
      {"text with a sign", "+5000", 5000},
      {"negative text", "-5000", 0},
      {"text beyond an int64", "99999999999999999999", -1},
      {"text far below", "-99999999999999999999", 0},
      {"bytes", Bytes{"5000"}, 5000},
      {"two signs", "+-5", -1},
      {"a sign alone", "+", -1},
      {"text with a unit", "5s", -1},
      {"text with a point", "5.5", -1},
      {"text with a blank", " 5", -1},
      {"empty text", "", -1},
      {"bool", true, -1},
      {"timestamp", Timestamp{5}, -1},
      {"table", Table{}, -1},
      {"array", Array{5}, -1},
      {"null, as if it were not there", Value{}, 0},
  };
  for (const Case& one : cases) {
    const DelayFacts facts = delay_of({{"x-delay", one.value}});
    EXPECT_EQ(facts.header, "x-delay") << one.name;
    if (one.delay < 0) {
      EXPECT_THAT(facts.refusal, HasSubstr("x-delay")) << one.name;
      continue;
    }
    EXPECT_EQ(facts.refusal, "") << one.name;
    EXPECT_EQ(facts.delay.count(), one.delay) << one.name;
  }
  EXPECT_EQ(delay_of({}).delay, Ms{0}) << "nothing said: at once";
}

TEST(TakeBrokerHeaders, TheReasonsAreForPeople) {
  EXPECT_EQ(delay_of({{"x-delay", "soon"}}).refusal, "x-delay 'soon' is not a number of milliseconds");
  EXPECT_EQ(delay_of({{"x-delay", true}}).refusal, "x-delay is not a number of milliseconds");
  EXPECT_EQ(delay_of({{"x-delay", std::numeric_limits<std::int64_t>::max()}}).refusal,
            "x-delay is longer than 3650d, the maximum");
}

// The delayed-message exchange leaves it behind.
TEST(TakeBrokerHeaders, XDelayOfAFailedMessageIsTheApplications) {
  Message m = message_with({{"x-delay", 5}, {"x-death", Array{death("orders")}}});
  const BrokerFacts facts = take_broker_headers(m, Inlet::failed);
  EXPECT_EQ(facts.delay.header, "");
  EXPECT_EQ(strip(m, nullptr, facts).headers, (Table{{"x-delay", 5}}));
}

// ---- headers that are removed

TEST(TakeBrokerHeaders, TakesOffRabbitMQsAndNoOthers) {
  const Table taken = {{"x-death", Array{death("orders")}},
                       {"x-first-death-queue", "q"},
                       {"x-first-death-reason", "rejected"},
                       {"x-first-death-exchange", "e"},
                       {"x-last-death-queue", "q"},
                       {"x-last-death-reason", "rejected"},
                       {"x-last-death-exchange", "e"},
                       {"x-delivery-count", 4},
                       {"x-acquired-count", 5},
                       {"CC", Array{"copy"}},
                       {"BCC", Array{"secret copy"}},
                       {"x-opt-delivery-time", Timestamp{4'000'000'000}},
                       {"x-opt-mine", Array{1, "b"}}};
  const Table kept = {
      {"app", 1}, {"X-Death", "another case"},       {"cc", "lower case"},    {"app", 2},
      {"!", ""},  {"retry-count", "another's"},      {"", Value{}},           {"x-match", "any"},
      {"x", 1.5}, {"x-delivery-counter", "another"}, {"x-option", "another"}, {"x-opt", 1}};
  Table all;
  for (std::size_t i = 0; i < std::max(taken.size(), kept.size()); ++i) {
    if (i < taken.size()) all.push_back(taken[i]);
    if (i < kept.size()) all.push_back(kept[i]);
  }
  for (const Inlet inlet : {Inlet::failed, Inlet::delay}) {
    Message m = message_with(all);
    const BrokerFacts facts = take_broker_headers(m, inlet);
    EXPECT_EQ(m.headers, kept) << "in their order, what stands there twice too";
    EXPECT_EQ(m.body, "body");
    EXPECT_EQ(facts.headers, taken);
  }
  Message result = message_with(all);
  EXPECT_EQ(take_broker_headers(result, Inlet::results).headers, Table{});
  EXPECT_EQ(result, message_with(all)) << "nothing of it is published again";
}

TEST(TakeBrokerHeaders, WhatNobodyMaySubmit) {
  for (const char* name : {"x-death", "x-last-death-queue", "x-opt-any", "CC", "BCC", "x-delivery-count"})
    EXPECT_TRUE(reserved_headers().contains(name)) << name;
  for (const char* name : {"x-delay", "x-opt", "cc", "", "x-deaths"})
    EXPECT_FALSE(reserved_headers().contains(name)) << name;
}

// ---- How RabbitMQ reaches one queue under another routing key.

Outgoing routed(std::string queue, std::string key) {
  Outgoing outgoing{7, "", std::move(key), {}, PublishLane::main, std::move(queue)};
  route_to_queue(outgoing, "rung.return");
  return outgoing;
}

TEST(RouteToQueue, ByTheReturnExchangeWithTheQueuesBindingKey) {
  const Outgoing outgoing = routed("orders", "order.paid");
  EXPECT_EQ(outgoing.exchange, "rung.return");
  EXPECT_EQ(outgoing.routing_key, "order.paid");
  EXPECT_EQ(outgoing.message.headers, (Table{{"BCC", Array{Value{"queue:orders"}}}}));
  EXPECT_EQ(outgoing.queue, "orders");
}

TEST(RouteToQueue, ByTheDefaultExchangeWhereNoBindingKeyWillDo) {
  EXPECT_EQ(routed(std::string(249, 'q'), "order.paid").exchange, "rung.return");
  const std::string longest(250, 'q');
  for (const Outgoing& outgoing : {routed(longest, "order.paid"), routed(longest, "queue:invoices")}) {
    EXPECT_EQ(outgoing.exchange, "");
    EXPECT_EQ(outgoing.queue, "");
    EXPECT_EQ(outgoing.routing_key, longest);
    EXPECT_FALSE(outgoing.message.headers);
  }
  EXPECT_EQ(routed("orders", "queue:invoices").routing_key, "orders") << "it would reach invoices, too";
}

}  // namespace
}  // namespace rung::rabbit
