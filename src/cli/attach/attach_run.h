// Attaches and detaches queues by policy, through the management API.
// Thread: one; the calls block, bounded by the admin's timeouts.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugin/broker_options.h"
#include "plugin/rabbitmq/topology/attachment.h"
#include "src/cli/shared/command.h"

namespace rung::cli {

// The management API, which accepts our login. Permanent error: in the config. Transient: why it was not
// reached.
Result<std::unique_ptr<rabbit::QueueAdmin>> reach_management(const BrokerOptions& broker);

// The outcome for one queue.
struct Outcome {
  std::string queue;
  Exit code = kSuccess;
  const char* result = "failed";  // a keyword for scripts
  std::string detail;             // a sentence for people; an error message if `code` is an error
  std::optional<rabbit::Policy> policy;
  // Notes on how its arguments and policies affect its retries; not errors.
  std::vector<std::string> notes = {};
};

// `named`: the user named these queues. Otherwise it skips queues that a policy cannot attach, and those
// whose dead letters already go elsewhere.
std::vector<Outcome> attach_queues(rabbit::QueueAdmin& admin, const BrokerOptions& broker,
                                   const std::vector<std::string>& queues, bool named);
// Removes the policies that attach created for these queues.
std::vector<Outcome> detach_queues(rabbit::QueueAdmin& admin, const BrokerOptions& broker,
                                   const std::vector<std::string>& queues);

// Queues that belong to Rung (<prefix>.*, of every group) or to the broker (amq.*).
bool is_own_queue(const Config& config, std::string_view queue);
// Existing queues that match a pattern of the config, by pattern, without those that have an entry of their
// own, Rung's own, error queues, exclusive queues and streams.
std::map<std::string, std::vector<std::string>> matched_queues(const Config& config,
                                                               const std::vector<rabbit::QueueFacts>& all);
// The prefix to attach the queue to: the config's, or that of its group. With --group, a queue that belongs
// to no group is attached to that group.
Result<std::string> prefix_of_queue(const Config& config, const std::string& queue);
// The queue that attach created this policy for, with this prefix; nullopt if attach did not create it.
std::optional<std::string> attached_by(const rabbit::Policy& policy, std::string_view prefix);

}  // namespace rung::cli
