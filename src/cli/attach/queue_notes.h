// Notes on settings of a queue that matter to its retries.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "plugin/rabbitmq/topology/attachment.h"
#include "src/core/task/task.h"

namespace rung::cli {

// Notes on how arguments and policies of a quorum queue affect its retries, for rung attach and rung doctor.
// Thread: pure functions.
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

// Notes on settings of a target queue with which the broker takes a retry that no consumer will get, for rung
// attach, rung attached and rung doctor. Thread: pure functions.
struct TargetNote {
  std::string name;  // overflow, length, ttl, expires, auto_delete or durable: for scripts
  std::string what;
  std::string fix;
};

std::vector<TargetNote> target_notes(const rabbit::QueueFacts& facts,
                                     const std::vector<rabbit::Policy>& policies);

}  // namespace rung::cli
