#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "src/core/gates/gates.h"

namespace rung {
namespace {

constexpr BootMs kFrom{5'000'000};

int taken(TokenBucket& bucket, double per_second, BootMs now) {
  bucket.fill(per_second, now);
  int count = 0;
  for (; bucket.has(); ++count) bucket.take();
  return count;
}

// Those who take late, by less than the burst, lose nothing.
TEST(TokenBucket, KeepsTheRateExactly) {
  std::minstd_rand dice(7);
  for (const double rate : {0.5, 10.0, 200.0, 3333.0}) {
    TokenBucket bucket(kFrom);
    int count = 0;
    for (BootMs now = kFrom; now < kFrom + Ms{100'000};
         now = now + Ms{std::uniform_int_distribution(1, 100)(dice)})
      count += taken(bucket, rate, now);
    EXPECT_NEAR(count, rate * 100, rate * 0.1 + 1) << rate;
  }
}

TEST(TokenBucket, SavesUpOneAndWhatTheRateGivesIn100Ms) {
  TokenBucket bucket(kFrom);
  EXPECT_EQ(taken(bucket, 200, kFrom), 0) << "it began empty";
  EXPECT_EQ(taken(bucket, 200, kFrom + Ms{3'600'000}), 21);
  EXPECT_EQ(taken(bucket, 200, kFrom + Ms{3'600'004}), 0);
  EXPECT_EQ(taken(bucket, 200, kFrom + Ms{3'600'005}), 1);
}

TEST(TokenBucket, AnotherRateAppliesFromNowOn) {
  TokenBucket bucket(kFrom);
  EXPECT_EQ(taken(bucket, 1.0 / 3600, kFrom + Ms{1000}), 0);
  EXPECT_EQ(taken(bucket, 200, kFrom + Ms{1100}), 20);
  EXPECT_EQ(taken(bucket, 1.0 / 3600, kFrom + Ms{1200}), 0);
}

TEST(TokenBucket, WithoutARateAllMayGo) {
  TokenBucket bucket(kFrom);
  bucket.fill(0, kFrom);
  for (int i = 0; i < 1'000'000; ++i) bucket.take();
  EXPECT_TRUE(bucket.has());
  EXPECT_EQ(taken(bucket, 20, kFrom), 3) << "then limited";
}

}  // namespace
}  // namespace rung
