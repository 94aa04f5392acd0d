// What whoever creates queues can fill: error queues that a pattern matches.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "plugin/rabbitmq/consume/error_queues.h"

namespace rung::rabbit {
namespace {

TEST(ErrorQueueBounds, OfTooManyQueuesThoseThatAreConsumedAreKept) {
  std::vector<std::string> found;
  for (std::size_t i = 0; i < kMostErrorQueues * 3; ++i) found.push_back("q" + std::to_string(i));
  const std::vector<std::string> last(found.end() - 10, found.end());
  const auto is_consumed = [&](const std::string& queue) {
    return std::ranges::find(last, queue) != last.end();
  };
  EXPECT_EQ(keep_some(found, is_consumed), "the patterns match 3000 queues, of which 1000 are consumed");
  EXPECT_EQ(found.size(), kMostErrorQueues);
  EXPECT_TRUE(std::equal(last.begin(), last.end(), found.begin()));
  EXPECT_EQ(keep_some(found, is_consumed), "");
}

}  // namespace
}  // namespace rung::rabbit
