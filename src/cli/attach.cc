// rung attach: points a queue's dead letters at the sidecar, by whatever of RabbitMQ's administration is at
// hand.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <thread>

#include "src/cli/attach_plan.h"
#include "src/cli/command.h"
#include "src/cli/commands.h"
#include "src/cli/ctl.h"
#include "src/cli/story.h"
#include "src/cli/text.h"
#include "src/core/url.h"

namespace rung::cli {
namespace {

using rabbit::QueueAdmin;

constexpr Ms kManagementTimeout{std::chrono::seconds{5}};
constexpr Ms kAmqpTimeout{std::chrono::seconds{10}};
constexpr int kLooks = 50;  // until a policy must have taken effect
constexpr Ms kBetweenLooks{200};

struct Options {
  Common common;
  std::string queue;
  bool print = false, detach = false;
};

struct Attempted {
  std::unique_ptr<QueueAdmin> admin;  // none: nobody was reached
  std::vector<std::string> why_not;
  std::optional<Error> final;  // reached, and what it said ends the search
};

// The management API, else rabbitmqctl.
Attempted find_admin(const BrokerOptions& broker) {
  Attempted tried;
  std::vector<std::unique_ptr<QueueAdmin>> candidates;
  if (auto management = rabbit::management_admin(broker, kManagementTimeout)) {
    candidates.push_back(*std::move(management));
  } else {
    tried.final = management.error();
    return tried;
  }
  candidates.push_back(ctl_admin(broker));
  for (auto& candidate : candidates) {
    auto reached = candidate->reach();
    if (reached) {
      tried.admin = std::move(candidate);
      return tried;
    }
    tried.why_not.push_back(reached.error().message);
  }
  return tried;
}

std::string vhost_of(const Config& config) {
  const auto url = parse_url(config.broker.url);
  return url ? url->vhost() : "/";
}

void report(const Options& options, const char* result, const std::string& detail,
            const rabbit::Policy* policy) {
  if (options.common.json) {
    Json json = {{"queue", options.queue}, {"result", result}, {"detail", detail}};
    if (policy != nullptr) {
      json["policy"] = {{"name", policy->name},
                        {"pattern", policy->pattern},
                        {"priority", policy->priority},
                        {"definition", Json::parse(policy->definition, nullptr, false)}};
    }
    print(dump(json) + "\n");
    return;
  }
  print(one_line(detail) + "\n");
}

// Nobody could be reached: what a person can do by hand.
int by_hand(const Options& options, const Config& config, const std::vector<std::string>& why_not) {
  const std::string ours = rabbit::failed_exchange(config.broker.prefix);
  print(
      fmt::format("Run this where rabbitmqctl reaches the broker:\n\n  {}\n\n"
                  "or declare the queue with the argument x-dead-letter-exchange: {}\n",
                  rabbit::policy_command(config.broker.prefix, vhost_of(config), options.queue), ours));
  std::string why;
  for (const std::string& each : why_not) why += (why.empty() ? "" : "; ") + each;
  return complain(kNotReached, "not attached: " + why);
}

// A policy takes effect a moment after it was accepted.
Result<bool> wait_for(QueueAdmin& admin, const std::string& queue, const std::string& policy) {
  for (int look = 0; look < kLooks; ++look) {
    auto facts = admin.queue(queue);
    if (!facts) return tl::unexpected(facts.error());
    if (facts->policy == policy) return true;
    std::this_thread::sleep_for(kBetweenLooks);
  }
  return false;
}

int put_policy(const Options& options, QueueAdmin& admin, const AttachPlan& plan) {
  if (auto put = admin.put(plan.policy); !put) return complain(put.error());
  auto took = wait_for(admin, options.queue, plan.policy.name);
  if (!took) return complain(took.error());
  if (!*took) {
    return complain(kMistake,
                    fmt::format("policy {} is set but not in effect for queue {}: another of the same or a "
                                "higher priority holds (rabbitmqctl list_policies)",
                                plan.policy.name, options.queue));
  }
  std::string detail = fmt::format("queue {} is attached by policy {} (priority {}, set by {})",
                                   options.queue, plan.policy.name, plan.policy.priority, admin.name());
  if (!plan.over.empty()) {
    detail += fmt::format(
        "; it takes over what policy {} says now: a later change there needs another attach", plan.over);
  }
  if (!plan.elsewhere.empty()) detail += fmt::format("; its dead letters went to {} before", plan.elsewhere);
  report(options, "attached", detail, &plan.policy);
  return kDone;
}

int attach(const Options& options, const Config& config, QueueAdmin& admin) {
  auto facts = admin.queue(options.queue);
  if (!facts) return complain(facts.error());
  auto policies = admin.policies();
  if (!policies) return complain(policies.error());
  const AttachPlan plan = plan_attach(config.broker.prefix, options.queue, *facts, *policies);
  if (plan.what == AttachPlan::Do::refuse)
    return complain(kMistake, "queue " + options.queue + " cannot be attached by a policy: " + plan.why);

  // First the place where dead letters go, then the sign that points there.
  if (auto declared = rabbit::declare_once(config.broker, kAmqpTimeout); !declared)
    return complain(declared.error());
  const std::string ours = rabbit::failed_exchange(config.broker.prefix);
  auto there = admin.exchange_exists(ours);
  if (!there) return complain(there.error());
  if (!*there) {
    return complain(
        kNotReached,
        fmt::format("{} speaks for another broker than broker.url: exchange {}, just declared, is "
                    "not there",
                    admin.name(), ours));
  }
  if (plan.what == AttachPlan::Do::put) return put_policy(options, admin, plan);
  report(options, "already attached", "queue " + options.queue + " is attached already, " + plan.why,
         nullptr);
  return kDone;
}

int detach(const Options& options, const Config& config, QueueAdmin& admin) {
  const std::string name = rabbit::policy_name(options.queue);
  auto policies = admin.policies();
  if (!policies) return complain(policies.error());
  const rabbit::Policy* ours = find_policy(*policies, name);
  if (ours != nullptr && ours->pattern != rabbit::policy_pattern(options.queue)) {
    return complain(kMistake,
                    fmt::format("policy {} has another pattern than attach gives it ({}): remove it by hand",
                                name, ours->pattern));
  }
  if (ours != nullptr) {
    if (auto gone = admin.remove(name); !gone) return complain(gone.error());
  }
  auto facts = admin.queue(options.queue);
  if (!facts && facts.error().kind != Error::Kind::not_found) return complain(facts.error());
  if (!facts && ours == nullptr) return complain(facts.error());
  const std::string exchange = rabbit::failed_exchange(config.broker.prefix);
  if (facts && facts->dead_letter_argument == exchange) {
    return complain(kMistake, "queue " + options.queue +
                                  " is attached by its argument x-dead-letter-exchange: only "
                                  "declaring it anew detaches it");
  }
  if (facts && facts->policy != name && dead_letters_by_policy(*facts, *policies) == exchange) {
    return complain(kMistake, "queue " + options.queue + " is attached by policy " + facts->policy +
                                  ", which attach did not make: change it by hand");
  }
  report(options, ours != nullptr ? "detached" : "not attached",
         ours != nullptr ? fmt::format("queue {} is detached: policy {} is removed", options.queue, name)
                         : fmt::format("queue {} is not attached: there is nothing to do", options.queue),
         nullptr);
  return kDone;
}

int run(const Options& options) {
  Config config;
  if (const int code = load(options.common, config, ConfigFor::broker); code != kDone) return code;
  if (options.queue.empty() || options.queue.size() > 255)
    return complain(kMistake, "a queue's name has 1 to 255 bytes");
  if (options.print) {
    const std::string line =
        options.detach ? "rabbitmqctl clear_policy -p " + rabbit::shell_quote(vhost_of(config)) + " " +
                             rabbit::shell_quote(rabbit::policy_name(options.queue))
                       : rabbit::policy_command(config.broker.prefix, vhost_of(config), options.queue);
    print(line + "\n");
    return kDone;
  }
  for (const char* inlet : {".failed", ".results", ".delay", ".parked"}) {
    if (options.queue == config.broker.prefix + inlet)
      return complain(kMistake,
                      options.queue + " is Rung's own queue: its dead letters would go round in a circle");
  }
  Attempted tried = find_admin(config.broker);
  if (tried.final) return complain(*tried.final);
  if (tried.admin == nullptr) return by_hand(options, config, tried.why_not);
  return options.detach ? detach(options, config, *tried.admin) : attach(options, config, *tried.admin);
}

}  // namespace

void add_attach(CLI::App& app, int* exit) {
  auto o = std::make_shared<Options>();
  CLI::App& c = add_command(
      app, "attach", "Points a queue's dead letters at the sidecar",
      "Examples:\n"
      "  rung attach orders\n"
      "  rung attach orders --print            only the rabbitmqctl line that would do it\n"
      "  rung attach orders --detach           undoes it\n"
      "It sets a policy for this queue alone, above the one in effect and with all that one says.\n"
      "By the management API (broker.management, else port 15672), else by rabbitmqctl\n"
      "($RUNG_RABBITMQCTL may name another command).",
      o->common);
  c.add_option("QUEUE", o->queue, "The queue's name")->required();
  c.add_flag("--print", o->print, "Print the command, change nothing, ask nobody");
  c.add_flag("--detach", o->detach, "Remove the policy that attach made");
  c.callback([o, exit] { *exit = run(*o); });
}

}  // namespace rung::cli
