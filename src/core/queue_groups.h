// Rung groups: several behind one broker, each with a prefix and a database of its own (groups: of the
// config). A queue belongs to one of them at most. Thread: immutable after construction; pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rung {

struct QueueGroups {
  struct Group {
    std::string name;
    std::string prefix;               // of its exchanges and queues: "rung-eu"
    std::vector<std::string> queues;  // names, in which * stands for any run of characters
    bool operator==(const Group&) const = default;
  };
  std::vector<Group> all;  // in the order of the config; empty: the config has no groups
  std::string own;         // the name of this process's group; "" = none is chosen

  bool empty() const { return all.empty(); }
  const Group* find(std::string_view name) const;
  // The group that the queue belongs to: one that has its plain name, else the first one with a pattern that
  // matches; nullptr: none.
  const Group* of_queue(std::string_view queue) const;
  // The group that the queue belongs to where that is not our own; nullptr where it is, or where none has it.
  const Group* elsewhere(std::string_view queue) const;
  // "rung-eu." where the name begins so, of whichever group; "" where it is of none.
  std::string own_prefix(std::string_view name) const;
  // "eu, us": for what is told.
  std::string names() const;
};

}  // namespace rung
