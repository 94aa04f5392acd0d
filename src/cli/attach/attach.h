// What attach, detach, attached, adopt and doctor ask about queues, through the management API, and about the
// broker; and what they say of them.
// Thread: one; the calls block, bounded by the admin's timeouts.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugin/broker_options.h"
#include "plugin/rabbitmq/topology/attachment.h"
#include "plugin/rabbitmq/topology/probe.h"
#include "src/cli/shared/command.h"
#include "src/core/task/task.h"
#include "src/store/store.h"

namespace rung::cli {

// Existing queues that match a pattern of the config, by pattern, without those that have an entry of their
// own, Rung's own, error queues, exclusive queues and streams.
std::map<std::string, std::vector<std::string>> matched_queues(const Config& config,
                                                               const std::vector<rabbit::QueueFacts>& all);

// What the database and the broker remember of each other.
struct Sides {
  Ownership ownership;
  PlaceReport report;
  std::vector<std::string> instances;  // that use the database now
  bool is_new() const { return ownership.database.empty(); }
};
// The command ends if one of them does not answer.
Sides look_at_both(MysqlStore& store, rabbit::Probe& probe, const BrokerOptions& broker);

// --- settings of a queue that matter to its retries. Thread: pure functions.

struct QueueNote {
  std::string name;  // for scripts
  std::string what;
  std::string fix = {};  // "" = nothing is wrong
  bool fine() const { return fix.empty(); }
};

// Settings of a target queue with which the broker takes a retry that no consumer will get: overflow, length,
// ttl, expires, auto_delete, durable.
std::vector<QueueNote> target_notes(const rabbit::QueueFacts& facts,
                                    const std::vector<rabbit::Policy>& policies);

// These, and how arguments and policies of a quorum queue affect its retries: limit, strategy, delayed_retry,
// consumer_timeout. `silence`: what silence after a retry means for this queue, if known.
std::vector<QueueNote> queue_notes(const rabbit::QueueFacts& facts,
                                   const std::vector<rabbit::Policy>& policies,
                                   const std::optional<Silence>& silence);

}  // namespace rung::cli
