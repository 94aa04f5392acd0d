// Which partitions must exist, and what happens to old ones.
#include <gtest/gtest.h>

#include "src/bridge/upkeep/retention.h"

namespace rung::bridge {
namespace {

constexpr EpochMs kMidnight{1795305600000};  // 2026-11-22T00:00:00Z
constexpr EpochMs kNow{kMidnight.ms + 17 * 3600 * 1000};
constexpr Ms kHour{3600 * 1000};

Partition partition(EpochMs from, EpochMs end) { return {"p", IdSource::floor(from), IdSource::floor(end)}; }
EpochMs end_of(const Partition& partition) { return IdSource::made_at(partition.end); }

TEST(PartsToAdd, ADayEachForTheNextEight) {
  const auto added = partitions_to_add({}, kNow, kDay * 30);
  ASSERT_EQ(added.size(), 9U);
  EXPECT_EQ(added[0].name, "d20261122");
  EXPECT_EQ(end_of(added[0]), kMidnight + kDay);
  EXPECT_EQ(added[8].name, "d20261130");
  for (std::size_t i = 1; i < added.size(); ++i) {
    EXPECT_EQ(added[i].from, added[i - 1].end);
    EXPECT_EQ(end_of(added[i]) - end_of(added[i - 1]), kDay);
  }
}

TEST(PartsToAdd, GoOnWhereTheOthersEndAndOnlyNowAndThen) {
  const Partition far = partition({}, kMidnight + kDay * 5);
  EXPECT_TRUE(partitions_to_add({&far, 1}, kNow, kDay * 30).empty());
  const Partition near = partition({}, kMidnight + kDay * 4);
  const auto added = partitions_to_add({&near, 1}, kNow, kDay * 30);
  ASSERT_EQ(added.size(), 5U);
  EXPECT_EQ(added[0].from, near.end);
  EXPECT_EQ(added[0].name, "d20261126");
}

TEST(PartsToAdd, OneTakesATimeWithoutAny) {
  const Partition old = partition({}, kMidnight - kDay * 60);
  const auto added = partitions_to_add({&old, 1}, kNow, kDay * 30);
  ASSERT_EQ(added.size(), 9U);
  EXPECT_EQ(added[0].from, old.end);
  EXPECT_EQ(end_of(added[0]), kMidnight + kDay);
}

TEST(PartsToAdd, WiderWhereMuchIsKeptSoThatThereAreNotTooMany) {
  EXPECT_EQ(partition_width(kHour), kDay);
  EXPECT_EQ(partition_width(kDay * 100), kDay);
  EXPECT_EQ(partition_width(kDay * 365), kDay * 4);
  EXPECT_EQ(partition_width(kDay * 3650), kDay * 37);
  EXPECT_EQ(partition_width(std::nullopt), kDay * 30);
  const auto added = partitions_to_add({}, kNow, std::nullopt);
  ASSERT_EQ(added.size(), 1U);
  EXPECT_EQ(end_of(added[0]), kMidnight + kDay * 30);
}

TEST(PartitionDue, DroppedWhenItsLastMomentIsOld) {
  const Partition day = partition(kMidnight - kDay * 31, kMidnight - kDay * 30);
  EXPECT_TRUE(partition_due(day, kMidnight, kDay * 30).drop);
  EXPECT_FALSE(partition_due(day, kMidnight - Ms{1}, kDay * 30).drop);
}

TEST(PartitionDue, RowByRowAWeekLater) {
  const Partition day = partition(kMidnight - kDay * 31, kMidnight - kDay * 30);
  EXPECT_EQ(partition_due(day, kMidnight + kDay * 7 - Ms{1}, kDay * 30).sweep_to, TaskId{});
  EXPECT_EQ(partition_due(day, kMidnight + kDay * 7, kDay * 30).sweep_to, day.end);
  // With a short retention as long again as that.
  EXPECT_EQ(partition_due(partition(kMidnight - kDay, kMidnight), kMidnight + kHour * 2, kHour).sweep_to,
            IdSource::floor(kMidnight));
  EXPECT_EQ(partition_due(partition(kMidnight, kMidnight + kDay), kNow, kHour).sweep_to, TaskId{})
      << "today's end is not far";
}

TEST(PartitionDue, AWideOneBeforeItsEnd) {
  const Partition before_parts = partition(EpochMs{kIdEpochMs}, kMidnight + kDay * 2);
  const PartitionDue due = partition_due(before_parts, kNow, kDay * 30);
  EXPECT_FALSE(due.drop);
  EXPECT_EQ(due.sweep_to, IdSource::floor(kNow - kDay * 37));
}

}  // namespace
}  // namespace rung::bridge
