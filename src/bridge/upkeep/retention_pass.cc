#include "src/bridge/upkeep/retention_pass.h"

#include <algorithm>
#include <string>
#include <utility>

namespace rung::bridge {
namespace {

using Stage = RetentionPass::Stage;

constexpr int kTasks = 500, kRecords = 1000;  // per step

Result<void> add(RetentionPass& pass, RetentionStore& store) {
  pass.stage = pass.keep ? Stage::tasks : Stage::done;
  const auto there = store.partitions();
  if (!there) return tl::unexpected(there.error());
  // Also if there is nothing to add: this repairs an addition that was cut short between the two tables.
  const auto added = store.add_partitions(partitions_to_add(*there, pass.now, pass.keep));
  if (!added && added.error().kind == Error::Kind::transient) return tl::unexpected(added.error());
  if (!added) pass.trouble = added.error().message;
  if (added && *added == PartitionsAdded::busy) pass.busy = true;
  if (added && *added == PartitionsAdded::full)
    pass.trouble =
        "the last partition holds too much to be divided beside the work: docs/operations.md, Retention";
  return {};
}

Result<void> purge(RetentionPass& pass, EpochMs before, RetentionStore& store) {
  const auto purged = store.purge_finished(before, pass.cursor, kTasks);
  if (!purged) return tl::unexpected(purged.error());
  pass.gone.tasks = purged->tasks;
  pass.cursor = purged->last;
  if (!purged->more) pass.stage = Stage::records;
  return {};
}

Result<void> purge_records(RetentionPass& pass, EpochMs before, RetentionStore& store) {
  const auto purged = store.purge_records(before, kRecords);
  if (!purged) return tl::unexpected(purged.error());
  pass.gone.audit = purged->audit;
  pass.gone.bulks = purged->bulks;
  pass.gone.events = purged->events;
  if (!purged->more) pass.stage = pass.look ? Stage::list : Stage::done;
  return {};
}

Result<void> list(RetentionPass& pass, RetentionStore& store) {
  auto there = store.partitions();
  if (!there) return tl::unexpected(there.error());
  pass.old = *std::move(there);
  std::ranges::reverse(pass.old);
  pass.stage = Stage::drop;
  return {};
}

Result<void> drop(RetentionPass& pass, RetentionStore& store) {
  if (pass.old.empty()) {
    pass.stage = Stage::done;
    return {};
  }
  const Partition partition = pass.old.back();
  pass.old.pop_back();
  const PartitionDue due = partition_due(partition, pass.now, *pass.keep);
  // After a refusal, leave the tables alone until the next check: each try makes others wait.
  bool kept = true;
  if (due.drop && !pass.busy && !pass.refused) {
    const auto end = store.drop_partition(partition);
    if (!end && end.error().kind == Error::Kind::transient) return tl::unexpected(end.error());
    if (!end) pass.trouble = end.error().message;
    pass.refused = !end;
    if (end && *end == PartitionDrop::busy) pass.busy = true;
    if (end && *end == PartitionDrop::dropped) {
      kept = false;
      pass.gone.partitions = 1;
      pass.dropped.push_back(partition.name);
    }
  }
  if (kept && pass.sweep && due.sweep_to > partition.from && !pass.busy) {
    pass.sweep_from = partition.from;
    pass.sweep_to = due.sweep_to;
    pass.stage = Stage::sweep;
  }
  return {};
}

Result<void> sweep(RetentionPass& pass, RetentionStore& store) {
  const auto swept = store.sweep(pass.sweep_from, pass.sweep_to, kTasks);
  if (!swept) return tl::unexpected(swept.error());
  if (swept->next) pass.sweep_from = *swept->next;
  if (!swept->next) pass.stage = Stage::drop;
  return {};
}

Result<void> step(RetentionPass& pass, RetentionStore& store) {
  const EpochMs before = pass.now - pass.keep.value_or(Ms{0});
  switch (pass.stage) {
    case Stage::add:
      return add(pass, store);
    case Stage::tasks:
      return purge(pass, before, store);
    case Stage::records:
      return purge_records(pass, before, store);
    case Stage::list:
      return list(pass, store);
    case Stage::drop:
      return drop(pass, store);
    case Stage::sweep:
      return sweep(pass, store);
    case Stage::done:
      break;
  }
  return {};
}

}  // namespace

Result<RetentionPass> perform_step(RetentionPass pass, const Clock& here, RetentionStore& store) {
  const BootMs from = here.boot();
  pass.gone = {};
  if (auto done = step(pass, store); !done) return tl::unexpected(done.error());
  pass.took = here.boot() - from;
  return pass;
}

// --- plans

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
