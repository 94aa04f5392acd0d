// Notes on settings of a queue that matter to its retries, for rung attach, rung attached and rung doctor.
// Thread: pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plugin/rabbitmq/topology/attachment.h"
#include "src/core/task/task.h"

namespace rung::cli {

struct QueueNote {
  std::string name;  // for scripts
  std::string what;
  std::string fix;  // "" = nothing is wrong
  bool fine() const { return fix.empty(); }
};

// How arguments and policies of a quorum queue affect its retries: limit, strategy, delayed_retry,
// consumer_timeout. Empty for other types of queues. `silence`: what silence after a retry means for this
// queue, if known.
std::vector<QueueNote> quorum_notes(const rabbit::QueueFacts& facts,
                                    const std::vector<rabbit::Policy>& policies,
                                    const std::optional<Silence>& silence);

// Settings of a target queue with which the broker takes a retry that no consumer will get: overflow, length,
// ttl, expires, auto_delete, durable.
std::vector<QueueNote> target_notes(const rabbit::QueueFacts& facts,
                                    const std::vector<rabbit::Policy>& policies);

}  // namespace rung::cli
