// What becomes of an error queue: looked for, consumed, refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "plugin/rabbitmq/consume/error_queues.h"

namespace rung::rabbit {
namespace {

constexpr BootMs kStart{1'000'000};
BootMs after(std::int64_t seconds) { return kStart + Ms{1000 * seconds}; }

TEST(ErrorQueueState, IsLookedForOftenUntilItExists) {
  ErrorQueueState queue;
  EXPECT_TRUE(queue.look_due(kStart));
  queue.missing(kStart);
  EXPECT_FALSE(queue.wanted());
  EXPECT_FALSE(queue.look_due(after(4)));
  EXPECT_TRUE(queue.look_due(after(5)));
  queue.exists(after(5));
  EXPECT_TRUE(queue.wanted());
  EXPECT_FALSE(queue.consumed()) << "the broker has not answered yet";
  queue.consuming();
  EXPECT_TRUE(queue.consumed());
  EXPECT_FALSE(queue.look_due(after(64)));
  EXPECT_TRUE(queue.look_due(after(65)));
}

// Seconds until the queue is looked at again, after a refusal at `now`.
std::int64_t pause_after_refusal(ErrorQueueState& queue, BootMs now) {
  queue.refused("in use", now);
  std::int64_t s = 1;
  while (!queue.look_due(now + Ms{1000 * s})) ++s;
  return s;
}

TEST(ErrorQueueState, OneThatIsRefusedIsTriedLessAndLessOften) {
  ErrorQueueState queue;
  std::int64_t longest = 0;
  for (const std::int64_t expected : {5, 10, 20, 40, 80, 160, 320, 600, 600}) {
    queue.exists(kStart);
    EXPECT_EQ(longest = pause_after_refusal(queue, kStart), expected);
    EXPECT_FALSE(queue.wanted());
    EXPECT_EQ(queue.problem(), "in use");
  }
  queue.exists(kStart);  // the next try
  EXPECT_TRUE(queue.wanted());
  EXPECT_EQ(queue.problem(), "in use") << "it stays while it is tried";
}

// ---- What whoever creates queues can fill: error queues that a pattern matches.

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
