// How send times are given.
#include "src/core/gates/send_times.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace rung {
namespace {

constexpr EpochMs kFrom{1'700'000'000'000};

SendRequest asking(double rate, double rate_by, const std::map<std::string, std::size_t>& wanted) {
  SendRequest request;
  request.queue = "orders";
  request.rate = rate;
  request.rate_by = rate_by;
  request.horizon = send_horizon(rate, rate_by);
  for (const auto& [value, count] : wanted) request.values.push_back({value, std::vector<EpochMs>(count)});
  return request;
}

std::vector<EpochMs> given(SendBook& book, const SendRequest& request, EpochMs now) {
  std::vector<EpochMs> all;
  for (const SendTimes::Of& of : take(book, request, now).values)
    all.insert(all.end(), of.given.begin(), of.given.end());
  std::ranges::sort(all);
  return all;
}

// Send times of `time`, for `askers` that ask at random moments for more than there is.
std::vector<EpochMs> taken_in(Ms time, double rate, int askers, SendBook& book, EpochMs& now) {
  std::minstd_rand dice(7);
  std::vector<EpochMs> all;
  const std::size_t each = static_cast<std::size_t>(rate * 1.2 / askers) + 1;
  for (const EpochMs end = now + time; now < end;
       now = now + Ms{std::uniform_int_distribution(1, 100)(dice)}) {
    for (int i = 0; i < askers; ++i) {
      for (const EpochMs at : given(book, asking(rate, 0, {{"", each}}), now)) {
        EXPECT_GE(at, now);
        EXPECT_LE(at, now + kSendHorizon);
        if (at < end) all.push_back(at);
      }
    }
  }
  std::ranges::sort(all);
  return all;
}

TEST(SendTimes, StayWithinOnePercentOfTheRateOverTenSeconds) {
  for (const int askers : {1, 2, 4}) {
    for (const double rate : {10.0, 200.0, 3333.0}) {
      SendBook book;
      EpochMs now = kFrom;
      taken_in(Ms{2000}, rate, askers, book, now);
      const double allowed = rate * 10;
      const auto all = taken_in(Ms{10'000}, rate, askers, book, now);
      // What was taken for these 10 s before them, a second ahead at most.
      const auto from = std::ranges::count_if(all, [&](EpochMs at) { return at >= now - Ms{9000}; });
      EXPECT_NEAR(static_cast<double>(from), allowed * 0.9, allowed * 0.009 + 1) << rate << ", " << askers;
    }
  }
}

TEST(SendTimes, AfterAnIdleTimeOneAndThoseOf200MsGoAtOnce) {
  SendBook book;
  const auto at_once = [&](EpochMs now) {
    return std::ranges::count(given(book, asking(200, 0, {{"", 300}}), now), now);
  };
  EXPECT_EQ(at_once(kFrom), 41);
  EXPECT_EQ(at_once(kFrom + Ms{2'000'000}), 41);
  EXPECT_EQ(at_once(kFrom + Ms{2'000'010}), 0);
}

TEST(SendTimes, ASlowRateIsKeptAndNothingIsTakenFarAhead) {
  SendBook book;
  const SendRequest request = asking(1.0 / 60, 0, {{"", 4}});
  EXPECT_EQ(given(book, request, kFrom), (std::vector{kFrom}));
  const SendTimes later = take(book, request, kFrom + Ms{10});
  EXPECT_TRUE(later.values[0].given.empty());
  EXPECT_EQ(later.values[0].next, kFrom + Ms{59'800});
  EXPECT_EQ(given(book, request, kFrom + Ms{59'600}), (std::vector{kFrom + Ms{59'800}}));
  EXPECT_TRUE(given(book, request, kFrom + Ms{60'100}).empty());
  EXPECT_EQ(given(book, request, kFrom + Ms{119'900}), (std::vector{kFrom + Ms{119'900}}));
  EXPECT_EQ(given(book, request, kFrom + Ms{179'700}), (std::vector{kFrom + Ms{179'800}})) << "no drift";
}

TEST(SendTimes, NoneIsGivenTwice) {
  SendBook book;
  std::vector<EpochMs> all;
  for (int i = 0; i < 30; ++i) {
    const auto more = given(book, asking(20, 0, {{"", 3}}), kFrom + Ms{i * 40});
    all.insert(all.end(), more.begin(), more.end());
  }
  ASSERT_GT(all.size(), 20U);
  std::ranges::sort(all);
  // Beyond the burst of five, each has 50 ms of its own.
  EXPECT_EQ(std::adjacent_find(all.begin() + 5, all.end()), all.end());
}

TEST(SendTimes, ATaskThatIsNotDueYetGetsItsDueTime) {
  SendBook book;
  SendRequest request = asking(20, 0, {{"", 1}});
  request.values[0].due = {kFrom + Ms{100}};
  EXPECT_EQ(given(book, request, kFrom), (std::vector{kFrom + Ms{100}}));
}

TEST(SendTimes, AClockThatIsSetBackStopsNothing) {
  SendBook book;
  given(book, asking(10, 0, {{"", 100}}), kFrom);
  const EpochMs before = kFrom - Ms{60'000};
  const auto times = given(book, asking(10, 0, {{"", 100}}), before);
  ASSERT_FALSE(times.empty());
  EXPECT_LE(times.front(), before + Ms{100});
  EXPECT_LE(times.size(), 11U) << "and no burst";
  const auto small = given(book, asking(10, 0, {{"", 100}}), before - Ms{300});
  EXPECT_TRUE(small.empty()) << "those were given";
}

TEST(SendTimes, ARateThatIsRaisedAppliesAtOnce) {
  SendBook book;
  given(book, asking(1.0 / 3600, 0, {{"", 2}}), kFrom);
  const auto times = given(book, asking(200, 0, {{"", 2}}), kFrom + Ms{1000});
  ASSERT_EQ(times.size(), 2U);
  EXPECT_LE(times.back(), kFrom + Ms{1100});
}

TEST(SendTimes, EachValueHasARateOfItsOwn) {
  SendBook book;
  std::map<std::string, std::size_t> got;
  for (EpochMs now = kFrom; now < kFrom + Ms{10'000}; now = now + Ms{50}) {
    const SendRequest request = asking(0, 5, {{"a", 1000}, {"b", now == kFrom + Ms{5000} ? 1U : 0U}});
    const SendTimes times = take(book, request, now);
    for (std::size_t i = 0; i < 2; ++i) got[request.values[i].value] += times.values[i].given.size();
    if (now == kFrom + Ms{5000}) {
      EXPECT_EQ(times.values[1].given, (std::vector{now})) << "however much waits";
    }
  }
  EXPECT_NEAR(static_cast<double>(got["a"]), 56, 2) << "and a second ahead";
}

TEST(SendTimes, ValuesShareTheQueuesRateAndASlowOneBlocksNone) {
  SendBook book;
  std::map<std::string, std::size_t> wanted;
  for (char c = 'a'; c <= 'j'; ++c) wanted[std::string(1, c)] = 50;
  std::map<std::string, std::size_t> got;
  std::size_t sum = 0;
  for (EpochMs now = kFrom; now < kFrom + Ms{10'000}; now = now + Ms{50}) {
    SendRequest request = asking(10, 2, wanted);
    std::ranges::rotate(request.values, request.values.begin() + static_cast<std::ptrdiff_t>(sum % 10));
    const SendTimes times = take(book, request, now);
    for (std::size_t i = 0; i < times.values.size(); ++i) {
      got[request.values[i].value] += times.values[i].given.size();
      sum += times.values[i].given.size();
    }
  }
  EXPECT_NEAR(static_cast<double>(sum), 100, 5);
  for (const auto& [value, count] : got) EXPECT_NEAR(static_cast<double>(count), 10, 3) << value;
  // One value alone: its own rate.
  SendBook alone;
  take(alone, asking(100, 2, {{"slow", 50}}), kFrom);
  EXPECT_EQ(given(alone, asking(100, 2, {{"other", 1}}), kFrom + Ms{10}), (std::vector{kFrom + Ms{10}}));
}

TEST(SendTimes, OneGrantIsSharedByItsValues) {
  SendBook book;
  const SendTimes times = take(book, asking(10, 1000, {{"large", 500}, {"small", 500}}), kFrom);
  ASSERT_EQ(times.values.size(), 2U);
  const auto one = static_cast<double>(times.values[0].given.size());
  EXPECT_GE(one, 1);
  EXPECT_NEAR(one, static_cast<double>(times.values[1].given.size()), 1);
}

}  // namespace
}  // namespace rung
