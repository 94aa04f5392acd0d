// What is read from headers: the oddities of clients.
#include "src/core/machine/headers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "src/core/base/utf8.h"
#include "src/core/message/identity.h"
#include "src/core/message/message.h"
#include "tests/unit/core/failures.h"

namespace rung {
namespace {

using rung::testing::failure_of;
using rung::testing::message_with;
using std::chrono::hours;
using std::chrono::seconds;

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

TEST(ReadFacts, NoneAndNoHeadersAtAll) {
  const Failure f = failure_of(Message{});
  EXPECT_EQ(f.queue, "");
  EXPECT_EQ(f.exchange, "rung.failed");
  EXPECT_EQ(f.routing_key, "rk");
  EXPECT_NE(f.error, "");
  EXPECT_EQ(f.directives.complaint, "");
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

// ---- whether the same failure was taken in twice: what its key covers, and what not

struct IntakeKey : ::testing::Test {
  Failure f;
  Message m;
  IntakeKey() {
    f.queue = "orders";
    f.failed_at_s = 1'700'000'000;
    f.failed_count = 2;
    m.body = "body";
    m.properties.message_id = "m-1";
  }
  std::string key() const { return intake_key(f, m, message_digest(strip(m, nullptr))); }
};

TEST_F(IntakeKey, TheSameAgain) {
  const std::string first = key();
  EXPECT_EQ(first.size(), 16u);
  f.error = "another text";
  f.directives.never = true;
  m.headers = Table{{"retry-error", "another text"}, {"retry-executor", "host-2"}};
  EXPECT_EQ(key(), first) << "what describes the failure";
}

TEST_F(IntakeKey, NotTheSame) {
  const std::string first = key();
  const auto differs = [&](const char* what, auto change) {
    const Failure f_before = f;
    const Message m_before = m;
    change();
    EXPECT_NE(key(), first) << what;
    EXPECT_EQ(key().size(), 16u) << what;
    f = f_before;
    m = m_before;
  };
  differs("queue", [&] { f.queue = "orders2"; });
  differs("message-id", [&] { m.properties.message_id = "m-2"; });
  differs("body", [&] { m.body = "bodz"; });
  differs("a header", [&] { m.headers = Table{{"x", 1}}; });
  differs("a property", [&] { m.properties.priority = std::uint8_t{3}; });
  differs("a property that is not published again", [&] { m.properties.expiration = "1000"; });
  differs("exchange", [&] { f.exchange = "events"; });
  differs("routing key", [&] { f.routing_key = "order.created"; });
  differs("died again", [&] { f.failed_count = 3; });
  differs("another death", [&] { f.failed_at_s = 1'700'000'001; });
  differs("no death", [&] { f.failed_at_s.reset(); });
  differs("fields that run together", [&] {
    f.queue = "order";
    m.properties.message_id = "sm-1";
  });
}

TEST_F(IntakeKey, NoneWithoutAMessageId) {
  m.properties.message_id.reset();
  EXPECT_EQ(key(), "");
  m.properties.message_id = "";
  EXPECT_EQ(key(), "");
}

}  // namespace
}  // namespace rung
