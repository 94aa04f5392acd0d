// rung attach and rung detach: options, selection of queues, output. attach_run.h does the work.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>

#include "src/cli/attach/attach_plan.h"
#include "src/cli/attach/attach_run.h"
#include "src/cli/attach/detach_guard.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/commands.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"

namespace rung::cli {
namespace {

using rabbit::QueueAdmin;

struct AttachOptions {
  Common common;
  std::vector<std::string> queues;
  std::string pattern;
  bool all = false, print = false, detach = false;
  DetachChoice choice;
  bool named() const { return !all && pattern.empty(); }
};

// Queues by the prefix of their group.
using ByPrefix = std::map<std::string, std::vector<std::string>>;

Json outcome_json(const Outcome& outcome) {
  Json json = {{"queue", outcome.queue},
               {"result", outcome.result},
               {"detail", outcome.detail},
               {"policy", nullptr},
               {"notes", outcome.notes}};
  if (outcome.policy) {
    json["policy"] = {{"name", outcome.policy->name},
                      {"pattern", outcome.policy->pattern},
                      {"priority", outcome.policy->priority},
                      {"definition", Json::parse(outcome.policy->definition, nullptr, false)}};
  }
  return json;
}

int print_outcomes(const AttachOptions& options, const std::vector<Outcome>& outcomes) {
  int code = kSuccess;
  Json json = {{"results", Json::array()}};
  for (const Outcome& outcome : outcomes) {
    if (options.common.json) json["results"].push_back(outcome_json(outcome));
    if (outcome.code != kSuccess) {
      report_error(outcome.code, outcome.detail);
      if (code == kSuccess) code = outcome.code;
    } else if (!options.common.json) {
      print(one_line(outcome.detail) + "\n");
      for (const std::string& note : outcome.notes) print("  note: " + one_line(note) + "\n");
    }
  }
  if (options.common.json) print_json(json);
  if (outcomes.empty() && !options.common.json) print("no queue matches: nothing to do\n");
  return code;
}

std::string manual_command(const AttachOptions& options, const Config& config, const std::string& prefix,
                           const std::string& queue) {
  if (!options.detach) return rabbit::policy_command(prefix, vhost_of(config.broker), queue);
  return "rabbitmqctl clear_policy -p " + rabbit::shell_quote(vhost_of(config.broker)) + " " +
         rabbit::shell_quote(rabbit::policy_name(queue));
}

// RabbitMQ could not be reached: prints the commands to run by hand.
int print_manual_commands(const AttachOptions& options, const Config& config, const ByPrefix& queues,
                          const Error& unreachable) {
  std::string lines, exchanges;
  for (const auto& [prefix, names] : queues) {
    exchanges += (exchanges.empty() ? "" : " or ") + rabbit::failed_exchange(prefix);
    for (const std::string& queue : names)
      lines += "  " + manual_command(options, config, prefix, queue) + "\n";
  }
  if (!lines.empty()) {
    std::string text = "Run this where rabbitmqctl reaches the broker:\n\n" + lines;
    if (!options.detach) {
      text += "\nor declare the queue with the argument x-dead-letter-exchange: " + exchanges + "\n";
    }
    print(text);
  }
  return report_error(kUnreachable,
                      (options.detach ? "not detached: " : "not attached: ") + unreachable.message);
}

// The error in the selection of queues; "" = none.
std::string selection_error(const AttachOptions& options) {
  const std::string help = options.detach ? " (see rung detach --help)" : " (see rung attach --help)";
  if (options.named() && options.queues.empty())
    return "no queues given: name a queue, or use --pattern or --all" + help;
  if (!options.named() && !options.queues.empty())
    return "queue names cannot be combined with --pattern or --all" + help;
  if (options.all && !options.pattern.empty()) return "--pattern and --all cannot be combined" + help;
  if (options.print && !options.named())
    return "--print does not contact the broker, so it needs the queues' names" + help;
  return {};
}

// The error in the names of queues; "" = none.
std::string queue_name_error(const AttachOptions& options, const Config& config) {
  for (const std::string& queue : options.queues) {
    if (queue.empty() || queue.size() > 255) return "invalid queue name: it must have 1 to 255 bytes";
    for (const char* inlet : {"failed", "results", "delay", "parked"}) {
      if (!options.print && queue == config.rules->targets().own_prefix(queue) + inlet)
        return queue + " is a queue of Rung itself: its dead letters would loop";
    }
  }
  return {};
}

// As in RabbitMQ's policies, the regular expression can match anywhere in the name.
Result<std::optional<std::regex>> pattern_of(const AttachOptions& options) {
  if (options.pattern.empty()) return std::optional<std::regex>{};
  try {
    return std::optional(std::regex(options.pattern));
  } catch (const std::regex_error& e) {
    return permanent("--pattern: invalid regular expression: " + std::string(e.what()));
  }
}

Result<ByPrefix> named_queues(const AttachOptions& options, const Config& config) {
  ByPrefix queues;
  for (const std::string& queue : options.queues) {
    auto prefix = prefix_of_queue(config, queue);
    if (!prefix) return tl::unexpected(prefix.error());
    queues[*prefix].push_back(queue);
  }
  return queues;
}

// The prefixes for --pattern and --all: the config's, that of the chosen group, or those of all groups.
std::vector<std::string> prefixes(const Config& config) {
  if (!config.broker.prefix.empty()) return {config.broker.prefix};
  std::vector<std::string> all;
  for (const auto& group : config.groups.all) all.push_back(group.prefix);
  return all;
}

// The queues that --pattern or --all selects: to attach, existing ones; to detach, those with a policy by
// attach, and those that are attached in any other way. With groups, each queue goes to its own group; queues
// without a group are skipped.
Result<ByPrefix> selected_queues(const AttachOptions& options, const Config& config, QueueAdmin& admin) {
  auto pattern = pattern_of(options);
  if (!pattern) return tl::unexpected(pattern.error());
  const auto wanted = [&](const std::string& name) {
    return !*pattern || std::regex_search(name, **pattern);
  };
  ByPrefix found;
  if (options.detach) {
    auto policies = admin.policies();
    if (!policies) return tl::unexpected(policies.error());
    for (const rabbit::Policy& policy : *policies) {
      for (const std::string& prefix : prefixes(config)) {
        const auto queue = attached_by(policy, prefix);
        if (queue && wanted(*queue)) found[prefix].push_back(*queue);
      }
    }
    for (const std::string& prefix : prefixes(config)) {
      const auto look = rabbit::look_at_attached(admin, prefix, {});
      for (const std::string& queue : look.all.value_or(std::vector<std::string>())) {
        if (!is_own_queue(config, queue) && wanted(queue) &&
            std::ranges::find(found[prefix], queue) == found[prefix].end())
          found[prefix].push_back(queue);
      }
    }
  } else {
    auto queues = admin.queues();
    if (!queues) return tl::unexpected(queues.error());
    for (const rabbit::QueueFacts& facts : *queues) {
      const auto* group = config.groups.of_queue(facts.name);
      if (is_own_queue(config, facts.name) || !wanted(facts.name)) continue;
      if (config.groups.empty()) {
        found[config.broker.prefix].push_back(facts.name);
      } else if (group != nullptr && (config.groups.own.empty() || group->name == config.groups.own)) {
        found[group->prefix].push_back(facts.name);
      }
    }
  }
  for (auto& [prefix, names] : found) std::ranges::sort(names);
  return found;
}

// Of one group, or of all queues if there are no groups.
int detach(const AttachOptions& options, const Config& config, QueueAdmin& admin, const std::string& prefix,
           const std::vector<std::string>& queues, std::vector<Outcome>& outcomes) {
  BrokerOptions broker = config.broker;
  broker.prefix = prefix;
  Common common = options.common;
  for (const auto& group : config.groups.all) {
    if (group.prefix == prefix) common.group = group.name;
  }
  // Only those that attach has attached: the others are left alone.
  auto policies = admin.policies();
  if (!policies) return report_error(policies.error());
  std::vector<std::string> attached;
  for (const rabbit::Policy& policy : *policies) {
    const auto queue = attached_by(policy, prefix);
    if (queue && std::ranges::find(queues, *queue) != queues.end()) attached.push_back(*queue);
  }
  Session session;
  const int code = attached.empty() ? kSuccess : before_detach(common, options.choice, attached, session);
  if (code != kSuccess) return code;
  const auto done = detach_queues(admin, broker, queues);
  std::vector<std::string> gone;
  for (const Outcome& outcome : done) {
    if (std::string_view(outcome.result) == "detached") gone.push_back(outcome.queue);
  }
  after_detach(admin, prefix, gone, session);
  std::ranges::copy(done, std::back_inserter(outcomes));
  return kSuccess;
}

int run(const AttachOptions& options) {
  if (const std::string problem = selection_error(options); !problem.empty())
    return report_error(kUserError, problem);
  Config config;
  if (const int code = load(options.common, config, ConfigFor::broker); code != kSuccess) return code;
  if (const std::string problem = queue_name_error(options, config); !problem.empty())
    return report_error(kUserError, problem);
  auto queues = named_queues(options, config);
  if (!queues) return report_error(queues.error());
  if (options.print) {
    for (const auto& [prefix, names] : *queues) {
      for (const std::string& queue : names) print(manual_command(options, config, prefix, queue) + "\n");
    }
    return kSuccess;
  }
  const auto admin = reach_management(config.broker);
  if (!admin) {
    return admin.error().kind == Error::Kind::transient
               ? print_manual_commands(options, config, *queues, admin.error())
               : report_error(admin.error());
  }
  if (!options.named()) queues = selected_queues(options, config, **admin);
  if (!queues) return report_error(queues.error());
  std::vector<Outcome> outcomes;
  for (const auto& [prefix, names] : *queues) {
    if (options.detach) {
      const int code = detach(options, config, **admin, prefix, names, outcomes);
      if (code == kSuccess) continue;
      if (!outcomes.empty()) print_outcomes(options, outcomes);
      return code;
    }
    BrokerOptions broker = config.broker;
    broker.prefix = prefix;
    auto done = attach_queues(**admin, broker, names, options.named());
    std::ranges::move(done, std::back_inserter(outcomes));
  }
  return print_outcomes(options, outcomes);
}

void add_selection(CLI::App& c, AttachOptions& o, const char* all) {
  c.add_option("QUEUE", o.queues, "Names of queues");
  c.add_option("--pattern", o.pattern,
               "Instead of names: all queues whose name matches this regular expression");
  c.add_flag("--all", o.all, all);
  c.add_flag("--print", o.print, "Print the rabbitmqctl commands only; do not contact the broker");
}

void add_detach_choice(CLI::App& c, DetachChoice& choice) {
  CLI::Option* force = c.add_flag("--force", choice.force, "Detach although tasks are under way");
  CLI::Option* drain = c.add_flag("--drain", choice.drain,
                                  "Pause the queues, wait until their deliveries are answered, then detach");
  drain->excludes(force);
  c.add_flag("--send-back", choice.send_back, "With --drain: first deliver what is scheduled, once")
      ->needs(drain);
  c.add_option("--wait", choice.wait, "With --drain: wait at most this long")
      ->type_name("DURATION")
      ->needs(drain)
      ->capture_default_str();
}

}  // namespace

void add_attach(CLI::App& app, int* exit) {
  auto o = std::make_shared<AttachOptions>();
  CLI::App& c = add_command(
      app, "attach", "Sends the dead letters of queues to the sidecar",
      "Examples:\n"
      "  rung attach orders invoices\n"
      "  rung attach --pattern '^shop\\.'\n"
      "  rung attach --all\n"
      "  rung attach orders --print            only print the rabbitmqctl command\n"
      "Each queue gets a policy of its own, which copies the policy in effect and has a higher priority.\n"
      "--pattern and --all skip Rung's own queues, amq.* and queues whose dead letters go elsewhere.\n"
      "Uses the management API (broker.management, or port 15672). The user needs the tag policymaker.",
      o->common);
  add_selection(c, *o, "Instead of names: all queues of the virtual host");
  c.callback([o, exit] { *exit = run(*o); });
}

void add_detach(CLI::App& app, int* exit) {
  auto o = std::make_shared<AttachOptions>();
  o->detach = true;
  CLI::App& c = add_command(
      app, "detach", "Undoes rung attach: removes the policies that it created",
      "Examples:\n"
      "  rung detach orders\n"
      "  rung detach --pattern '^shop\\.'\n"
      "  rung detach --all\n"
      "  rung detach orders --drain            pause it, wait for the answers to what is delivered, detach\n"
      "The previous policy takes effect again. Policies that rung attach did not create are kept: a queue "
      "that\n"
      "is attached by one, by its argument or by a binding is an error, which says how to detach it.\n"
      "If tasks of a queue are under way it asks first, or refuses without a terminal: once detached, their\n"
      "failures are lost, and silence is no success.",
      o->common);
  add_selection(c, *o, "Instead of names: all queues that are attached");
  add_detach_choice(c, o->choice);
  c.callback([o, exit] { *exit = run(*o); });
}

}  // namespace rung::cli
