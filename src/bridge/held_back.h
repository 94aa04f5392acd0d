// Messages that are claimed and read but not due yet. Each is published when it is due by the database's
// clock, never earlier. Thread: the loop's.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>

#include "src/bridge/claimed_task.h"
#include "src/bridge/outbox.h"
#include "src/core/db_clock.h"
#include "src/io/loop.h"
#include "src/store/tasks.h"

namespace rung::bridge {

class HeldBack {
 public:
  using Publish = std::function<void(ClaimedTask, const Message&)>;

  // Calls `publish` with each due message, and flushes the outbox after each turn.
  HeldBack(io::Loop& loop, DbClock& clock, Outbox& outbox, Publish publish);

  bool is_early(const ClaimedTask& claimed) const { return claimed.task->next_at > due_by(); }
  // REQUIRES: is_early().
  void add(ClaimedTask claimed, MessagePtr message);
  // Takes one out unpublished; none if it is not held back.
  std::optional<ClaimedTask> take(TaskId id);
  std::size_t size() const { return early_.size(); }

 private:
  struct Early {
    ClaimedTask claimed;
    MessagePtr message;
  };
  EpochMs due_by() const;  // messages due by then may leave
  void release();

  DbClock& clock_;
  Outbox& outbox_;
  const Publish publish_;
  std::multimap<EpochMs, Early> early_;  // by due time
  io::Timer timer_;                      // fires when the first of them is due
};

}  // namespace rung::bridge
