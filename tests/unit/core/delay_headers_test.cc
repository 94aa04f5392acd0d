// What a delayed message asks for: every form in which clients write it, and what cannot be meant.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "levels/duration.h"
#include "src/core/headers.h"

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
                        std::string_view key = "orders") {
  return read_delay(delayed_with(std::move(headers)), exchange, key, kRoutes);
}

struct Case {
  const char* name;
  Value value;
  std::int64_t delay;  // ms; -1: parked
};

TEST(ReadDelay, EveryFormOfXDelay) {
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
    const DelayRequest request = request_of({{"x-delay", one.value}});
    if (one.delay < 0) {
      EXPECT_THAT(request.refusal, HasSubstr("x-delay")) << one.name;
      continue;
    }
    EXPECT_EQ(request.refusal, "") << one.name;
    EXPECT_EQ(request.delay.count(), one.delay) << one.name;
    EXPECT_EQ(request.due(kNow), kNow + Ms{one.delay}) << one.name;
  }
  EXPECT_EQ(request_of({}).due(kNow), kNow) << "nothing said: at once";
}

TEST(ReadDelay, TheReasonsAreForPeople) {
  EXPECT_EQ(request_of({{"x-delay", "soon"}}).refusal, "x-delay 'soon' is no number of milliseconds");
  EXPECT_EQ(request_of({{"x-delay", true}}).refusal, "x-delay is no number of milliseconds");
  EXPECT_EQ(request_of({{"x-delay", std::numeric_limits<std::int64_t>::max()}}).refusal,
            "x-delay is longer than 3650d, the longest delay that is taken");
  EXPECT_EQ(
      request_of({{"retry-not-before", 1'800'000'000}}).refusal,
      "retry-not-before 1800000000 looks like seconds since 1970: milliseconds belong there (1000 times as "
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
  // Of both the later one.
  EXPECT_EQ(request_of({{"x-delay", 1000}, {"retry-not-before", later.ms}}).due(kNow), later);
  EXPECT_EQ(request_of({{"x-delay", 10'000'000}, {"retry-not-before", later.ms}}).due(kNow),
            kNow + Ms{10'000'000});
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
  EXPECT_THAT(request_of({{"retry-queue", long_name}}).refusal, HasSubstr("retry-queue is no name"));
  EXPECT_THAT(request_of({{"retry-exchange", "\xff"}}).refusal, HasSubstr("retry-exchange is no name"));
  EXPECT_THAT(request_of({{"retry-routing-key", 7}}).refusal, HasSubstr("retry-routing-key is no name"));
  EXPECT_THAT(request_of({}, "my-delayed", "\xff\xfe").refusal, HasSubstr("routing key cannot be kept"));
  EXPECT_EQ(request_of({}, "rung.delay", "\xff\xfe").otherwise, "");
}

TEST(ReadDelay, WhatItSaysOfItsRetries) {
  const auto said = [](Table headers) { return request_of(std::move(headers)).directives; };
  EXPECT_EQ(said({{"retry-ladder", "slow"}}).ladder, "slow");
  EXPECT_EQ(said({{"retry-max-attempts", 3}}).max_attempts, 3);
  // Before a failure "never again" means: once. It is not parked undelivered.
  EXPECT_EQ(said({{"retry-max-attempts", 0}}).max_attempts, 1);
  EXPECT_EQ(said({{"retry-never", true}}).max_attempts, 1);
  EXPECT_FALSE(said({{"retry-never", true}}).never);
  EXPECT_FALSE(said({{"retry-after", "5s"}}).retry_after);
  EXPECT_THAT(said({{"retry-max-attempts", "many"}}).complaint, HasSubstr("retry-max-attempts"));
}

TEST(ReadDelay, StripTakesOffWhatAskedForTheDelay) {
  const Message m = delayed_with({{"x-delay", 5},
                                  {"app", 1},
                                  {"retry-not-before", 5},
                                  {"retry-exchange", "x"},
                                  {"CC", Array{"q"}},
                                  {"BCC", Array{"q"}},
                                  {"retry-routing-key", "k"},
                                  {"retry-ladder", "slow"},
                                  {"retry-executor", "me"}});
  std::string origin;
  EXPECT_EQ(strip(m, &origin, header::kDelay).headers, (Table{{"app", 1}}));
  EXPECT_THAT(origin, HasSubstr("x-delay"));
  // Of a failed message it is not ours: the plugin leaves it behind.
  EXPECT_NE(find(strip(m, nullptr).headers, "x-delay"), nullptr);
}

TEST(ReadDelay, DressSaysNothingOfAFailureThatWasNot) {
  Task t;
  t.id = {7};
  t.kind = Kind::delay;
  t.attempt = 1;
  t.level = 0;
  t.levels = 3;
  t.ladder = "default";
  const Table expected = {{"retry-id", "7"},
                          {"retry-attempt", std::int64_t{1}},
                          {"retry-level", std::int64_t{0}},
                          {"retry-levels", std::int64_t{3}},
                          {"retry-ladder", "default"},
                          {"retry-token", "1-token"}};
  EXPECT_EQ(dress(Message{}, t, "1-token").headers, expected);
}

TEST(ReadDelay, ItsKeyCoversTargetAndDelay) {
  Message m = delayed_with({{"x-delay", 5000}});
  m.properties.message_id = "m-1";
  const auto key = [&](const Message& message, std::string_view exchange = "my-delayed",
                       std::string_view k = "a") {
    return intake_key(read_delay(message, exchange, k, kRoutes), message,
                      strip(message, nullptr, header::kDelay));
  };
  const std::string first = key(m);
  EXPECT_EQ(first.size(), 16U);
  Message same = m;
  same.headers = Table{{"x-delay", "5000"}, {"x-delivery-count", 1}};
  EXPECT_EQ(key(same), first) << "what the broker adds, when it brings it again";
  EXPECT_NE(key(m, "plain"), first) << "exchange";
  EXPECT_NE(key(m, "my-delayed", "b"), first) << "routing key";
  EXPECT_NE(key(m, "rung.delay", "a"), key(m, "rung.delay", "b")) << "queue";
  const auto differs = [&](const char* what, auto change) {
    Message other = m;
    change(other);
    EXPECT_NE(key(other), first) << what;
  };
  differs("delay", [](Message& o) { o.headers = Table{{"x-delay", 5001}}; });
  differs("not before", [](Message& o) { o.headers->emplace_back("retry-not-before", kNow.ms); });
  differs("message-id", [](Message& o) { o.properties.message_id = "m-2"; });
  differs("a header", [](Message& o) { o.headers->emplace_back("tries", 1); });
  differs("a delivery of ours, published again", [](Message& o) {
    o.headers->emplace_back("retry-id", "7");
    o.headers->emplace_back("retry-attempt", 1);
  });
  differs("body", [](Message& o) { o.body = "bodz"; });
  differs("tag", [](Message& o) { o.properties.type = "t"; });
  differs("timestamp", [](Message& o) { o.properties.timestamp = 7; });
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
