#include <gtest/gtest.h>

#include <set>

#include "src/otel/exporter.h"

namespace rung::otel {
namespace {

TEST(RetryDelay, DoublesUpToTheLongest) {
  RetryDelay delay(Ms{1000}, Ms{5000});
  for (const int longest : {1000, 2000, 4000, 5000, 5000}) {
    const Ms next = delay.next(Ms{0});
    EXPECT_GE(next, Ms{longest / 2});
    EXPECT_LE(next, Ms{longest});
  }
  delay.reset();
  EXPECT_LE(delay.next(Ms{0}), Ms{1000});
}

TEST(RetryDelay, WhatTheCollectorAskedForTakesPrecedence) {
  RetryDelay delay(Ms{1000}, Ms{5000});
  EXPECT_EQ(delay.next(Ms{60'000}), Ms{60'000});
  EXPECT_EQ(delay.next(Ms{10}), Ms{10});
  EXPECT_LE(delay.next(Ms{0}), Ms{1000});
}

TEST(RetryDelay, AnAskedPauseIsAtMostMinutes) {
  RetryDelay delay(Ms{1000}, Ms{5000});
  EXPECT_EQ(delay.next(std::chrono::hours{24}), RetryDelay::kMostAsked);
  EXPECT_EQ(RetryDelay::kMostAsked, std::chrono::minutes{5});
}

}  // namespace
}  // namespace rung::otel
