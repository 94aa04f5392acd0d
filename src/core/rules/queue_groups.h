// Rung groups: several groups share one broker, each with its own prefix and database (groups: of the
// config). A queue belongs to at most one. Thread: immutable after construction; pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rung {

struct QueueGroups {
  struct Group {
    std::string name;
    std::string prefix;               // of its exchanges and queues: "rung-eu"
    std::vector<std::string> queues;  // names; * matches any run of characters
    bool operator==(const Group&) const = default;
  };
  std::vector<Group> all;  // in the order of the config; empty: the config has no groups
  std::string own;         // the name of this process's group; "" = none is chosen

  bool empty() const { return all.empty(); }
  const Group* find(std::string_view name) const;
  // The queue's group: the one that lists its exact name, else the first with a matching pattern; nullptr:
  // none.
  const Group* of_queue(std::string_view queue) const;
  // The queue's group if it is not our own; nullptr if it is, or if there is none.
  const Group* elsewhere(std::string_view queue) const;
  // "rung-eu." if the name begins with it, for any group's prefix; "" if it begins with none.
  std::string own_prefix(std::string_view name) const;
  // "eu, us": for messages.
  std::string names() const;
};

}  // namespace rung
