// Holds a queue back while rung move moves it: in the groups that it leaves, so that no task is published
// while it is copied, and in its new group, so that no copy is published while the old row still counts. If
// the command is killed, the pauses stay: they keep the two rows of a task from going out both. The next run
// makes them its own; a run that finds that a pause is no longer its own stops.
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
  MovePauses(std::string queue, const std::string& to);

  // Whether a run that was killed, or goes on, has paused the queue there. An error: a move to another group.
  Result<bool> is_left_over(const MoveGroup& group) const;
  // Looks at the pauses in these groups, of which the last one is the target. kSuccess, or an error: a
  // person's pause has an end, so that it could end while tasks move.
  int look(const std::vector<MoveGroup*>& groups);
  // Pauses the queue in all of them; a person's pause stays. kSuccess, or an error. REQUIRES: look().
  int set();
  // An error unless the pauses in force are those of set(), or of the person.
  Result<void> hold() const;
  // Since when the target was paused before set(): copies of earlier runs may be there. None: it flowed.
  std::optional<EpochMs> target_since() const;
  // An earlier run was not finished.
  bool has_left_over() const;
  // Ends the pauses of set(). If a person has paused a source, the target stays paused, too, unless
  // `nothing_moved`. A pause that somebody else has set meanwhile stays; prints it. kSuccess, or
  // an error if one could not be lifted.
  int lift(bool nothing_moved);
  // The groups where a person's pause stays after lift(); "" = none.
  std::string kept() const;

 private:
  struct Held {
    MoveGroup* group;
    std::optional<Pause> before;  // in force when the command began
    bool persons = false;         // a person's pause is in force
    bool made = false;            // by set()
  };

  bool is_ours(const Pause& pause) const;  // of this run, or of another one
  Result<std::optional<Pause>> in_force(const MoveGroup& group) const;
  int end(Held& held, const Pause* persons);

  const std::string queue_, to_;
  const std::string reason_;  // of the pauses of this run: it tells them from those of others
  std::vector<Held> held_;
};

}  // namespace rung::cli
