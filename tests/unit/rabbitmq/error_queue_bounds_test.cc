// What whoever creates queues can fill: error queues that a pattern matches, and the tags of their consumers.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "plugin/rabbitmq/consume/error_consumers.h"
#include "plugin/rabbitmq/consume/error_queue_limits.h"

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

TEST(ErrorQueueBounds, TagsOfConsumersThatHaveEndedAreForgotten) {
  ErrorConsumerTags tags;
  const std::string first = tags.begin("steady");
  std::string latest;
  // Queues that rest, or come and go, for a month.
  for (int i = 0; i < 100'000; ++i) {
    const std::string queue = "q" + std::to_string(i % 5000);
    latest = tags.begin(queue);
    tags.consumed().erase(queue);
    ASSERT_LE(tags.known(), 2 * ErrorConsumerTags::kMostEnded + 1);
  }
  EXPECT_EQ(tags.queue_of(first), "steady") << "it is still consumed";
  EXPECT_EQ(tags.queue_of(latest), "q4999") << "its last deliveries may still come";
  EXPECT_EQ(tags.queue_of("error.1"), "");
  EXPECT_EQ(tags.queue_of("rung"), "");
}

}  // namespace
}  // namespace rung::rabbit
