// Attaching and detaching queues by policy, through whatever of RabbitMQ's administration is at hand.
// Thread: one; the calls block, bounded by the admin's time-outs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugin/broker_options.h"
#include "plugin/rabbitmq/management.h"
#include "src/cli/command.h"

namespace rung::cli {

struct FoundAdmin {
  std::unique_ptr<rabbit::QueueAdmin> admin;  // none: nobody was reached
  std::vector<std::string> why_not;           // one for each way that was tried
  std::optional<Error> mistake;               // in the config: nothing was tried
};
// The management API, else rabbitmqctl.
FoundAdmin find_admin(const BrokerOptions& broker);

// What became of one queue.
struct Outcome {
  std::string queue;
  Exit code = kDone;
  const char* result = "failed";  // a word for scripts
  std::string detail;             // a sentence for people; an error where code says so
  std::optional<rabbit::Policy> policy;
  // What its arguments and policies mean for its retries, where a person should know; no errors.
  std::vector<std::string> notes = {};
};

// `named`: the user named these queues. Otherwise those are skipped that a policy cannot attach, or whose
// dead letters go elsewhere already.
std::vector<Outcome> attach_queues(rabbit::QueueAdmin& admin, const BrokerOptions& broker,
                                   const std::vector<std::string>& queues, bool named);
// Removes the policies that attach made for these queues.
std::vector<Outcome> detach_queues(rabbit::QueueAdmin& admin, const BrokerOptions& broker,
                                   const std::vector<std::string>& queues);

// Queues that belong to Rung (<prefix>.*, of every group) or to the broker (amq.*).
bool is_own_queue(const Config& config, std::string_view queue);
// Where the queue's dead letters go: the config's prefix, or that of its group. A group that was chosen takes
// queues that no group has.
Result<std::string> prefix_of_queue(const Config& config, const std::string& queue);
// The queue that attach made this policy for, with this prefix; none where somebody else made it.
std::optional<std::string> attached_by(const rabbit::Policy& policy, std::string_view prefix);

}  // namespace rung::cli
