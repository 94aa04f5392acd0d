// The databases of all groups of the config, for rung move. Thread: main's; blocks. Prints errors.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/cli/shared/command.h"

namespace rung::cli {

struct MoveGroup {
  std::string name;
  Session session = {};  // without a store: there are no tables, and so no tasks
};
using MoveGroups = std::vector<std::unique_ptr<MoveGroup>>;

// Opens the databases of all groups; that of `to` must have its tables. kSuccess, or an error.
int open_groups(const std::string& config, const QueueGroups& groups, const std::string& to,
                MoveGroups& opened);

// An error unless every live sidecar of every group runs this very config: only then no other group accepts
// new tasks of the queue. Waits for a heartbeat of those that differ: they may have been reloaded just now.
int check_sidecars(const MoveGroups& groups);

}  // namespace rung::cli
