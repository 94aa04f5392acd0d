// Checks over the management API: attachment of the queues in the config, policies, types of queues.
#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "plugin/rabbitmq/topology/attachment.h"
#include "plugin/rabbitmq/topology/own_settings.h"
#include "src/cli/attach/attach_plan.h"
#include "src/cli/attach/attach_run.h"
#include "src/cli/attach/queue_notes.h"
#include "src/cli/doctor/doctor.h"

namespace rung::cli {
namespace {

using rabbit::Policy;
using rabbit::QueueFacts;

struct ManagementData {
  std::vector<QueueFacts> queues;
  std::vector<Policy> policies;
  rabbit::DeadLetterRoutes routes;
};

// Of PREFIX.failed; "" = it does not exist.
std::string inlet_type(const Config& config, const ManagementData& data) {
  const auto failed =
      std::ranges::find(data.queues, config.broker.prefix + ".failed", &rabbit::QueueFacts::name);
  return failed == data.queues.end() ? std::string() : failed->type;
}

void check_queue(const Config& config, const std::string& queue, const ManagementData& data, Findings& all) {
  const auto it = std::ranges::find(data.queues, queue, &rabbit::QueueFacts::name);
  const std::string name = "queue." + queue;
  if (it == data.queues.end()) {
    all.push_back(warning(name, "no such queue: '" + queue + "' (named in the config)",
                          "declare it, then run: " + attach_command(queue)));
    return;
  }
  const auto answer = rabbit::judge_attached(config.broker.prefix, *it, data.policies, data.routes);
  const AttachPlan plan = plan_attach(config.broker, queue, *it, data.policies, data.routes);
  if (is_attached(answer.attached)) {
    all.push_back(good(name, answer.attached == rabbit::Attached::yes_by_argument
                                 ? "attached by its argument"
                                 : "attached by " + describe(answer)));
    if (!plan.drift.empty()) all.push_back(warning(name + ".policy", plan.drift, plan.command));
  } else {
    // Only a warning: its consumer may publish failures itself.
    all.push_back(warning(name, "not attached: " + answer.detail, plan.command));
  }
  for (TargetNote& note : target_notes(*it, data.policies))
    all.push_back(warning(name + "." + note.name, std::move(note.what), std::move(note.fix)));
  for (QuorumNote& note : quorum_notes(*it, data.policies, config.rules->queue(queue).silence)) {
    all.push_back(note.fine ? good(name + "." + note.name, std::move(note.what))
                            : warning(name + "." + note.name, std::move(note.what), std::move(note.fix)));
  }
  // One that is not attached passes nothing on: its consumers publish their failures themselves.
  if (is_attached(answer.attached) && it->type == "classic" && inlet_type(config, data) == "quorum") {
    all.push_back(warning(
        name + ".strategy",
        "a classic queue loses what its consumers reject while " + config.broker.prefix +
            ".failed, a quorum queue, has no leader: half a second after a start of the broker",
        "make it a quorum queue with dead-letter-strategy: at-least-once and overflow: reject-publish; on a "
        "single node, Rung's own queues as classic queues help as well (docs/broker-settings.md)"));
  }
}

// Rung's own queues and exchanges, and what others have set on them.
void check_own(const Config& config, rabbit::QueueAdmin& admin, const ManagementData& data, Findings& all) {
  const auto state =
      rabbit::read_own_state(admin, config.broker.prefix, vhost_of(config.broker), data.policies);
  if (!state) {
    all.push_back(skipped("settings", state.error().message));
    return;
  }
  const auto found = rabbit::judge_settings(config.broker.prefix, config.broker.rabbitmq.queue_type, *state);
  for (const rabbit::SettingFinding& one : found) {
    const std::string name = "settings." + one.subject;
    all.push_back(one.harm == rabbit::Harm::fatal ? wrong(name, one.what, one.mend)
                                                  : warning(name, one.what, one.mend));
  }
  if (found.empty())
    all.push_back(good("settings",
                       "no policy, argument or binding harms Rung's own queues and exchanges (the "
                       "management API shows a new policy after 5 s)"));
}

// A classic queue is on a single node of a cluster.
void check_queue_type(const Config& config, const ManagementData& data, Findings& all) {
  const std::size_t nodes = rabbit::cluster_nodes(config.broker, data.queues, kDoctorTimeout).size();
  if (nodes < 2) return;
  std::string type = config.broker.rabbitmq.queue_type;
  if (type == "auto") {
    type = inlet_type(config, data);
    if (type.empty()) return;  // the broker's version decides, at the first start
  }
  const std::string cluster = "RabbitMQ is a cluster of " + std::to_string(nodes) + " nodes";
  if (type == "quorum") {
    all.push_back(good("broker.queue_type", cluster + ", and Rung's own queues are quorum queues"));
  } else {
    all.push_back(
        warning("broker.queue_type",
                cluster + ", and Rung's own queues are classic queues: each is on one node, and "
                          "Rung receives nothing from it while that node is down",
                "set broker.queue_type: quorum, and stop the sidecars when the queues are empty: the next "
                "start declares them anew (docs/broker-settings.md)"));
  }
}

// A line for each pattern, and the findings of those of its queues that need something.
void check_patterns(const Config& config, const ManagementData& data, Findings& all) {
  const auto matched = matched_queues(config, data.queues);
  for (const RuleBook::PatternRules& entry : config.rules->patterns()) {
    const std::string& pattern = entry.pattern.text();
    const std::string name = "queue." + pattern;
    const auto its = matched.find(pattern);
    if (its == matched.end()) {
      all.push_back(warning(name, "no queue matches this pattern (in the config)",
                            "see rung attached for the names of the queues"));
      continue;
    }
    Findings each;
    for (const std::string& queue : its->second) check_queue(config, queue, data, each);
    std::erase_if(each, [](const Finding& finding) { return finding.status == Finding::Status::ok; });
    all.push_back(good(
        name, std::to_string(its->second.size()) + " queues match" + (each.empty() ? ", all attached" : "")));
    const std::size_t more = each.size() - std::min(each.size(), kMostOfPattern);
    each.resize(each.size() - more);
    std::ranges::move(each, std::back_inserter(all));
    if (more > 0)
      all.push_back(warning(name, std::to_string(more) + " more findings for its queues",
                            "mend those above, and run rung doctor again"));
  }
}

}  // namespace

Findings check_management(const Config& config, QueueList& list) {
  auto admin = rabbit::management_admin(config.broker, kDoctorTimeout);
  if (!admin) return {wrong("management", admin.error().message, "correct broker.management")};
  const auto unavailable = [](const Error& error) {
    // A refusal already says how to fix it.
    const bool silent = error.message.find("is not reachable") != std::string::npos;
    return Findings{warning("management", error.message,
                            silent ? "rabbitmq-plugins enable rabbitmq_management, and set broker.management "
                                     "if it is not on port 15672 of the broker's host"
                                   : ""),
                    skipped("queues", "attachment of queues cannot be checked without the management API")};
  };
  if (auto reached = (*admin)->reach(); !reached) return unavailable(reached.error());
  const auto& queues = list.get();
  if (!queues) return unavailable(queues.error());
  auto policies = (*admin)->policies();
  if (!policies) return unavailable(policies.error());
  auto routes = rabbit::read_routes(**admin, config.broker.prefix,
                                    rabbit::any_foreign(*queues, *policies, config.broker.prefix));
  if (!routes) return unavailable(routes.error());
  const ManagementData data{*queues, *std::move(policies), *std::move(routes)};
  Findings all = {good("management", (*admin)->name() + " lists queues and policies")};
  check_own(config, **admin, data, all);
  check_queue_type(config, data, all);
  for (const auto& [queue, rules] : config.rules->queues()) {
    check_queue(config, queue, data, all);
  }
  check_patterns(config, data, all);
  return all;
}

}  // namespace rung::cli
