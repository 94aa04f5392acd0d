// Counts tasks by queue and state. Open tasks are counted each time. Ended ones are most rows, and a hundred
// million of them take minutes: they are counted in pieces, and callers get the last complete count. Thread:
// any. One caller counts ended tasks at a time; another one waits for it as long as it would itself count.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/core/base/time.h"
#include "src/store/mysql/mysql_store.h"

namespace rung::api {

struct TaskCount {
  std::vector<QueueStat> queues;  // by queue and state, as in retry_by_queue
  // When the count of the ended ones began, by the callers' `now`. None: not all are counted yet, so there
  // are more.
  std::optional<EpochMs> ended_at;
};

class TaskCounter {
 public:
  static constexpr int kPiece = 50'000;              // tasks; 30 to 100 ms of the database
  static constexpr Ms kAll{std::chrono::hours{24}};  // enough to count all

  // `piece`: for tests. REQUIRES: `clock` outlives it.
  explicit TaskCounter(const Clock& clock, int piece = kPiece) : clock_(clock), piece_(piece) {}

  // Counts ended tasks until all are counted, or for `most` and a piece more: with few of them the result is
  // of now, with many several calls make the next complete count. Throws the store's errors.
  TaskCount count(MysqlStore& store, EpochMs now, Ms most);

 private:
  using Ended = std::map<std::pair<std::string, State>, std::int64_t>;
  void count_ended(MysqlStore& store, EpochMs now, BootMs until);
  bool count_piece(MysqlStore& store);  // whether it was the last one

  const Clock& clock_;
  const int piece_;
  std::mutex mutex_;
  std::condition_variable free_;
  bool counting_ = false;            // guarded by mutex_
  Ended so_far_;                     // guarded by mutex_
  Ended whole_;                      // the last complete count; guarded by mutex_
  std::optional<EpochMs> ended_at_;  // when it began; guarded by mutex_
  EndedPlace place_;                 // of the one who counts
  std::optional<EpochMs> begun_at_;  // of the one who counts; none: a count begins
};

}  // namespace rung::api
