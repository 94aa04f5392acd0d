#include "src/bridge/upkeep/retention_plan.h"

#include <algorithm>
#include <string>

namespace rung::bridge {
namespace {

constexpr std::int64_t kPartitionsAtMost = 100;  // about
constexpr Ms kWidthWhereOff = kDay * 30;
constexpr Ms kAheadAtLeast = kDay * 4, kAhead = kDay * 8;
constexpr Ms kSweepAfterMost = kDay * 7;  // the default ladder takes less than four

EpochMs midnight(EpochMs t) { return {t.ms - t.ms % kDay.count()}; }

// "d20261122"
std::string name_of(EpochMs begin) {
  const std::string date = format_utc(begin);
  return "d" + date.substr(0, 4) + date.substr(5, 2) + date.substr(8, 2);
}

}  // namespace

Ms partition_width(std::optional<Ms> retention) {
  if (!retention) return kWidthWhereOff;
  const std::int64_t days =
      (retention->count() + kDay.count() * kPartitionsAtMost - 1) / (kDay.count() * kPartitionsAtMost);
  return kDay * std::max<std::int64_t>(days, 1);
}

std::vector<Partition> partitions_to_add(std::span<const Partition> there, EpochMs now,
                                         std::optional<Ms> retention) {
  std::vector<Partition> out;
  const EpochMs last = there.empty() ? EpochMs{} : IdSource::made_at(there.back().end);
  if (last >= now + kAheadAtLeast) return out;
  // If none was created for a while, one partition covers all of that time.
  EpochMs begin = std::max(last, midnight(now));
  const Ms width = partition_width(retention);
  TaskId from = there.empty() ? TaskId{} : there.back().end;
  while (begin < now + kAhead) {
    const EpochMs end = midnight(begin + width);
    out.push_back({name_of(begin), from, IdSource::floor(end)});
    from = out.back().end;
    begin = end;
  }
  return out;
}

PartitionDue partition_due(const Partition& partition, EpochMs now, Ms retention) {
  const EpochMs old = now - retention;
  const EpochMs sweep_before = old - std::min(retention, kSweepAfterMost);
  const EpochMs end = IdSource::made_at(partition.end);
  PartitionDue due;
  due.drop = end <= old;
  if (end <= sweep_before) {
    due.sweep_to = partition.end;
  } else if (IdSource::floor(sweep_before) > partition.from &&
             end - sweep_before > std::max(kDay * 2, retention / 4)) {
    // A wide partition, such as the one with all rows from before partitioning: its end is far off.
    due.sweep_to = IdSource::floor(sweep_before);
  }
  return due;
}

}  // namespace rung::bridge
