// What the arguments and policies of a quorum queue mean for its retries: for rung attach and rung doctor.
// Thread: pure functions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "plugin/rabbitmq/management.h"
#include "src/core/task.h"

namespace rung::cli {

struct QuorumNote {
  std::string name;  // limit, strategy, delayed_retry or consumer_timeout
  bool fine = false;
  std::string what;
  std::string fix;  // "" where fine
};

// Nothing for other types. `silence`: what silence after a retry means for this queue, where that is known.
std::vector<QuorumNote> quorum_notes(const rabbit::QueueFacts& facts,
                                     const std::vector<rabbit::Policy>& policies,
                                     const std::optional<Silence>& silence);

// A queue's setting: by its argument (x-NAME), else by the policy in effect; null where neither has it.
nlohmann::json queue_setting(const rabbit::QueueFacts& facts, const std::vector<rabbit::Policy>& policies,
                             const std::string& name);

}  // namespace rung::cli
