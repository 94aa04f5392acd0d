#include "src/bridge/shards.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace rung::bridge {
namespace {

TEST(FairShare, AddsUpAndDiffersByOneAtMost) {
  for (int n = 1; n <= 70; ++n) {
    std::vector<int> live;
    for (int i = 0; i < n; ++i) live.push_back(10 + i * 3);
    int sum = 0, least = kShards, most = 0;
    for (const int node : live) {
      const int share = fair_share(node, live);
      sum += share;
      least = std::min(least, share);
      most = std::max(most, share);
    }
    EXPECT_EQ(sum, kShards) << n << " instances";
    EXPECT_LE(most - least, 1) << n << " instances";
  }
}

TEST(FairShare, ALoneInstanceHasAll) { EXPECT_EQ(fair_share(7, {7}), kShards); }

}  // namespace
}  // namespace rung::bridge
