#include "src/otel/span_queue.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/unit/otel/spans.h"

namespace rung::otel {
namespace {

constexpr Ms kHour = std::chrono::hours{1};

TEST(SpanQueue, TakesNoMoreThanABatchAndLeavesTheRest) {
  SpanQueue queue(100, 3);
  for (std::uint8_t i = 1; i <= 5; ++i) queue.add(a_span(i));
  const auto first = queue.take(kHour);
  ASSERT_EQ(first.size(), 3u);
  EXPECT_EQ(first[0].context.span[0], 1);
  EXPECT_EQ(first[2].context.span[0], 3);
  EXPECT_EQ(queue.take(Ms{0}).size(), 2u);
}

TEST(SpanQueue, AnIncompleteBatchGoesWhenItsTimeIsOver) {
  SpanQueue queue(100, 3);
  queue.add(a_span());
  EXPECT_EQ(queue.take(Ms{1}).size(), 1u);
}

TEST(SpanQueue, AFullBatchGoesAtOnce) {
  SpanQueue queue(100, 3);
  std::size_t taken = 0;
  std::thread taker([&] { taken = queue.take(kHour).size(); });
  for (std::uint8_t i = 1; i <= 3; ++i) queue.add(a_span(i));
  taker.join();
  EXPECT_EQ(taken, 3u);
}

TEST(SpanQueue, DropsAndCountsWhatIsTooMuch) {
  SpanQueue queue(4, 10);
  for (int i = 0; i < 7; ++i) queue.add(a_span());
  EXPECT_EQ(queue.dropped(), 3);
  EXPECT_EQ(queue.take(Ms{0}).size(), 4u);
  queue.add(a_span());  // there is room again
  EXPECT_EQ(queue.dropped(), 3);
}

TEST(SpanQueue, ClosedGivesWhatIsLeftAndTakesNoMore) {
  SpanQueue queue(100, 2);
  for (int i = 0; i < 3; ++i) queue.add(a_span());
  EXPECT_FALSE(queue.wait_closed(Ms{0}));
  queue.close();
  EXPECT_TRUE(queue.wait_closed(kHour));
  queue.add(a_span());
  EXPECT_EQ(queue.dropped(), 1);
  EXPECT_EQ(queue.take(kHour).size(), 2u);
  EXPECT_EQ(queue.take(kHour).size(), 1u);
  EXPECT_TRUE(queue.take(kHour).empty());
}

TEST(SpanQueue, CloseWakesWhoWaits) {
  SpanQueue queue(100, 2);
  std::thread taker([&] { EXPECT_TRUE(queue.take(kHour).empty()); });
  queue.close();
  taker.join();
}

}  // namespace
}  // namespace rung::otel
