#include "src/cli/attach/attach_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "plugin/rabbitmq/topology/probe.h"
#include "src/cli/attach/attach_plan.h"
#include "src/cli/attach/queue_notes.h"
#include "src/core/base/clock.h"
#include "src/core/base/queue_pattern.h"

namespace rung::cli {
namespace {

using rabbit::Policy;
using rabbit::QueueAdmin;
using rabbit::QueueFacts;
using FactsByQueue = std::map<std::string, QueueFacts, std::less<>>;

constexpr Ms kManagementTimeout{std::chrono::seconds{5}};
constexpr Ms kAmqpTimeout{std::chrono::seconds{10}};
constexpr int kMaxEffectPolls = 50;  // until a policy should be in effect
constexpr Ms kEffectPollInterval{200};

Outcome failed(const std::string& queue, Exit code, std::string what) {
  return {queue, code, code == kNotFound ? "not found" : "failed", std::move(what), std::nullopt};
}
Outcome failed(const std::string& queue, const Error& error) {
  return failed(queue, exit_of(error), error.message);
}
Outcome missing_queue(const std::string& queue) {
  const bool pattern = QueuePattern(queue).only_name() != queue;
  return failed(queue, kNotFound,
                "no queue '" + queue + "' in the virtual host of broker.url" +
                    (pattern ? "; it is taken as a name: --pattern takes a regular expression" : ""));
}
std::vector<Outcome> all_failed(const std::vector<std::string>& queues, const Error& error) {
  return {failed(queues.empty() ? "" : queues.front(), error)};
}

// Those of `queues` that exist. A single queue is requested by name, because a broker can have thousands.
Result<FactsByQueue> existing_queues(QueueAdmin& admin, const std::vector<std::string>& queues) {
  FactsByQueue found;
  if (queues.size() == 1) {
    auto facts = admin.queue(queues[0]);
    if (!facts) {
      if (facts.error().kind != Error::Kind::not_found) return tl::unexpected(facts.error());
      return found;
    }
    found[queues[0]] = *std::move(facts);
    return found;
  }
  auto all = admin.queues();
  if (!all) return tl::unexpected(all.error());
  for (QueueFacts& facts : *all) {
    if (std::ranges::find(queues, facts.name) != queues.end()) found[facts.name] = std::move(facts);
  }
  return found;
}

// Declares the exchange and queue for dead letters, before any policy points there.
Result<void> declare_topology(QueueAdmin& admin, const BrokerOptions& broker) {
  const SystemClock clock;
  auto probe = rabbit::Probe::open(broker, clock, kAmqpTimeout, "attach");
  if (!probe) return tl::unexpected(probe.error());
  if (auto declared = (*probe)->declare(broker); !declared) return declared;
  const std::string ours = rabbit::failed_exchange(broker.prefix);
  const auto exchange = admin.exchange(ours);
  if (exchange) return {};
  if (exchange.error().kind != Error::Kind::not_found) return tl::unexpected(exchange.error());
  return transient(fmt::format(
      "{} manages a different broker than broker.url: exchange {}, just declared, does not exist there",
      admin.name(), ours));
}

Outcome attached(QueueAdmin& admin, const std::string& queue, const AttachPlan& plan) {
  if (!plan.drift.empty()) {
    return {queue, kSuccess, "refreshed",
            fmt::format("queue {} is attached; {}; it is copied anew (priority {}, set by {})", queue,
                        plan.drift, plan.policy.priority, admin.name()),
            plan.policy};
  }
  std::string detail = fmt::format("queue {} is attached by policy {} (priority {}, set by {})", queue,
                                   plan.policy.name, plan.policy.priority, admin.name());
  if (!plan.overridden.empty()) {
    detail += fmt::format("; it copies policy {} as it is now: run attach again after changing that policy",
                          plan.overridden);
  }
  if (!plan.previous_exchange.empty())
    detail += fmt::format("; its dead letters previously went to {}", plan.previous_exchange);
  return {queue, kSuccess, "attached", std::move(detail), plan.policy};
}

// A policy takes effect shortly after it was accepted. Removes queues from `waiting` whose policy is in
// effect.
Result<void> wait_until_effective(QueueAdmin& admin, std::map<std::string, std::string>& waiting) {
  for (int poll = 0; poll < kMaxEffectPolls && !waiting.empty(); ++poll) {
    if (poll > 0) std::this_thread::sleep_for(kEffectPollInterval);
    std::vector<std::string> names;
    for (const auto& [queue, policy] : waiting) names.push_back(queue);
    auto facts = existing_queues(admin, names);
    if (!facts) return tl::unexpected(facts.error());
    std::erase_if(waiting, [&](const auto& entry) {
      const auto it = facts->find(entry.first);
      return it != facts->end() && it->second.policy == entry.second;
    });
  }
  return {};
}

// The outcome if no policy needs to be set; nullopt if one does.
std::optional<Outcome> outcome_without_policy(const std::string& queue, const QueueFacts& facts,
                                              const AttachPlan& plan, bool named) {
  if (plan.action == AttachPlan::Action::nothing) {
    return Outcome{queue, kSuccess, "already attached",
                   "queue " + queue + " is already attached, " + plan.reason, std::nullopt};
  }
  const auto skipped = [&](const std::string& why) {
    return Outcome{queue, kSuccess, "skipped", "queue " + queue + " is skipped: " + why, std::nullopt};
  };
  if (!named && facts.exclusive) return skipped("it is exclusive to one connection");
  if (plan.action == AttachPlan::Action::refuse) {
    if (!named) return skipped(plan.reason);
    return failed(queue, kUserError, "queue " + queue + " cannot be attached by a policy: " + plan.reason);
  }
  if (!named && plan.drift.empty() && !plan.previous_exchange.empty())
    return skipped("its dead letters go to " + plan.previous_exchange +
                   "; name the queue to attach it anyway");
  return std::nullopt;
}

std::vector<std::string> notes_of(const QueueFacts& facts, const std::vector<Policy>& policies) {
  std::vector<std::string> notes;
  for (const TargetNote& note : target_notes(facts, policies)) notes.push_back(note.what + "; " + note.fix);
  for (const QuorumNote& note : quorum_notes(facts, policies, std::nullopt)) {
    // An explicit limit is the user's choice. Delays and cancels by the broker are worth a note anyway.
    if (!note.fine) {
      notes.push_back(note.what + "; " + note.fix);
    } else if (note.name == "delayed_retry" || note.name == "consumer_timeout") {
      notes.push_back(note.what);
    }
  }
  return notes;
}

// How to detach a queue that is attached by other means than the policy by attach.
std::string how_to_detach(const BrokerOptions& broker, const QueueFacts& facts,
                          const rabbit::AttachedAnswer& answer, const rabbit::DeadLetters& dead,
                          const rabbit::DeadLetterRoutes& routes) {
  if (answer.attached == rabbit::Attached::yes_by_argument)
    return "its argument x-dead-letter-exchange: to detach it, redeclare the queue";
  if (answer.attached == rabbit::Attached::yes_by_policy)
    return "policy " + facts.policy + ", which rung attach did not create: change it by hand";
  const std::string ours = rabbit::failed_exchange(broker.prefix);
  std::string commands;
  for (const rabbit::Binding& binding : routes.ways(*dead.exchange, dead.routing_key))
    commands += (commands.empty() ? "" : "; ") +
                rabbit::binding_command("delete", vhost_of(broker), binding.source,
                                        binding.to.empty() ? "queue" : "exchange",
                                        binding.to.empty() ? ours : binding.to, binding.routing_key);
  return answer.detail + ": to detach it, and all other queues that dead-letter there, run: " + commands;
}

Outcome detach_one(QueueAdmin& admin, const BrokerOptions& broker, const std::string& queue,
                   const QueueFacts* facts, const std::vector<Policy>& policies,
                   const rabbit::DeadLetterRoutes& routes) {
  const std::string name = rabbit::policy_name(queue);
  const Policy* ours = find_policy(policies, name);
  if (ours != nullptr && ours->pattern != rabbit::policy_pattern(queue)) {
    return failed(
        queue, kUserError,
        fmt::format("policy {} was not created by rung attach (its pattern is {}): remove it by hand", name,
                    ours->pattern));
  }
  if (ours != nullptr && !attached_by(*ours, broker.prefix)) {
    return failed(queue, kUserError,
                  fmt::format("policy {} does not send dead letters to {}: rung attach did not create it "
                              "with this config; remove it by hand",
                              name, rabbit::failed_exchange(broker.prefix)));
  }
  if (ours != nullptr) {
    if (auto gone = admin.remove(name); !gone) return failed(queue, gone.error());
  }
  if (facts == nullptr && ours == nullptr)
    return failed(queue, kNotFound, "no queue '" + queue + "' and no policy " + name);
  if (facts != nullptr) {
    QueueFacts after = *facts;  // without our policy
    if (after.policy == name) {
      const Policy* below = policy_below(*facts, policies, name);
      after.policy = below == nullptr ? "" : below->name;
    }
    const auto answer = rabbit::judge_attached(broker.prefix, after, policies, routes);
    if (is_attached(answer.attached))
      return failed(
          queue, kUserError,
          "queue " + queue + " is attached by " +
              how_to_detach(broker, after, answer, rabbit::dead_letters_of(after, policies), routes));
  }
  if (ours == nullptr)
    return {queue, kSuccess, "not attached", fmt::format("queue {} is not attached: nothing to do", queue),
            std::nullopt};
  return {queue, kSuccess, "detached",
          fmt::format("queue {} is detached: policy {} was removed", queue, name), std::nullopt};
}

}  // namespace

Result<std::unique_ptr<QueueAdmin>> reach_management(const BrokerOptions& broker) {
  auto management = rabbit::management_admin(broker, kManagementTimeout);
  if (!management) return management;
  if (auto reached = (*management)->reach(); !reached) return transient(reached.error().message);
  return management;
}

std::vector<Outcome> attach_queues(QueueAdmin& admin, const BrokerOptions& broker,
                                   const std::vector<std::string>& queues, bool named) {
  auto facts = existing_queues(admin, queues);
  if (!facts) return all_failed(queues, facts.error());
  auto policies = admin.policies();
  if (!policies) return all_failed(queues, policies.error());
  std::vector<QueueFacts> all;
  for (const auto& [queue, its] : *facts) all.push_back(its);
  auto routes = rabbit::read_routes(admin, broker.prefix, rabbit::any_foreign(all, *policies, broker.prefix));
  if (!routes) return all_failed(queues, routes.error());
  std::vector<Outcome> done;
  std::vector<std::pair<std::string, AttachPlan>> to_put;
  for (const std::string& queue : queues) {
    const auto it = facts->find(queue);
    if (it == facts->end()) {
      done.push_back(missing_queue(queue));
      continue;
    }
    AttachPlan plan = plan_attach(broker, queue, it->second, *policies, *routes);
    if (auto outcome = outcome_without_policy(queue, it->second, plan, named)) {
      if (plan.action == AttachPlan::Action::nothing) outcome->notes = notes_of(it->second, *policies);
      done.push_back(*std::move(outcome));
    } else {
      to_put.emplace_back(queue, std::move(plan));
    }
  }
  const bool any = std::ranges::any_of(
      done, [](const Outcome& o) { return std::string_view(o.result) == "already attached"; });
  if (!to_put.empty() || any) {
    if (auto made = declare_topology(admin, broker); !made) return all_failed(queues, made.error());
  }
  std::map<std::string, std::string> waiting;
  for (const auto& [queue, plan] : to_put) {
    if (auto put = admin.put(plan.policy)) {
      waiting[queue] = plan.policy.name;
      done.push_back(attached(admin, queue, plan));
      done.back().notes = notes_of(facts->at(queue), *policies);
    } else {
      done.push_back(failed(queue, put.error()));
    }
  }
  if (auto waited = wait_until_effective(admin, waiting); !waited) return all_failed(queues, waited.error());
  for (Outcome& outcome : done) {
    const auto it = waiting.find(outcome.queue);
    if (it == waiting.end()) continue;
    outcome = failed(outcome.queue, kUserError,
                     fmt::format("policy {} is set but not in effect for queue {}: another policy of the "
                                 "same or a higher priority is (rabbitmqctl list_policies)",
                                 it->second, outcome.queue));
  }
  return done;
}

std::vector<Outcome> detach_queues(QueueAdmin& admin, const BrokerOptions& broker,
                                   const std::vector<std::string>& queues) {
  auto policies = admin.policies();
  if (!policies) return all_failed(queues, policies.error());
  auto facts = existing_queues(admin, queues);
  if (!facts) return all_failed(queues, facts.error());
  const auto routes = rabbit::read_routes(admin, broker.prefix, true);
  if (!routes) return all_failed(queues, routes.error());
  std::vector<Outcome> done;
  for (const std::string& queue : queues) {
    const auto it = facts->find(queue);
    const QueueFacts* its = it == facts->end() ? nullptr : &it->second;
    done.push_back(detach_one(admin, broker, queue, its, *policies, *routes));
  }
  return done;
}

bool is_own_queue(const Config& config, std::string_view queue) {
  return queue.starts_with("amq.") || config.rules->targets().is_own(queue);
}

std::map<std::string, std::vector<std::string>> matched_queues(const Config& config,
                                                               const std::vector<rabbit::QueueFacts>& all) {
  std::map<std::string, std::vector<std::string>> matched;
  for (const rabbit::QueueFacts& facts : all) {
    if (facts.exclusive || facts.type == "stream" || !config.rules->watches(facts.name)) continue;
    matched[config.rules->pattern_of(facts.name)->pattern.text()].push_back(facts.name);
  }
  return matched;
}

Result<std::string> prefix_of_queue(const Config& config, const std::string& queue) {
  const QueueGroups& groups = config.groups;
  if (groups.empty()) return config.broker.prefix;
  const auto* group = groups.of_queue(queue);
  if (group != nullptr && (groups.own.empty() || group->name == groups.own)) return group->prefix;
  if (group != nullptr) {
    return permanent("queue '" + queue + "' belongs to group " + group->name + ", not to " + groups.own +
                     ": use --group " + group->name + ", or change groups.NAME.queues");
  }
  if (!groups.own.empty()) return config.broker.prefix;
  return permanent("no group has queue '" + queue +
                   "': add it to groups.NAME.queues, or use --group NAME: " + groups.names());
}

std::optional<std::string> attached_by(const Policy& policy, std::string_view prefix) {
  constexpr std::string_view kNameBegins = "rung-";
  if (!policy.name.starts_with(kNameBegins)) return std::nullopt;
  std::string queue = policy.name.substr(kNameBegins.size());
  if (policy.pattern != rabbit::policy_pattern(queue)) return std::nullopt;
  const auto definition = nlohmann::json::parse(policy.definition, nullptr, false);
  if (!definition.is_object() || definition.value("dead-letter-exchange", nlohmann::json()) !=
                                     nlohmann::json(rabbit::failed_exchange(prefix)))
    return std::nullopt;
  return queue;
}

}  // namespace rung::cli
