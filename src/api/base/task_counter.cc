#include "src/api/base/task_counter.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

namespace rung::api {

Result<TaskCount> TaskCounter::count(MysqlStore& store, EpochMs now, Ms most) {
  auto open = store.open_by_queue();
  if (!open) return tl::unexpected(open.error());
  TaskCount out{*std::move(open), {}};
  const BootMs until = clock_.boot() + most;
  std::unique_lock lock(mutex_);
  if (free_.wait_for(lock, most, [&] { return !counting_; })) {
    counting_ = true;
    lock.unlock();
    Result<void> counted;
    try {
      counted = count_ended(store, now, until);
    } catch (...) {  // no memory
      lock.lock();
      begin_again();
      throw;
    }
    lock.lock();
    counting_ = false;
    free_.notify_all();
    if (!counted) return tl::unexpected(counted.error());
  }
  out.ended_at = ended_at_;
  for (const auto& [which, tasks] : ended_at_ ? whole_ : so_far_)
    out.queues.push_back({which.first, which.second, tasks, {}, 0});
  std::ranges::sort(out.queues, {}, [](const QueueStat& stat) { return std::tie(stat.queue, stat.state); });
  return out;
}

void TaskCounter::begin_again() {
  so_far_.clear();
  place_ = {};
  begun_at_.reset();
  counting_ = false;
  free_.notify_all();
}

Result<void> TaskCounter::count_ended(MysqlStore& store, EpochMs now, BootMs until) {
  bool from_here = !begun_at_;  // otherwise an earlier call began this count: it lacks what has ended since
  do {
    if (!begun_at_) begun_at_ = now;
    const auto last = count_piece(store);
    if (!last) return tl::unexpected(last.error());
    if (*last && std::exchange(from_here, true)) break;
  } while (clock_.boot() < until);
  return {};
}

Result<bool> TaskCounter::count_piece(MysqlStore& store) {
  auto piece = store.count_ended(place_, piece_);
  if (!piece) return tl::unexpected(piece.error());
  const std::lock_guard lock(mutex_);
  for (const QueueStat& stat : piece->queues) so_far_[{stat.queue, stat.state}] += stat.tasks;
  place_ = piece->next.value_or(EndedPlace{});
  if (piece->next) return false;
  whole_ = std::exchange(so_far_, {});
  ended_at_ = std::exchange(begun_at_, std::nullopt);
  return true;
}

}  // namespace rung::api
