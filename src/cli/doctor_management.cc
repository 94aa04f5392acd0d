// What the management API tells: attachment of the queues that the config names, policies, types of queues.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "plugin/rabbitmq/management.h"
#include "src/cli/attach_watch.h"
#include "src/cli/doctor.h"
#include "src/cli/quorum_notes.h"

namespace rung::cli {
namespace {

using PlainJson = nlohmann::json;
using rabbit::Policy;
using rabbit::QueueFacts;

constexpr Ms kTimeout{std::chrono::seconds{5}};

struct Seen {
  std::vector<QueueFacts> queues;
  std::vector<Policy> policies;
};

PlainJson setting(const QueueFacts& facts, const Seen& seen, const std::string& name) {
  return queue_setting(facts, seen.policies, name);
}

void check_queue(const Config& config, const std::string& queue, const Seen& seen, Findings& all) {
  const auto it = std::ranges::find(seen.queues, queue, &QueueFacts::name);
  const std::string name = "queue." + queue;
  if (it == seen.queues.end()) {
    all.push_back(warning(name, "there is no queue '" + queue + "', and the config names it",
                          "declare it, then run: " + attach_command(queue)));
    return;
  }
  const auto answer = rabbit::judge_attached(config.broker.prefix, *it, seen.policies);
  if (is_attached(answer.attached)) {
    all.push_back(good(name, answer.attached == rabbit::Attached::yes_by_policy
                                 ? "attached by policy " + answer.detail
                                 : "attached by its argument"));
  } else if (it->dead_letter_argument) {
    all.push_back(warning(name, "not attached: " + answer.detail,
                          "declare the queue anew with x-dead-letter-exchange: " +
                              rabbit::failed_exchange(config.broker.prefix)));
  } else {
    // Not wrong: its consumer may publish failures by itself.
    all.push_back(warning(name, "not attached: " + answer.detail, attach_command(queue)));
  }
  for (QuorumNote& note : quorum_notes(*it, seen.policies, config.rules->queue(queue).silence)) {
    all.push_back(note.fine ? good(name + "." + note.name, std::move(note.what))
                            : warning(name + "." + note.name, std::move(note.what), std::move(note.fix)));
  }
}

// The queues that Rung declares: it cannot start where they are of another type.
void check_own(const Config& config, const Seen& seen, Findings& all) {
  for (const char* end : {".failed", ".delay", ".results", ".parked"}) {
    const auto it = std::ranges::find(seen.queues, config.broker.prefix + end, &QueueFacts::name);
    if (it == seen.queues.end()) continue;
    if (!it->type.empty() && it->type != config.broker.rabbitmq.queue_type) {
      all.push_back(wrong(
          "topology." + it->name,
          "it is a " + it->type + " queue, and broker.queue_type says " + config.broker.rabbitmq.queue_type,
          "set broker.queue_type: " + it->type + ", or empty and delete the queue"));
    }
    if (const PlainJson most = setting(*it, seen, "max-length"); !most.is_null())
      all.push_back(warning("topology." + it->name,
                            "its length is limited to " + most.dump() + ": what is over it is lost",
                            "take max-length from policy '" + it->policy + "' for this queue"));
    if (const PlainJson ttl = setting(*it, seen, "message-ttl"); !ttl.is_null())
      all.push_back(warning("topology." + it->name, "its messages expire after " + ttl.dump() + " ms",
                            "take message-ttl from policy '" + it->policy + "' for this queue"));
  }
}

// A classic queue lives on one node of a cluster.
void check_queue_type(const Config& config, const Seen& seen, Findings& all) {
  const std::size_t nodes = rabbit::cluster_nodes(config.broker, seen.queues, kTimeout).size();
  if (nodes < 2) return;
  const std::string cluster = "RabbitMQ is a cluster of " + std::to_string(nodes) + " nodes";
  if (config.broker.rabbitmq.queue_type == "quorum") {
    all.push_back(good("broker.queue_type", cluster + ", and Rung's own queues are quorum queues"));
  } else {
    all.push_back(
        warning("broker.queue_type",
                cluster + ", and each of Rung's own queues is a classic queue: it lives on one node, "
                          "and nothing is taken in while that node is away",
                "set broker.queue_type: quorum; to change it, stop the sidecars while the queues are "
                "empty, delete them, and start"));
  }
}

}  // namespace

Findings check_management(const Config& config) {
  auto admin = rabbit::management_admin(config.broker, kTimeout);
  if (!admin) return {wrong("management", admin.error().message, "correct broker.management")};
  const auto unseen = [](const Error& error) {
    // A refusal names its own remedy.
    const bool silent = error.message.find("is not there") != std::string::npos;
    return Findings{
        warning(
            "management", error.message,
            silent ? "rabbitmq-plugins enable rabbitmq_management, and set broker.management where it is not "
                     "at port 15672 of the broker's host"
                   : ""),
        skipped("queues", "whether queues are attached cannot be seen without the management API")};
  };
  if (auto reached = (*admin)->reach(); !reached) return unseen(reached.error());
  auto queues = (*admin)->queues();
  if (!queues) return unseen(queues.error());
  auto policies = (*admin)->policies();
  if (!policies) return unseen(policies.error());
  const Seen seen{*std::move(queues), *std::move(policies)};
  Findings all = {good("management", (*admin)->name() + " lets us see queues and policies")};
  check_own(config, seen, all);
  check_queue_type(config, seen, all);
  for (const auto& [queue, rules] : config.rules->queues()) {
    check_queue(config, queue, seen, all);
  }
  return all;
}

}  // namespace rung::cli
