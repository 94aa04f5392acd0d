// Moves the scheduled tasks of a queue from one group's database to another's: a copy is inserted there, then
// the old row is cancelled. In this order nothing is lost. Because the queue is paused in both groups
// (move_pauses.h), neither row can go out between the two steps. Repeated after a crash, a copy that is there
// already is found by its intake key. A person may change the old row between the steps: then its cancel is
// refused, for its version is another one, and the copy is cancelled instead.
// Thread: main's; blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "src/cli/attach/move_groups.h"
#include "src/core/machine/moved.h"

namespace rung::cli {

class TaskMover {
 public:
  // `hold`: an error if the queue is no longer paused by this run; asked before each step.
  TaskMover(MoveGroup& from, MoveGroup& to, std::string queue, std::function<Result<void>()> hold);

  // An error if a scheduled task came from the target, and its row there still counts: it would be there
  // twice. pass() checks it again.
  Result<void> check_origins();
  // Completes what an earlier run of the command has begun, by the copies made in the target since then.
  Result<void> complete(EpochMs since);
  // Moves all that is scheduled now. Returns how many tasks have moved; the others stay as they are.
  Result<std::int64_t> pass();

  // Tasks may have a row that counts in both databases: the pauses must stay.
  bool in_doubt() const { return in_doubt_; }
  std::int64_t moved() const { return moved_; }
  // Why the last of the tasks that cannot be moved cannot; "" = there is none.
  const std::string& why_left() const { return why_left_; }

 private:
  struct Copy {
    MovedFrom from;
    TaskId id;         // of the new row
    bool made = true;  // by a move; otherwise it was submitted there, too
  };
  enum class Same : std::uint8_t { no, submitted, copy };

  // Calls `move` for what is scheduled now, in pieces of a bounded size.
  Result<void> for_scheduled(const std::function<Result<void>(const std::vector<TaskId>&)>& move);
  Result<void> move(const std::vector<TaskId>& ids);
  Result<void> check_origins(const std::vector<KnownTask>& tasks);
  Result<std::vector<Copy>> insert(std::vector<NewTask> tasks);
  // The row that has the task's intake key already: whether it is the same task.
  Result<Same> is_same(const NewTask& wanted, TaskId there);
  Result<void> settle(const std::vector<Copy>& copies);
  Result<void> cancel_copies(const std::vector<Copy>& copies);

  MoveGroup &from_, &to_;
  const std::string queue_;
  const std::function<Result<void>()> hold_;
  std::mt19937_64 random_;
  IdSource ids_;
  bool in_doubt_ = false;
  std::int64_t moved_ = 0;
  std::string why_left_;
};

}  // namespace rung::cli
