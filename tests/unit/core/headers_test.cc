// What is read from headers, what is taken off, what is put on: the oddities of clients.
#include "src/core/machine/headers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "src/core/base/utf8.h"
#include "src/core/message/message_json.h"

namespace rung {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

Message message_with(Table headers) {
  Message m;
  m.headers = std::move(headers);
  m.body = "body";
  return m;
}

Failure failure_of(const Message& m) { return read_failure(m, "rung.failed", "rk"); }
Failure failure_of(Table headers) { return failure_of(message_with(std::move(headers))); }
Directives directives(const char* name, Value value) {
  return failure_of(Table{{name, std::move(value)}}).directives;
}

// As a broker's plugin hands it over.
FailureFacts facts_of(const char* queue, const char* reason = "rejected") {
  FailureFacts facts;
  facts.reason = reason;
  facts.queue = queue;
  facts.queue_by = "the header x-mark";
  facts.exchange = "shop";
  facts.routing_key = "order.new";
  facts.failed_at_s = 1'700'000'000;
  facts.count = 3;
  return facts;
}
Failure failure_of(Table headers, const FailureFacts& facts) {
  return read_failure(message_with(std::move(headers)), "rung.failed", "rk", facts);
}

// ---- what the broker says

TEST(ReadFacts, WhatTheBrokerRecorded) {
  const Failure f = failure_of(Table{}, facts_of("orders"));
  EXPECT_EQ(f.queue, "orders");
  EXPECT_EQ(f.queue_by, "the header x-mark");
  EXPECT_EQ(f.exchange, "shop");
  EXPECT_EQ(f.routing_key, "order.new");
  EXPECT_EQ(f.error, "dead-lettered: rejected (queue orders)");
  EXPECT_EQ(f.failed_at_s, 1'700'000'000);
  EXPECT_EQ(f.failed_count, 3);
  EXPECT_FALSE(f.unseen);
  EXPECT_FALSE(f.queue_by_config);
  EXPECT_FALSE(f.id);
  EXPECT_EQ(f.attempt, 0);
}

TEST(ReadFacts, ThatNoConsumerHasSeenItAndThatTheConfigNamesItsQueue) {
  FailureFacts facts = facts_of("orders");
  facts.unseen = true;
  EXPECT_TRUE(failure_of(Table{}, facts).unseen);
  EXPECT_FALSE(failure_of(Table{}, facts).queue_by_config);
  facts.unseen = false;
  facts.queue_by_config = true;
  EXPECT_FALSE(failure_of(Table{}, facts).unseen);
  EXPECT_TRUE(failure_of(Table{}, facts).queue_by_config);
}

TEST(ReadFacts, NoneAndNoHeadersAtAll) {
  const Failure f = failure_of(Message{});
  EXPECT_EQ(f.queue, "");
  EXPECT_EQ(f.exchange, "rung.failed");
  EXPECT_EQ(f.routing_key, "rk");
  EXPECT_NE(f.error, "");
  EXPECT_EQ(f.directives.complaint, "");
}

TEST(ReadFacts, TheDefaultExchangeIsAnExchange) {
  FailureFacts facts = facts_of("orders");
  facts.exchange = "";
  EXPECT_EQ(failure_of(Table{}, facts).exchange, "");
}

TEST(ReadFacts, WhatPeopleReadFitsTheColumns) {
  FailureFacts facts = facts_of("orders");
  facts.exchange = std::string(400, 'e');
  facts.routing_key = "\xFF" + std::string(400, 'k');
  const Failure f = failure_of(Table{}, facts);
  EXPECT_EQ(f.exchange.size(), 255u);
  EXPECT_LE(f.routing_key.size(), 255u);
  EXPECT_TRUE(is_utf8(f.routing_key));
}

// ---- what a consumer says

TEST(ReadFailure, RetryQueueBeatsTheBrokersRecord) {
  const Failure f = failure_of(Table{{"retry-queue", "mine"}}, facts_of("orders"));
  EXPECT_EQ(f.queue, "mine");
  EXPECT_EQ(f.queue_by, "the header retry-queue");
  EXPECT_EQ(failure_of(Table{{"retry-queue", Bytes{"mine"}}}).queue, "mine");
}

TEST(ReadFailure, TheSenderNamesTheOrigin) {
  const Table said{{"retry-queue", "orders"},
                   {"retry-origin-exchange", "topics"},
                   {"retry-origin-routing-key", "order.paid"}};
  EXPECT_EQ(failure_of(said).exchange, "topics");
  EXPECT_EQ(failure_of(said).routing_key, "order.paid");
  // RabbitMQ 3 lets a client publish x-death, here of another queue that the message passed before.
  EXPECT_EQ(failure_of(said, facts_of("orders")).exchange, "topics");
  EXPECT_EQ(failure_of(said, facts_of("orders")).routing_key, "order.paid");
  // Dead-lettered by the broker: the headers are a copy of another message's.
  const Failure dead = failure_of(Table{{"retry-origin-exchange", "topics"}}, facts_of("orders"));
  EXPECT_EQ(dead.exchange, "shop");
}

TEST(ReadFailure, TheOriginalKeyIsTheOneItWasPublishedWith) {
  const Failure f = failure_of(Table{{"retry-queue", "orders"}, {"retry-origin-exchange", "topics"}});
  EXPECT_EQ(f.exchange, "topics");
  EXPECT_EQ(f.routing_key, "rk");
  // The default exchange is an origin too; the empty key is one of a fanout exchange.
  const Failure direct = failure_of(Table{{"retry-origin-exchange", ""}, {"retry-origin-routing-key", ""}});
  EXPECT_EQ(direct.exchange, "");
  EXPECT_EQ(direct.routing_key, "");
}

TEST(ReadFailure, AQueueThatCannotBeIsNoQueue) {
  for (const Value& name :
       {Value{""}, Value{std::string(256, 'q')}, Value{"\xFF\xFE"}, Value{5}, Value{Table{}}}) {
    const Failure f = failure_of(Table{{"retry-queue", name}}, facts_of("orders"));
    EXPECT_EQ(f.queue, "orders");
    EXPECT_NE(f.directives.complaint.find("retry-queue"), std::string::npos);
    EXPECT_EQ(failure_of(Table{{"retry-queue", name}}).queue, "");
  }
  EXPECT_EQ(failure_of(Table{{"retry-queue", std::string(255, 'q')}}).queue.size(), 255u);
  EXPECT_EQ(failure_of(Table{{"retry-queue", "ö #*/\\\"'%\t"}}).queue, "ö #*/\\\"'%\t");
}

TEST(ReadFailure, TheErrorText) {
  const Failure f =
      failure_of(Table{{"retry-error", "no stock"}, {"retry-error-type", "StockError"}}, facts_of("orders"));
  EXPECT_EQ(f.error, "no stock");
  EXPECT_EQ(f.error_type, "StockError");
  const Failure bytes = failure_of(Table{{"retry-error", Bytes{std::string("a\0\xFF", 3)}}});
  EXPECT_EQ(bytes.error, "a\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(failure_of(Table{{"retry-error", std::string(200'000, 'x')}}).error.size(), kErrorBytes);
  EXPECT_EQ(failure_of(Table{{"retry-error-type", std::string(999, 'x')}}).error_type.size(), 255u);
  EXPECT_NE(failure_of(Table{{"retry-error", Table{}}}).error, "");
}

TEST(ReadFailure, NumbersOfEveryWidthAndAsText) {
  const std::vector<Value> sevens = {std::int8_t{7},   std::uint8_t{7},  std::int16_t{7}, std::uint16_t{7},
                                     std::int32_t{7},  std::uint32_t{7}, std::int64_t{7}, std::uint64_t{7},
                                     std::string("7"), Bytes{"7"}};
  for (std::size_t i = 0; i < sevens.size(); ++i) {
    const Failure f = failure_of(Table{{"retry-id", sevens[i]},
                                       {"retry-attempt", sevens[i]},
                                       {"retry-after", sevens[i]},
                                       {"retry-max-attempts", sevens[i]}});
    ASSERT_TRUE(f.id) << i;
    EXPECT_EQ(f.id->value, 7) << i;
    EXPECT_EQ(f.attempt, 7) << i;
    EXPECT_EQ(f.directives.retry_after, seconds(7)) << i;
    EXPECT_EQ(f.directives.max_attempts, 7) << i;
    EXPECT_EQ(f.directives.complaint, "") << i;
  }
}

TEST(ReadFailure, AnIdOrAttemptThatIsNone) {
  for (const Value& v : {Value{}, Value{0}, Value{-1}, Value{""}, Value{"0"}, Value{"-4"}, Value{"x"},
                         Value{"7x"}, Value{7.0}, Value{true}, Value{Table{}},
                         Value{std::numeric_limits<std::uint64_t>::max()}, Value{"9223372036854775808"}}) {
    const Failure f = failure_of(Table{{"retry-id", v}, {"retry-attempt", v}});
    EXPECT_FALSE(f.id);
    EXPECT_EQ(f.attempt, 0);
  }
  const Failure far = failure_of(Table{{"retry-attempt", std::int64_t{5'000'000'000}}});
  EXPECT_EQ(far.attempt, 0);
  EXPECT_NE(far.directives.complaint.find("retry-attempt is not understood"), std::string::npos);
  EXPECT_EQ(failure_of(Table{{"retry-attempt", Value{}}}).directives.complaint, "") << "null is not said";
  EXPECT_EQ(failure_of(Table{{"retry-id", "9223372036854775807"}}).id->value, 9223372036854775807);
}

TEST(ReadFailure, AQueueThatIsNoneIsToldWithTheError) {
  const Failure f = failure_of(Table{{"retry-queue", "\xff"}, {"retry-error", "no stock"}});
  EXPECT_EQ(f.queue, "");
  EXPECT_EQ(f.error, "no stock [retry-queue is not understood: expected the name of a queue]");
  EXPECT_EQ(failure_of(Table{{"retry-queue", 5}, {"retry-error", "no"}}, facts_of("orders")).error, "no")
      << "elsewhere the row says it";
}

TEST(ReadFailure, RetryAfter) {
  EXPECT_EQ(directives("retry-after", "1m30s").retry_after, seconds(90));
  EXPECT_EQ(directives("retry-after", Bytes{"2h"}).retry_after, hours(2));
  EXPECT_EQ(directives("retry-after", 0).retry_after, Ms(0));
  EXPECT_EQ(directives("retry-after", std::numeric_limits<std::int64_t>::max()).retry_after, levels::kLongest)
      << "too long is capped, as the ladder caps it anyway";
  for (const Value& v : {Value{-1}, Value{"soon"}, Value{"1.5h"}, Value{""}, Value{1.5}, Value{true},
                         Value{Array{}}, Value{Timestamp{5}}}) {
    const Directives d = directives("retry-after", v);
    EXPECT_FALSE(d.retry_after);
    EXPECT_NE(d.complaint.find("retry-after"), std::string::npos);
  }
}

TEST(ReadFailure, RetryMaxAttempts) {
  EXPECT_TRUE(directives("retry-max-attempts", 0).never);
  EXPECT_EQ(directives("retry-max-attempts", 1'000'000).max_attempts, 1'000'000);
  for (const Value& v : {Value{-1}, Value{1'000'001}, Value{"many"}, Value{2.5}, Value{Table{}}}) {
    const Directives d = directives("retry-max-attempts", v);
    EXPECT_EQ(d.max_attempts, 0);
    EXPECT_FALSE(d.never);
    EXPECT_NE(d.complaint, "");
  }
}

TEST(ReadFailure, RetryNever) {
  for (const Value& v : {Value{true}, Value{1}, Value{"true"}, Value{"True"}, Value{"yes"}, Value{"1"},
                         Value{std::uint8_t{1}}}) {
    EXPECT_TRUE(directives("retry-never", v).never);
    EXPECT_EQ(directives("retry-never", v).complaint, "");
  }
  for (const Value& v : {Value{false}, Value{0}, Value{"false"}, Value{"False"}, Value{"no"}, Value{"0"}}) {
    EXPECT_FALSE(directives("retry-never", v).never);
    EXPECT_EQ(directives("retry-never", v).complaint, "");
  }
  const Directives unclear = directives("retry-never", "perhaps");
  EXPECT_TRUE(unclear.never) << "a person shall look";
  EXPECT_NE(unclear.complaint, "");
}

TEST(ReadFailure, NullIsNotSaid) {
  const Failure f = failure_of(Table{{"retry-after", Value{}},
                                     {"retry-max-attempts", Value{}},
                                     {"retry-never", Value{}},
                                     {"retry-ladder", Value{}},
                                     {"retry-queue", Value{}},
                                     {"retry-error", Value{}}});
  EXPECT_EQ(f.directives.complaint, "");
  EXPECT_FALSE(f.directives.never);
  EXPECT_FALSE(f.directives.retry_after);
  EXPECT_EQ(f.directives.ladder, "");
}

TEST(ReadFailure, EveryComplaintIsHeard) {
  const Failure f =
      failure_of(Table{{"retry-after", "x"}, {"retry-max-attempts", "x"}, {"retry-never", "x"}});
  for (const char* name : {"retry-after", "retry-max-attempts", "retry-never"}) {
    EXPECT_NE(f.directives.complaint.find(name), std::string::npos) << f.directives.complaint;
  }
}

TEST(ReadFailure, TheFirstOfARepeatedHeaderHolds) {
  EXPECT_EQ(failure_of(Table{{"retry-queue", "a"}, {"retry-queue", "b"}}).queue, "a");
}

// ---- results

TEST(ReadResult, SucceededAndFailed) {
  const ResultWord yes =
      read_result(message_with({{"retry-id", "12"}, {"retry-attempt", 3}, {"retry-result", "succeeded"}}));
  EXPECT_EQ(yes.complaint, "");
  EXPECT_EQ(yes.id->value, 12);
  EXPECT_EQ(yes.attempt, 3);
  EXPECT_TRUE(yes.succeeded);
  const ResultWord no = read_result(message_with({{"retry-id", std::int64_t{12}},
                                                  {"retry-result", "failed"},
                                                  {"retry-error", "boom"},
                                                  {"retry-error-type", "E"},
                                                  {"retry-after", "10s"}}));
  EXPECT_EQ(no.complaint, "");
  EXPECT_FALSE(no.succeeded);
  EXPECT_EQ(no.attempt, 0);
  EXPECT_EQ(no.error, "boom");
  EXPECT_EQ(no.error_type, "E");
  EXPECT_EQ(no.directives.retry_after, seconds(10));
}

TEST(ReadResult, WhatCannotBeUsedSaysWhy) {
  EXPECT_NE(read_result(Message{}).complaint.find("retry-id"), std::string::npos);
  EXPECT_NE(read_result(message_with({{"retry-result", "succeeded"}})).complaint.find("retry-id"),
            std::string::npos);
  for (const Value& v : {Value{""}, Value{"Succeeded"}, Value{"ok\xFF"}, Value{true}, Value{Table{}}}) {
    const ResultWord r = read_result(message_with({{"retry-id", 5}, {"retry-result", v}}));
    EXPECT_NE(r.complaint.find("retry-result"), std::string::npos);
    EXPECT_TRUE(is_utf8(r.complaint));
    EXPECT_FALSE(r.succeeded);
  }
  EXPECT_NE(read_result(message_with({{"retry-id", 5}})).complaint, "");
}

// ---- what goes out again

TEST(Strip, TakesOffOursAndKeepsTheBrokersForTheRow) {
  BrokerFacts facts;
  facts.headers = {{"x-mark", Array{Table{{"queue", "q"}}}}, {"x-count", 4}};
  facts.delay.header = "x-wait";
  Table taken = {{"x-wait", 5000}};
  for (const char* ours :
       {"retry-id", "retry-attempt", "retry-level", "retry-levels", "retry-ladder", "retry-first-failed-at",
        "retry-queue", "retry-error", "retry-error-type", "retry-after", "retry-max-attempts", "retry-never",
        "retry-result", "retry-not-before", "retry-origin-exchange", "retry-origin-routing-key",
        "retry-reason"}) {
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

TEST(Strip, AbsentDeliveryModeIsTransientAndGoesOutPersistent) {
  std::string origin;
  EXPECT_EQ(strip(Message{}, &origin).properties.delivery_mode, 2);
  EXPECT_NE(origin.find("transient"), std::string::npos);
  Message persistent;
  persistent.properties.delivery_mode = std::uint8_t{2};
  (void)strip(persistent, &origin);
  EXPECT_EQ(origin, "{}");
  EXPECT_EQ(strip(persistent, nullptr).properties.delivery_mode, 2);
}

TEST(Strip, TwiceIsOnce) {
  const Message once = strip(message_with({{"retry-id", "7"}, {"app", 1}}), nullptr);
  EXPECT_EQ(strip(once, nullptr), once);
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

TEST(Dress, WhatItPutsOnIsReadBackAndTakenOffAgain) {
  Task t;
  t.id = {77};
  t.attempt = 2;
  t.ladder = "default";
  const Message m = strip(message_with({{"app", 1}}), nullptr);
  const Message dressed = dress(m, t, "1-token");
  const Failure f = failure_of(dressed);
  EXPECT_EQ(f.id, t.id);
  EXPECT_EQ(f.attempt, 2);
  EXPECT_EQ(strip(dressed, nullptr), m);
}

}  // namespace
}  // namespace rung
