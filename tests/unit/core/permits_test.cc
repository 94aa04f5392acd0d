// How permits are granted.
#include "src/core/permits.h"

#include <gtest/gtest.h>

#include <numeric>

namespace rung {
namespace {

constexpr EpochMs kPermitsFrom{1'700'000'000'000};

int total_of(const PermitCounts& counts) {
  return std::accumulate(counts.begin(), counts.end(), 0,
                         [](int sum, const auto& c) { return sum + c.second; });
}

// Permits in so many seconds, by an asker that asks every 50 ms for more than there is.
int granted_in(Ms time, PermitBook& book, const GateRules& rules, EpochMs& now,
               const PermitCounts& wanted = {{"", 1000}}) {
  int sum = 0;
  for (const EpochMs end = now + time; now < end; now = now + Ms{50})
    sum += total_of(grant(book, rules, {wanted, "", {}}, now));
  return sum;
}

TEST(Permits, StayWithinFivePercentOfTheRateOverTenSeconds) {
  for (const double rate : {2.0, 10.0, 200.0, 5000.0}) {
    GateRules rules;
    rules.rate = rate;
    PermitBook book;
    EpochMs now = kPermitsFrom;
    const double allowed = rate * 10;
    EXPECT_NEAR(granted_in(Ms{10'000}, book, rules, now, {{"", 100'000}}), allowed, allowed * 0.05 + 1);
    EXPECT_NEAR(granted_in(Ms{10'000}, book, rules, now, {{"", 100'000}}), allowed, allowed * 0.05);
    now = now + Ms{3'600'000};  // idle
    EXPECT_NEAR(granted_in(Ms{10'000}, book, rules, now, {{"", 100'000}}), allowed, allowed * 0.05 + 1);
  }
}

TEST(Permits, ASlowRateIsKeptToo) {
  GateRules rules;
  rules.rate = 1.0 / 60;
  PermitBook book;
  EpochMs now = kPermitsFrom;
  EXPECT_EQ(granted_in(Ms{59'000}, book, rules, now), 1);
  EXPECT_EQ(granted_in(Ms{60'000}, book, rules, now), 1);
}

TEST(Permits, AClockThatIsSetBackStopsNothingAndGrantsABurstAtMost) {
  GateRules rules;
  rules.rate = 10;
  PermitBook book;
  EXPECT_EQ(total_of(grant(book, rules, {{{"", 100}}, "", {}}, kPermitsFrom)), 3);
  EXPECT_EQ(total_of(grant(book, rules, {{{"", 100}}, "", {}}, kPermitsFrom - Ms{60'000})), 0);
  EXPECT_EQ(total_of(grant(book, rules, {{{"", 100}}, "", {}}, kPermitsFrom - Ms{59'900})), 1);
  EXPECT_EQ(total_of(grant(book, rules, {{{"", 100}}, "", {}}, kPermitsFrom + Ms{100})), 3);
}

TEST(Permits, EachValueHasARateOfItsOwn) {
  GateRules rules;
  rules.rate_by = RateBy{"tenant", 5};
  PermitBook book;
  EpochMs now = kPermitsFrom;
  std::map<std::string, int> got;
  for (int i = 0; i < 200; ++i, now = now + Ms{50}) {
    for (const auto& [value, count] :
         grant(book, rules, {{{"", 7}, {"a", 1000}, {"b", i == 100 ? 1 : 0}}, "", {}}, now))
      got[value] += count;
  }
  EXPECT_NEAR(got["a"], 50, 2.5);
  EXPECT_EQ(got["b"], 1) << "at once, however much the other waits";
  EXPECT_EQ(got[""], 1400) << "a message without the header is not limited";
}

TEST(Permits, ValuesShareTheQueuesRateAndNoneStarves) {
  GateRules rules;
  rules.rate = 10;
  rules.rate_by = RateBy{"tenant", 100};
  PermitBook book;
  PermitCounts wanted;
  for (char c = 'a'; c <= 'j'; ++c) wanted[std::string(1, c)] = 50;
  std::map<std::string, int> got;
  std::string turn;
  for (EpochMs now = kPermitsFrom; now < kPermitsFrom + Ms{10'000}; now = now + Ms{50}) {
    for (const auto& [value, count] : grant(book, rules, {wanted, turn, {}}, now)) {
      got[value] += count;
      turn = value + '\0';
    }
  }
  EXPECT_EQ(got.size(), 10U);
  for (const auto& [value, count] : got) EXPECT_NEAR(count, 10, 3) << value;
}

TEST(Permits, NoMoreInFlightThanAllowed) {
  GateRules rules;
  rules.in_flight = 50;
  PermitBook book;
  book.in_flight = 47;
  EXPECT_EQ(total_of(grant(book, rules, {{{"", 10}}, "", {}}, kPermitsFrom)), 3);
  book.in_flight = 60;  // the limit was lowered
  EXPECT_EQ(total_of(grant(book, rules, {{{"", 10}}, "", {}}, kPermitsFrom)), 0);
}

TEST(Permits, ALowerRateWhileTheFlowGrows) {
  GateRules rules;
  rules.in_flight = 1000;
  PermitBook book;
  EXPECT_EQ(total_of(grant(book, rules, {{{"", 500}}, "", 20.0}, kPermitsFrom)), 5)
      << "a burst of one, and of 200 ms";
  EXPECT_EQ(total_of(grant(book, rules, {{{"", 500}}, "", 20.0}, kPermitsFrom + Ms{1000})), 5);
  EXPECT_EQ(total_of(grant(book, rules, {{{"", 500}}, "", {}}, kPermitsFrom + Ms{2000})), 500);
}

TEST(Permits, WhatIsNotUsedGoesBack) {
  GateRules rules;
  rules.rate = 10;
  rules.rate_by = RateBy{"tenant", 5};
  PermitBook book;
  EXPECT_EQ(total_of(grant(book, rules, {{{"a", 9}}, "", {}}, kPermitsFrom)), 2);
  give_back(book, rules, {{"a", 2}});
  EXPECT_EQ(total_of(grant(book, rules, {{{"a", 9}}, "", {}}, kPermitsFrom)), 2);
}

}  // namespace
}  // namespace rung
