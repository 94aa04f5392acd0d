#include "src/api/base/task_counter.h"

#include <algorithm>
#include <exception>
#include <tuple>
#include <utility>

#include "src/api/base/message.h"

namespace rung::api {

TaskCount TaskCounter::count(MysqlStore& store, EpochMs now, Ms most) {
  TaskCount out{need(store.open_by_queue()), {}};
  const BootMs until = clock_.boot() + most;
  std::unique_lock lock(mutex_);
  if (free_.wait_for(lock, most, [&] { return !counting_; })) {
    counting_ = true;
    lock.unlock();
    std::exception_ptr failed;
    try {
      count_ended(store, now, until);
    } catch (...) {
      failed = std::current_exception();
    }
    lock.lock();
    counting_ = false;
    free_.notify_all();
    if (failed) std::rethrow_exception(failed);
  }
  out.ended_at = ended_at_;
  for (const auto& [which, tasks] : ended_at_ ? whole_ : so_far_)
    out.queues.push_back({which.first, which.second, tasks, {}, 0});
  std::ranges::sort(out.queues, {}, [](const QueueStat& stat) { return std::tie(stat.queue, stat.state); });
  return out;
}

void TaskCounter::count_ended(MysqlStore& store, EpochMs now, BootMs until) {
  bool from_here = !begun_at_;  // otherwise an earlier call began this count: it lacks what has ended since
  do {
    if (!begun_at_) begun_at_ = now;
    if (count_piece(store) && std::exchange(from_here, true)) break;
  } while (clock_.boot() < until);
}

bool TaskCounter::count_piece(MysqlStore& store) {
  auto piece = need(store.count_ended(place_, piece_));
  const std::lock_guard lock(mutex_);
  Ended sum = so_far_;  // a piece counts as a whole, or not at all
  for (const QueueStat& stat : piece.queues) sum[{stat.queue, stat.state}] += stat.tasks;
  so_far_.swap(sum);
  const bool is_last = !piece.next;
  place_ = is_last ? EndedPlace{} : *std::move(piece.next);
  if (is_last) {
    whole_ = std::exchange(so_far_, {});
    ended_at_ = std::exchange(begun_at_, std::nullopt);
  }
  return is_last;
}

}  // namespace rung::api
