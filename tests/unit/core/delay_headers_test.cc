// What a delayed message asks for: every form in which clients write it, and what cannot be meant.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "src/core/machine/headers.h"
#include "src/core/message/identity.h"

namespace rung {
namespace {

using testing::HasSubstr;

constexpr EpochMs kNow{1'800'000'000'000};
const DelayRoutes kRoutes{"rung.delay", {{"my-delayed", "my-exchange"}, {"plain", "amq.direct"}}};

Message delayed_with(Table headers) {
  Message m;
  m.body = "body";
  m.headers = std::move(headers);
  return m;
}
DelayRequest request_of(Table headers, std::string_view exchange = "rung.delay",
                        std::string_view key = "orders", const DelayFacts& asked = {}) {
  return read_delay(delayed_with(std::move(headers)), exchange, key, kRoutes, asked);
}
DelayRequest after(Ms delay, Table headers = {}) {
  return request_of(std::move(headers), "rung.delay", "orders", {delay, "", "x-wait"});
}

TEST(ReadDelay, TheReasonsAreForPeople) {
  EXPECT_EQ(request_of({}, "rung.delay", "orders", {Ms{0}, "too long", "x-wait"}).refusal, "too long");
  EXPECT_EQ(
      request_of({{"retry-not-before", 1'800'000'000}}).refusal,
      "retry-not-before 1800000000 looks like seconds since 1970: it must be in milliseconds (1000 times as "
      "much)");
}

TEST(ReadDelay, NotBefore) {
  const EpochMs later = kNow + std::chrono::hours{2};
  EXPECT_EQ(request_of({{"retry-not-before", later.ms}}).due(kNow), later);
  EXPECT_EQ(request_of({{"retry-not-before", std::to_string(later.ms)}}).due(kNow), later);
  EXPECT_EQ(
      request_of({{"retry-not-before", Timestamp{static_cast<std::uint64_t>(later.ms / 1000)}}}).due(kNow),
      later);
  EXPECT_EQ(request_of({{"retry-not-before", static_cast<double>(later.ms)}}).due(kNow), later);
  // Over is at once.
  for (const std::int64_t past : {kNow.ms - 1, std::int64_t{0}, std::int64_t{-7}, std::int64_t{999'999'999}})
    EXPECT_EQ(request_of({{"retry-not-before", past}}).due(kNow), kNow) << past;
  EXPECT_EQ(request_of({{"retry-not-before", Timestamp{7}}}).due(kNow), kNow);
  // As seconds since 1970 these would be dates from 2001 to 5138.
  for (const std::int64_t like_seconds : {std::int64_t{1'000'000'000}, std::int64_t{99'999'999'999}})
    EXPECT_THAT(request_of({{"retry-not-before", like_seconds}}).refusal, HasSubstr("looks like seconds"));
  EXPECT_EQ(request_of({{"retry-not-before", std::int64_t{100'000'000'000}}}).refusal, "");
  // Of both the later one.
  EXPECT_EQ(after(Ms{1000}, {{"retry-not-before", later.ms}}).due(kNow), later);
  EXPECT_EQ(after(Ms{10'000'000}, {{"retry-not-before", later.ms}}).due(kNow), kNow + Ms{10'000'000});
  for (const Value& wrong :
       {Value{"tomorrow"}, Value{std::int64_t{253'402'300'800'000}}, Value{Timestamp{253'402'300'800}},
        Value{std::numeric_limits<std::uint64_t>::max()}, Value{Table{}}, Value{false}})
    EXPECT_THAT(request_of({{"retry-not-before", wrong}}).refusal, HasSubstr("retry-not-before"));
}

struct Where {
  const char* name;
  Table headers;
  const char* exchange;
  const char* key;
  Target target;
  const char* otherwise;
};

TEST(ReadDelay, Targets) {
  const std::vector<Where> cases = {
      {"straight to rung.delay: the routing key, if no tag says", {}, "rung.delay", "orders", {}, "orders"},
      {"straight to its queue", {}, "", "rung.delay", {}, ""},
      {"itself", {}, "rung.delay", "rung.delay", {}, ""},
      {"an exchange that is bound to it", {}, "somebody's", "orders", {}, ""},
      {"mapped, its key kept", {}, "my-delayed", "a.b", {"", "my-exchange", "a.b"}, ""},
      {"mapped, without a key", {}, "my-delayed", "", {"", "my-exchange", ""}, ""},
      {"retry-queue", {{"retry-queue", "bills"}}, "my-delayed", "a.b", {"bills", "", ""}, ""},
      {"retry-exchange", {{"retry-exchange", "x"}}, "my-delayed", "a.b", {"", "x", "a.b"}, ""},
      {"both headers", {{"retry-exchange", "x"}, {"retry-routing-key", "k"}}, "", "o", {"", "x", "k"}, ""},
      {"a key for the mapping",
       {{"retry-routing-key", "k"}},
       "my-delayed",
       "a",
       {"", "my-exchange", "k"},
       ""},
      {"a key alone is a queue", {{"retry-routing-key", "k"}}, "rung.delay", "o", {"k", "", ""}, ""},
      {"the default exchange is a queue", {{"retry-exchange", ""}}, "rung.delay", "o", {"o", "", ""}, ""},
      {"null is not said",
       {{"retry-queue", Value{}}, {"retry-exchange", Value{}}},
       "rung.delay",
       "o",
       {},
       "o"},
      {"an empty queue is not said", {{"retry-queue", ""}}, "rung.delay", "o", {}, "o"},
  };
  for (const Where& one : cases) {
    const DelayRequest request = request_of(one.headers, one.exchange, one.key);
    EXPECT_EQ(request.target, one.target) << one.name;
    EXPECT_EQ(request.otherwise, one.otherwise) << one.name;
    EXPECT_EQ(request.refusal, "") << one.name;
  }
}

TEST(ReadDelay, NamesThatCannotBeKeptArePutAside) {
  const std::string long_name(256, 'q');
  EXPECT_THAT(request_of({{"retry-queue", long_name}}).refusal, HasSubstr("retry-queue is not a valid name"));
  EXPECT_THAT(request_of({{"retry-exchange", "\xff"}}).refusal,
              HasSubstr("retry-exchange is not a valid name"));
  EXPECT_THAT(request_of({{"retry-routing-key", 7}}).refusal,
              HasSubstr("retry-routing-key is not a valid name"));
  EXPECT_THAT(request_of({}, "my-delayed", "\xff\xfe").refusal, HasSubstr("routing key cannot be stored"));
  EXPECT_EQ(request_of({}, "rung.delay", "\xff\xfe").otherwise, "");
}

TEST(ReadDelay, WhatItSaysOfItsRetries) {
  const auto said = [](Table headers) { return request_of(std::move(headers)).directives; };
  EXPECT_EQ(said({{"retry-ladder", "slow"}}).ladder, "slow");
  EXPECT_EQ(said({{"retry-ladder", "slow"}, {"retry-id", "7"}}).ladder, "") << "copied from a delivery";
  EXPECT_EQ(said({{"retry-max-attempts", 3}}).max_attempts, 3);
  // Before a failure "never again" means: once. It is not parked undelivered.
  EXPECT_EQ(said({{"retry-max-attempts", 0}}).max_attempts, 1);
  EXPECT_EQ(said({{"retry-never", true}}).max_attempts, 1);
  EXPECT_FALSE(said({{"retry-never", true}}).never);
  EXPECT_FALSE(said({{"retry-after", "5s"}}).retry_after);
  EXPECT_THAT(said({{"retry-max-attempts", "many"}}).complaint, HasSubstr("retry-max-attempts"));
}

TEST(ReadDelay, ItsKeyCoversTargetAndDelay) {
  Message m = delayed_with({{"x-wait", 5000}});
  BrokerFacts asked;
  asked.delay = {Ms{5000}, "", "x-wait"};
  m.properties.message_id = "m-1";
  const auto key = [&](const Message& message, std::string_view exchange = "my-delayed",
                       std::string_view k = "a") {
    return intake_key(read_delay(message, exchange, k, kRoutes, asked.delay), message,
                      message_digest(strip(message, nullptr, asked)));
  };
  const std::string first = key(m);
  EXPECT_EQ(first.size(), 16U);
  Message same = m;
  same.headers = Table{{"x-wait", "5000"}};
  EXPECT_EQ(key(same), first) << "the same delay in another form";
  EXPECT_NE(key(m, "plain"), first) << "exchange";
  EXPECT_NE(key(m, "my-delayed", "b"), first) << "routing key";
  EXPECT_NE(key(m, "rung.delay", "a"), key(m, "rung.delay", "b")) << "queue";
  const auto differs = [&](const char* what, auto change) {
    Message other = m;
    change(other);
    EXPECT_NE(key(other), first) << what;
  };
  asked.delay.delay = Ms{5001};
  EXPECT_NE(key(m), first) << "delay";
  asked.delay.delay = Ms{5000};
  differs("not before", [](Message& o) { o.headers->emplace_back("retry-not-before", kNow.ms); });
  differs("message-id", [](Message& o) { o.properties.message_id = "m-2"; });
  differs("a header", [](Message& o) { o.headers->emplace_back("tries", 1); });
  differs("a delivery of ours, published again", [](Message& o) {
    o.headers->emplace_back("retry-id", "7");
    o.headers->emplace_back("retry-attempt", 1);
  });
  differs("body", [](Message& o) { o.body = "bodz"; });
  differs("tag", [](Message& o) { o.properties.type = "t"; });
  m.properties.message_id.reset();
  EXPECT_EQ(key(m), "");
}

TEST(ReadExecutor, OfAFailureAndOfAResult) {
  EXPECT_EQ(read_failure(delayed_with({{"retry-executor", "10.0.0.7:4711"}}), "", "").executor,
            "10.0.0.7:4711");
  EXPECT_EQ(read_failure(delayed_with({}), "", "").executor, "");
  EXPECT_EQ(read_result(delayed_with({{"retry-executor", std::string(300, 'x')}})).executor.size(), 255U);
}

}  // namespace
}  // namespace rung
