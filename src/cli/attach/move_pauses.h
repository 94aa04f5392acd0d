// Holds a queue back while rung move moves it: in the groups that it leaves, so that no task is published
// while it is copied, and in its new group, so that no copy is published while the old row still counts. If
// the command is killed, the pauses stay: they keep the two rows of a task from going out both.
// Thread: main's; blocks. Prints errors.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/cli/attach/move_groups.h"
#include "src/core/gates/gates.h"

namespace rung::cli {

class MovePauses {
 public:
  MovePauses(std::string queue, std::string to) : queue_(std::move(queue)), to_(std::move(to)) {}

  // Whether a run that was killed has left its pause there.
  Result<bool> is_left_over(const MoveGroup& group) const;
  // Pauses the queue in these groups, unless it is paused; `target` is the last one. A person's pause stays
  // as it is, and the target gets it, too. kSuccess, or an error: then all is as before.
  int set(const std::vector<MoveGroup*>& groups);
  // Whether the queue is still paused in all of them, and long enough for one more step.
  Result<void> hold() const;
  // Since when the target was paused before set(): copies of an earlier run may be there. None: it flowed.
  std::optional<EpochMs> target_since() const;
  // Ends the pauses of this command, also those that a run of it has left. `nothing_moved`: the target does
  // not keep a person's pause that set() gave it. Prints what could not be lifted.
  void lift(bool nothing_moved);
  // What stays paused after lift(); "" = nothing.
  std::string kept() const;

 private:
  struct Held {
    MoveGroup* group;
    std::optional<Pause> before;  // in force when the command began
    bool persons = false;         // the pause in force now is a person's
    bool made = false;            // by set()
  };

  void end(Held& held);
  bool is_ours(const Pause& pause) const;
  Result<std::optional<Pause>> in_force(const MoveGroup& group) const;
  int pause(Held& held, const Pause* persons);

  const std::string queue_, to_;
  std::vector<Held> held_;
};

}  // namespace rung::cli
