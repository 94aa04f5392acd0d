// Which queues and exchanges a message's headers may name as its target: broker.targets of the config. A
// client that may publish to <prefix>.failed or <prefix>.delay must not thereby reach every queue that Rung
// can write to. Thread: immutable after construction; pure functions.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/base/queue_pattern.h"

namespace rung {

class ErrorQueues;  // dialect.h

// Rung groups: several groups share one broker, each with its own prefix and database (groups: of the
// config). A queue belongs to at most one. Thread: immutable after construction; pure functions.

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

// * in `pattern` matches any run of characters, also an empty one; every other character matches itself.
bool matches_pattern(std::string_view pattern, std::string_view text);

struct TargetRules {
  using Names = std::set<std::string, std::less<>>;
  using Patterns = std::vector<std::string>;

  std::string own;                // "<prefix>.": Rung's own queues and exchanges begin with it; "" = none
  std::optional<Patterns> allow;  // none: allow every name that is not denied
  Patterns deny;                  // overrides `allow` and `configured`
  Names configured;               // queues and exchanges that the config names: allowed
  std::vector<QueuePattern> configured_patterns;  // keys under queues: that are patterns: allowed
  Names attached;  // queues that dead-letter to us, as last reported by the broker: allowed

  QueueGroups groups;  // their names are Rung's own, too

  // Rung takes the messages of these queues in. nullptr: of none.
  std::shared_ptr<const ErrorQueues> error_queues;

  // "rung." if the name is one of Rung's own, else "". Nothing may be sent there.
  std::string own_prefix(std::string_view name) const {
    return !own.empty() && name.starts_with(own) ? own : groups.own_prefix(name);
  }
  bool is_own(std::string_view name) const { return !own_prefix(name).empty(); }
  // Whether a header may name it. Names that begin with amq. are the broker's: only the config, or a pattern
  // in `allow` that begins with amq. itself, permits one.
  bool allows(std::string_view name) const;
};

// "the header retry-queue names 'x', which broker.targets does not allow". `named_by`: what names it.
std::string not_allowed(std::string_view named_by, std::string_view name);

}  // namespace rung
