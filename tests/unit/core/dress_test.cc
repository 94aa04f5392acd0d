// What is taken off a message when it is taken in, and put on when it goes out again.
#include <gtest/gtest.h>

#include <algorithm>

#include "src/core/message/message.h"
#include "tests/unit/core/failures.h"

namespace rung {
namespace {

using rung::testing::message_with;

TEST(Strip, TakesOffOursAndKeepsTheBrokersForTheRow) {
  BrokerFacts facts;
  facts.headers = {{"x-mark", Array{Table{{"queue", "q"}}}}, {"x-count", 4}};
  facts.delay.header = "x-wait";
  Table taken = {{"x-wait", 5000}};
  for (const char* ours :
       {"retry-id",         "retry-attempt",         "retry-level",           "retry-levels",
        "retry-ladder",     "retry-first-failed-at", "retry-queue",           "retry-error",
        "retry-error-type", "retry-after",           "retry-max-attempts",    "retry-never",
        "retry-result",     "retry-not-before",      "retry-origin-exchange", "retry-origin-routing-key",
        "retry-reason",     "retry-exchange",        "retry-routing-key",     "retry-executor"}) {
    taken.emplace_back(ours, "ours");
  }
  const Table kept = {{"app", 1},    {"Retry-Id", "another case"}, {"app", 2},         {"!", ""},
                      {"", Value{}}, {"retry-count", "another's"}, {"x-match", "any"}, {"x", 1.5}};
  Table all;
  for (std::size_t i = 0; i < std::max(taken.size(), kept.size()); ++i) {
    if (i < taken.size()) all.push_back(taken[i]);
    if (i < kept.size()) all.push_back(kept[i]);
  }
  std::string origin;
  const Message out = strip(message_with(all), &origin, facts);
  EXPECT_EQ(out.headers, kept) << "in their order, what stands there twice too";
  EXPECT_EQ(out.body, "body");
  EXPECT_NE(find(strip(message_with(all), nullptr).headers, "x-wait"), nullptr) << "no delay was asked for";

  const auto read_back = headers_from_json(origin);
  ASSERT_TRUE(read_back) << origin;
  taken.insert(taken.end(), facts.headers.begin(), facts.headers.end());
  for (const auto& [name, value] : taken) {
    const Value* there = find(*read_back, name);
    ASSERT_NE(there, nullptr) << name;
    EXPECT_EQ(*there, value) << name;
  }
}

// `rung history` shows it as the first failure. The row does not record which dialect read it.
TEST(Strip, TheOriginHasWhatADialectHasRead) {
  BrokerFacts facts;
  facts.failure.error = "no card";
  facts.failure.error_type = "CardError";
  std::string origin;
  (void)strip(Message{}, &origin, facts);
  auto read_back = headers_from_json(origin);
  ASSERT_TRUE(read_back) << origin;
  EXPECT_EQ(*find(*read_back, "retry-error"), Value("no card"));
  EXPECT_EQ(*find(*read_back, "retry-error-type"), Value("CardError"));
  (void)strip(message_with({{"retry-error", "said by the consumer"}}), &origin, facts);
  read_back = headers_from_json(origin);
  ASSERT_TRUE(read_back) << origin;
  EXPECT_EQ(std::ranges::count(*read_back, "retry-error", [](const auto& one) { return one.first; }), 1);
  EXPECT_EQ(*find(*read_back, "retry-error"), Value("said by the consumer"));
}

TEST(Strip, Properties) {
  Message m;
  Properties& p = m.properties;
  p.content_type = "text/plain";
  p.content_encoding = "gzip";
  p.delivery_mode = std::uint8_t{1};
  p.priority = std::uint8_t{9};
  p.correlation_id = "c";
  p.reply_to = "r";
  p.expiration = "60000";
  p.message_id = "m";
  p.timestamp = 5;
  p.type = "t";
  p.user_id = "guest";
  p.app_id = "a";
  p.cluster_id = "cl";
  m.body = std::string("\0\xFF\r\n", 4);
  std::string origin;
  const Message out = strip(m, &origin);
  Properties expected = p;
  expected.delivery_mode = std::uint8_t{2};
  expected.expiration.reset();
  expected.user_id.reset();
  EXPECT_EQ(out.properties, expected);
  EXPECT_EQ(out.body, m.body);
  EXPECT_FALSE(out.headers);
  const auto kept = headers_from_json(origin);
  ASSERT_TRUE(kept) << origin;
  EXPECT_EQ(*find(*kept, "property user-id"), Value{"guest"});
  EXPECT_EQ(*find(*kept, "property expiration"), Value{"60000"});
  EXPECT_EQ(*find(*kept, "property delivery-mode"), Value{"transient"});
}

// Every message passes these two on its way, whichever way it came in.
TEST(Dress, AfterStripTheTraceContextIsAsItWasReceived) {
  const Table trace = {{"traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
                       {"tracestate", "vendor=a:1,other=b"},
                       {"baggage", "tenant=eu"}};
  Table received = trace;
  received.emplace_back("retry-not-before", "2030-01-01T00:00:00Z");
  received.emplace_back("retry-id", "7");
  Task task;
  task.attempt = 2;
  BrokerFacts facts;
  facts.delay.header = "x-delay";
  const Message back = dress(strip(message_with(received), nullptr, facts), task, "2-token");
  for (const auto& [name, value] : trace) {
    ASSERT_NE(find(back.headers, name), nullptr) << name;
    EXPECT_EQ(*find(back.headers, name), value);
  }
}

TEST(Dress, PutsOnWhatTheContractNames) {
  Task t;
  t.id = {123456789012345};
  t.attempt = 4;
  t.level = 3;
  t.levels = 9;
  t.ladder = "default";
  t.first_failed_at = {1'800'000'000'123};
  t.exchange = "events";
  t.routing_key = "order.paid";
  t.last_error = "dead-lettered: expired (queue orders)";
  const Message out = dress(message_with({{"app", 1}}), t, "1-token");
  const Table expected = {{"app", 1},
                          {"retry-id", "123456789012345"},
                          {"retry-attempt", std::int64_t{4}},
                          {"retry-level", std::int64_t{3}},
                          {"retry-levels", std::int64_t{9}},
                          {"retry-ladder", "default"},
                          {"retry-origin-exchange", "events"},
                          {"retry-origin-routing-key", "order.paid"},
                          {"retry-reason", "expired"},
                          {"retry-token", "1-token"},
                          {"retry-first-failed-at", std::int64_t{1'800'000'000'123}}};
  EXPECT_EQ(out.headers, expected);
  EXPECT_TRUE(dress(Message{}, t, "1-token").headers);
}

}  // namespace
}  // namespace rung
