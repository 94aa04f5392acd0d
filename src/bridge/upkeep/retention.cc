#include "src/bridge/upkeep/retention.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr int kTasks = 500, kRecords = 1000;  // per step
constexpr Ms kPurgeEvery{10'000};
constexpr Ms kWalkEvery = kDay;
constexpr Ms kLookEvery{std::chrono::hours{1}};
constexpr Ms kLookSoon{std::chrono::minutes{1}};  // after tasks were deleted
constexpr Ms kLongestBusy{std::chrono::hours{1}};
constexpr Ms kLeastBreath{10}, kLongestBreath{5000};
constexpr int kPauses = 3;  // times as long as the step took

Ms breath(Ms took) { return std::clamp(took * kPauses, kLeastBreath, kLongestBreath); }

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

// --- steps, on a store thread

// Old finished tasks; when none is left, old records.
struct Retention::Purged {
  std::optional<Ms> keep;
  PurgeCursor cursor;
  RetentionTotals gone = {};
  bool more = false;
  Ms took{0};

  void some(Store& store, EpochMs now) {
    const EpochMs before = now - *keep;
    const PurgeResult tasks = store.purge_finished(before, cursor, kTasks);
    gone.tasks = tasks.tasks;
    cursor = tasks.last;
    more = tasks.more;
    if (more) return;
    const PurgedRecords records = store.purge_records(before, kRecords);
    gone.audit = records.audit;
    gone.bulks = records.bulks;
    gone.events = records.events;
    more = records.more;
  }
};

// Partitions for the coming days; then one old partition, dropped whole; when none is left, leftovers in
// those that a task still needs, row by row.
struct Retention::Tended {
  std::optional<Ms> keep;
  std::optional<TaskId> sweep;  // from here on
  std::string dropped = {};     // the partition's name; "" = none
  bool busy = false;            // the tables were in use: try later
  bool more = false;
  Ms took{0};

  // What is wrong with the partitions does not keep the rest from being done: it is the answer in the end.
  void some(Store& store, EpochMs now) {
    const auto there = store.partitions();
    auto all = result_of([&] { add(store, there, now); });
    if (keep && !busy) {
      if (auto old = drop_one(store, there, now); !old) all = old;
    }
    if (!more && !busy) or_throw(all);
  }

 private:
  // Also if there is nothing to add: this repairs an addition that was cut short between the two tables.
  void add(Store& store, const std::vector<Partition>& there, EpochMs now) {
    const PartitionsAdded added = store.add_partitions(partitions_to_add(there, now, keep));
    busy = added == PartitionsAdded::busy;
    if (added == PartitionsAdded::full)
      throw StoreError(
          {Error::Kind::permanent,
           "the last partition holds too much to be divided beside the work: docs/operations.md, Retention"});
  }

  Result<void> drop_one(Store& store, const std::vector<Partition>& there, EpochMs now) {
    Result<void> refused;
    TaskId sweep_to;
    for (const Partition& partition : there) {
      const PartitionDue due = partition_due(partition, now, *keep);
      sweep_to = std::max(sweep_to, due.sweep_to);
      if (!due.drop || !refused)
        continue;  // after a refusal, leave the tables alone: each try makes others wait
      const auto end = result_of([&] { return store.drop_partition(partition); });
      if (!end) refused = tl::unexpected(end.error());
      busy = end && *end == PartitionDrop::busy;
      if (busy) return {};
      if (!end || *end != PartitionDrop::dropped) continue;
      dropped = partition.name;
      more = true;
      return {};
    }
    if (!sweep) return refused;
    const Swept swept = store.sweep(*sweep, sweep_to, kTasks);
    sweep = swept.next;
    more = sweep.has_value();
    return refused;
  }
};

// --- on the loop

Retention::Retention(Jobs& jobs, const Shards& shards, const DbClock& clock, std::optional<Ms> keep)
    : jobs_(jobs),
      shards_(shards),
      clock_(clock),
      state_{{}, keep, {}, {}},
      purge_(
          jobs.add({"purge", kPurgeEvery, Lane::retention, Jobs::Who::leader, [this] { return purge(); }})),
      tend_(jobs.add(
          {"partitions", kLookEvery, Lane::retention, Jobs::Who::leader, [this] { return tend(); }})) {}

template <typename Step>
Jobs::Work Retention::work_of(Step step, void (Retention::*done)(const Step&)) {
  return [this, done, step, now = clock_.now(), &here = clock_.here()](Store& store) {
    const BootMs from = here.boot();
    Step at = step;
    at.some(store, now);
    at.took = here.boot() - from;
    return [this, done, at] { (this->*done)(at); };
  };
}

void Retention::reload(std::optional<Ms> keep) {
  if (std::exchange(state_.keep, keep) != keep) {
    walk_at_ = {0};
    sweep_.reset();
  }
  jobs_.soon(purge_, Ms{0});
  jobs_.soon(tend_, Ms{0});
}

Jobs::Work Retention::purge() {
  if (std::exchange(epoch_, shards_.epoch(0)) != epoch_)
    state_.tasks_done = state_.partitions_done = clock_.now();
  if (!state_.keep) return nullptr;
  if (now() >= walk_at_) {
    walk_at_ = now() + kWalkEvery;
    walking_ = true;
    cursor_ = {};
  }
  return work_of(Purged{state_.keep, cursor_}, &Retention::purged);
}

void Retention::purged(const Purged& step) {
  const RetentionTotals& gone = step.gone;
  state_.totals.tasks += gone.tasks;
  state_.totals.audit += gone.audit;
  state_.totals.bulks += gone.bulks;
  state_.totals.events += gone.events;
  if (gone.tasks + gone.audit + gone.bulks + gone.events > 0) state_.totals.last = clock_.now();
  went_ = went_ || gone.tasks > 0;
  if (step.keep != state_.keep) return;  // another retention applies by now
  cursor_ = step.cursor;
  if (step.more) return jobs_.soon(purge_, breath(step.took));
  state_.tasks_done = clock_.now();
  if (std::exchange(walking_, false)) sweep_ = TaskId{};
  if ((went_ || sweep_) && now() >= look_at_) jobs_.soon(tend_, Ms{0});
}

Jobs::Work Retention::tend() {
  if (went_ || sweep_) look_at_ = now() + kLookSoon;
  went_ = false;
  return work_of(Tended{state_.keep, std::exchange(sweep_, std::nullopt)}, &Retention::tended);
}

void Retention::tended(const Tended& step) {
  if (!step.dropped.empty()) {
    ++state_.totals.partitions;
    state_.totals.last = clock_.now();
    log::info("partition of old tasks dropped", {{"partition", step.dropped}});
  }
  if (step.keep != state_.keep) return;
  if (!sweep_) sweep_ = step.sweep;
  if (step.more) return jobs_.soon(tend_, breath(step.took));
  if (step.busy) {
    look_at_ = now() + busy_pause_;
    jobs_.soon(tend_, busy_pause_);
    busy_pause_ = std::min(busy_pause_ * 2, kLongestBusy);
  } else {
    state_.partitions_done = clock_.now();
    busy_pause_ = kFirstBusy;
  }
}

// --- plans

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
