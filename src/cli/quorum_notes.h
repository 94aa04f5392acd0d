// Notes on how arguments and policies of a quorum queue affect its retries, for rung attach and rung doctor.
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
  std::string fix;  // "" if fine
};

// Empty for other types of queues. `silence`: what silence after a retry means for this queue, if known.
std::vector<QuorumNote> quorum_notes(const rabbit::QueueFacts& facts,
                                     const std::vector<rabbit::Policy>& policies,
                                     const std::optional<Silence>& silence);

// A queue's setting: from its argument (x-NAME), or from the policy in effect; null if neither sets it.
nlohmann::json queue_setting(const rabbit::QueueFacts& facts, const std::vector<rabbit::Policy>& policies,
                             const std::string& name);

}  // namespace rung::cli
