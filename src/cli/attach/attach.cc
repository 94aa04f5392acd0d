// rung attach and rung detach: by policy, through the management API.
#include "src/cli/attach/attach.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <set>
#include <thread>

#include "plugin/rabbitmq/topology/probe.h"
#include "src/cli/attach/queue_notes.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"
#include "src/core/base/queue_pattern.h"
#include "src/core/base/time.h"
#include "src/sidecar/attach.h"

namespace rung::cli {

namespace {

using rabbit::Policy;
using rabbit::QueueAdmin;
using rabbit::QueueFacts;

constexpr Ms kManagementTimeout{std::chrono::seconds{5}};
constexpr Ms kAmqpTimeout{std::chrono::seconds{10}};
constexpr int kMaxEffectPolls = 50;  // until a policy should be in effect
constexpr Ms kEffectPollInterval{200};

// The queue that attach created this policy for, with this prefix; nullopt if attach did not create it.
std::optional<std::string> attached_by(const rabbit::Policy& policy, std::string_view prefix) {
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

// The outcome for one queue.
struct AttachOutcome {
  std::string queue;
  Exit code = kSuccess;
  const char* result = "failed";  // a keyword for scripts
  std::string detail;             // a sentence for people; an error message if `code` is an error
  std::optional<rabbit::Policy> policy;
  // Notes on how its arguments and policies affect its retries; not errors.
  std::vector<std::string> notes = {};
};

AttachOutcome failed(const std::string& queue, Exit code, std::string what) {
  return {queue, code, code == kNotFound ? "not found" : "failed", std::move(what), std::nullopt};
}
AttachOutcome failed(const std::string& queue, const Error& error) {
  return failed(queue, exit_of(error), error.message);
}
AttachOutcome missing_queue(const std::string& queue) {
  const bool pattern = QueuePattern(queue).only_name() != queue;
  return failed(queue, kNotFound,
                "no queue '" + queue + "' in the virtual host of broker.url" +
                    (pattern ? "; it is taken as a name: --pattern takes a regular expression" : ""));
}

// Declares the exchange and queue for dead letters, before any policy points there.
void declare_topology(QueueAdmin& admin, const BrokerOptions& broker) {
  const SystemClock clock;
  need(need(rabbit::Probe::open(broker, clock, kAmqpTimeout, "attach"))->declare(broker));
  const std::string ours = rabbit::failed_exchange(broker.prefix);
  const auto exchange = admin.exchange(ours);
  if (exchange) return;
  if (exchange.error().kind != Error::Kind::not_found) throw Failed(exchange.error());
  throw Failed(kUnreachable, fmt::format("{} manages a different broker than broker.url: exchange {}, just "
                                         "declared, does not exist there",
                                         admin.name(), ours));
}

AttachOutcome attached(QueueAdmin& admin, const std::string& queue, const sidecar::AttachPlan& plan) {
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
void wait_until_effective(QueueAdmin& admin, std::map<std::string, std::string>& waiting) {
  for (int poll = 0; poll < kMaxEffectPolls && !waiting.empty(); ++poll) {
    if (poll > 0) std::this_thread::sleep_for(kEffectPollInterval);
    for (auto it = waiting.begin(); it != waiting.end();) {
      const auto facts = admin.queue(it->first);
      if (!facts && facts.error().kind != Error::Kind::not_found) throw Failed(facts.error());
      it = facts && facts->policy == it->second ? waiting.erase(it) : std::next(it);
    }
  }
}

// The outcome if no policy needs to be set; nullopt if one does.
std::optional<AttachOutcome> outcome_without_policy(const std::string& queue, const QueueFacts& facts,
                                                    const sidecar::AttachPlan& plan, bool named) {
  if (plan.action == sidecar::AttachPlan::Action::nothing) {
    return AttachOutcome{queue, kSuccess, "already attached",
                         "queue " + queue + " is already attached, " + plan.reason, std::nullopt};
  }
  const auto skipped = [&](const std::string& why) {
    return AttachOutcome{queue, kSuccess, "skipped", "queue " + queue + " is skipped: " + why, std::nullopt};
  };
  if (!named && facts.exclusive) return skipped("it is exclusive to one connection");
  if (plan.action == sidecar::AttachPlan::Action::refuse) {
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
  for (const QueueNote& note : target_notes(facts, policies)) notes.push_back(note.what + "; " + note.fix);
  for (const QueueNote& note : quorum_notes(facts, policies, std::nullopt)) {
    // An explicit limit is the user's choice. Delays and cancels by the broker are worth a note anyway.
    if (!note.fine()) {
      notes.push_back(note.what + "; " + note.fix);
    } else if (note.name == "delayed_retry" || note.name == "consumer_timeout") {
      notes.push_back(note.what);
    }
  }
  return notes;
}

// How to detach a queue that is attached by other means than the policy by attach.
std::string how_to_detach(const BrokerOptions& broker, const QueueFacts& facts,
                          const rabbit::AttachedAnswer& answer, const rabbit::Vhost& vhost) {
  if (answer.attached == rabbit::Attached::yes_by_argument)
    return "its argument x-dead-letter-exchange: to detach it, redeclare the queue";
  if (answer.attached == rabbit::Attached::yes_by_policy)
    return "policy " + facts.policy + ", which rung attach did not create: change it by hand";
  const std::string ours = rabbit::failed_exchange(broker.prefix);
  const rabbit::DeadLetters dead = rabbit::dead_letters_of(facts, vhost.policies);
  std::string commands;
  for (const rabbit::Binding& binding : vhost.routes.ways(*dead.exchange, dead.routing_key))
    commands += (commands.empty() ? "" : "; ") +
                rabbit::binding_command("delete", sidecar::vhost_of(broker), binding.source,
                                        binding.to.empty() ? "queue" : "exchange",
                                        binding.to.empty() ? ours : binding.to, binding.routing_key);
  return answer.detail + ": to detach it, and all other queues that dead-letter there, run: " + commands;
}

AttachOutcome detach_one(QueueAdmin& admin, const BrokerOptions& broker, const std::string& queue,
                         const rabbit::Vhost& vhost) {
  const std::string name = rabbit::policy_name(queue);
  const QueueFacts* facts = vhost.find(queue);
  const Policy* ours = rabbit::find_policy(vhost.policies, name);
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
      const Policy* below = sidecar::policy_below(*facts, vhost.policies, name);
      after.policy = below == nullptr ? "" : below->name;
    }
    const auto answer = vhost.attached(after);
    if (is_attached(answer.attached))
      return failed(queue, kUserError,
                    "queue " + queue + " is attached by " + how_to_detach(broker, after, answer, vhost));
  }
  if (ours == nullptr)
    return {queue, kSuccess, "not attached", fmt::format("queue {} is not attached: nothing to do", queue),
            std::nullopt};
  return {queue, kSuccess, "detached",
          fmt::format("queue {} is detached: policy {} was removed", queue, name), std::nullopt};
}

// An error that ends the work is the outcome of each queue that has none by then.
template <typename Work>
std::vector<AttachOutcome> outcomes_of(const std::vector<std::string>& queues, Work work) {
  std::vector<AttachOutcome> done;
  try {
    work(done);
  } catch (const Failed& why) {
    for (const std::string& queue : queues) {
      if (std::ranges::find(done, queue, &AttachOutcome::queue) == done.end())
        done.push_back(failed(queue, why.exit, why.what()));
    }
  }
  return done;
}

// `named`: the user named these queues. Otherwise it skips queues that a policy cannot attach, and those
// whose dead letters already go elsewhere.
void attach_each(QueueAdmin& admin, const BrokerOptions& broker, const std::vector<std::string>& queues,
                 bool named, std::vector<AttachOutcome>& done) {
  const rabbit::Vhost vhost = need(rabbit::read_vhost(admin, broker.prefix, &queues));
  std::vector<std::pair<std::string, sidecar::AttachPlan>> to_put;
  for (const std::string& queue : queues) {
    const QueueFacts* facts = vhost.find(queue);
    if (facts == nullptr) {
      done.push_back(missing_queue(queue));
      continue;
    }
    sidecar::AttachPlan plan = sidecar::plan_attach(broker, *facts, vhost);
    if (auto outcome = outcome_without_policy(queue, *facts, plan, named)) {
      if (plan.action == sidecar::AttachPlan::Action::nothing)
        outcome->notes = notes_of(*facts, vhost.policies);
      done.push_back(*std::move(outcome));
    } else {
      to_put.emplace_back(queue, std::move(plan));
    }
  }
  const bool any = std::ranges::any_of(
      done, [](const AttachOutcome& o) { return std::string_view(o.result) == "already attached"; });
  if (!to_put.empty() || any) declare_topology(admin, broker);
  std::vector<AttachOutcome> put;  // outcomes once their policies are in effect
  std::map<std::string, std::string> waiting;
  for (const auto& [queue, plan] : to_put) {
    if (auto written = admin.put(plan.policy)) {
      waiting[queue] = plan.policy.name;
      put.push_back(attached(admin, queue, plan));
      put.back().notes = notes_of(*vhost.find(queue), vhost.policies);
    } else {
      done.push_back(failed(queue, written.error()));
    }
  }
  wait_until_effective(admin, waiting);
  for (AttachOutcome& outcome : put) {
    const auto it = waiting.find(outcome.queue);
    done.push_back(it == waiting.end()
                       ? std::move(outcome)
                       : failed(outcome.queue, kUserError,
                                fmt::format("policy {} is set but not in effect for queue {}: another policy "
                                            "of the same or a higher priority is (rabbitmqctl list_policies)",
                                            it->second, outcome.queue)));
  }
}

std::vector<AttachOutcome> attach_queues(QueueAdmin& admin, const BrokerOptions& broker,
                                         const std::vector<std::string>& queues, bool named) {
  return outcomes_of(
      queues, [&](std::vector<AttachOutcome>& done) { attach_each(admin, broker, queues, named, done); });
}

std::vector<AttachOutcome> detach_queues(QueueAdmin& admin, const BrokerOptions& broker,
                                         const std::vector<std::string>& queues) {
  return outcomes_of(queues, [&](std::vector<AttachOutcome>& done) {
    const rabbit::Vhost vhost = need(rabbit::read_vhost(admin, broker.prefix, &queues));
    for (const std::string& queue : queues) done.push_back(detach_one(admin, broker, queue, vhost));
  });
}

struct AttachOptions {
  std::vector<std::string> queues;
  std::string pattern;
  bool all = false, print = false, detach = false, force = false;
  bool named() const { return !all && pattern.empty(); }
};

Json outcome_json(const AttachOutcome& outcome) {
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

int print_outcomes(const std::vector<AttachOutcome>& outcomes) {
  int code = kSuccess;
  Json json = {{"results", Json::array()}};
  for (const AttachOutcome& outcome : outcomes) {
    if (given().json) json["results"].push_back(outcome_json(outcome));
    if (outcome.code != kSuccess) {
      report_error(outcome.code, outcome.detail);
      if (code == kSuccess) code = outcome.code;
    } else if (!given().json) {
      print(one_line(outcome.detail) + "\n");
      for (const std::string& note : outcome.notes) print("  note: " + one_line(note) + "\n");
    }
  }
  if (given().json) print_json(json);
  if (outcomes.empty() && !given().json) print("no queue matches: nothing to do\n");
  return code;
}

std::string manual_command(const AttachOptions& options, const BrokerOptions& broker,
                           const std::string& queue) {
  const std::string vhost = sidecar::vhost_of(broker);
  if (!options.detach) return rabbit::policy_command(broker.prefix, vhost, queue);
  return "rabbitmqctl clear_policy -p " + rabbit::shell_quote(vhost) + " " +
         rabbit::shell_quote(rabbit::policy_name(queue));
}

// RabbitMQ could not be reached: prints the commands to run by hand.
int print_manual_commands(const AttachOptions& options, const BrokerOptions& broker,
                          const Error& unreachable) {
  std::string text;
  for (const std::string& queue : options.queues)
    text += "  " + manual_command(options, broker, queue) + "\n";
  if (!text.empty()) {
    text.insert(0, "Run this where rabbitmqctl reaches the broker:\n\n");
    if (!options.detach)
      text += "\nor declare the queue with the argument x-dead-letter-exchange: " +
              rabbit::failed_exchange(broker.prefix) + "\n";
  }
  print(text);
  return report_error(kUnreachable,
                      (options.detach ? "not detached: " : "not attached: ") + unreachable.message);
}

void check_names(const AttachOptions& options, const Config& config) {
  for (const std::string& queue : options.queues) {
    if (queue.empty() || queue.size() > 255)
      throw Failed(kUserError, "invalid queue name: it must have 1 to 255 bytes");
    for (const char* inlet : {"failed", "results", "delay", "parked"}) {
      if (!options.print && queue == config.rules->targets().own_prefix(queue) + inlet)
        throw Failed(kUserError, queue + " is a queue of Rung itself: its dead letters would loop");
    }
    check_group(config, queue);
  }
}

// As in RabbitMQ's policies, the regular expression can match anywhere in the name.
std::regex pattern_of(const AttachOptions& options) {
  try {
    return std::regex(options.pattern);
  } catch (const std::regex_error& e) {
    throw Failed(kUserError, "--pattern: invalid regular expression: " + std::string(e.what()));
  }
}

// The queues that --pattern or --all selects: to attach, existing ones; to detach, those with a policy by
// attach, and those that are attached in any other way. Of groups: those of the chosen one.
std::vector<std::string> selected_queues(const AttachOptions& options, const Config& config,
                                         QueueAdmin& admin) {
  const std::regex pattern = pattern_of(options);  // an empty one matches all
  std::set<std::string> found;
  const auto add = [&](const std::string& name) {
    if (std::regex_search(name, pattern)) found.insert(name);
  };
  const std::string& prefix = config.broker.prefix;
  if (options.detach) {
    const rabbit::Vhost vhost = need(rabbit::read_vhost(admin, prefix));
    for (const Policy& policy : vhost.policies) {
      if (const auto queue = attached_by(policy, prefix)) add(*queue);
    }
    for (const QueueFacts& facts : vhost.queues) {
      if (is_attached(vhost.attached(facts).attached) && !is_own_queue(config, facts.name)) add(facts.name);
    }
  } else {
    for (const QueueFacts& facts : need(admin.queues())) {
      const auto* group = config.groups.of_queue(facts.name);
      const bool ours = config.groups.empty() || (group != nullptr && group->name == config.groups.own);
      if (ours && !is_own_queue(config, facts.name)) add(facts.name);
    }
  }
  return std::vector<std::string>(found.begin(), found.end());
}

// Returns if no task of the queues is under way, or if the user detaches them all the same.
void confirm_detach(MysqlStore& store, const std::vector<std::string>& queues) {
  std::map<std::string, std::map<State, std::int64_t>> found;
  for (const QueueStat& stat : need(retry_transient([&] { return store.open_by_queue(); }))) {
    if (std::ranges::find(queues, stat.queue) != queues.end()) found[stat.queue][stat.state] += stat.tasks;
  }
  std::string text;
  for (auto& [queue, tasks] : found) {
    const std::int64_t scheduled = tasks[State::scheduled], publishing = tasks[State::publishing],
                       awaiting = tasks[State::awaiting], total = scheduled + publishing + awaiting;
    if (total == 0) continue;
    text += fmt::format("{}{} has {} {} under way ({} scheduled, {} being published, {} awaiting an answer)",
                        text.empty() ? "" : "; ", queue, total, total == 1 ? "task" : "tasks", scheduled,
                        publishing, awaiting);
  }
  if (text.empty()) return;
  if (isatty(STDIN_FILENO) == 0 || isatty(STDERR_FILENO) == 0)
    throw Failed(kUserError, text +
                                 ": once detached, their failures would be lost; --force detaches "
                                 "anyway (docs/operations.md has how to wait for them)");
  const bool yes = says_yes(one_line(text) +
                            "\nOnce detached, failures of these tasks are lost. Silence is then no success: "
                            "a person decides on each.\nDetach anyway? [y/N] ");
  if (!yes) throw Failed(kUserError, "nothing was detached");
}

// Sidecars also find out at their next look, but not if the queue is attached again before it.
void tell_sidecars(QueueAdmin& admin, const std::string& prefix, const std::vector<std::string>& queues,
                   MysqlStore& store) {
  const auto now = store.now();
  if (!now || queues.empty()) return;
  const auto vhost = rabbit::read_vhost(admin, prefix, &queues);
  if (!vhost) return;
  std::vector<AttachmentSighting> seen;
  for (const QueueFacts& facts : vhost->queues) {
    if (vhost->attached(facts).attached != rabbit::Attached::no) continue;  // another policy attaches it
    seen.push_back(
        {facts.name, AttachmentState::detached, "rung detach by " + cli_user(), *now, false, true});
  }
  if (const auto done = store.see_attachments(seen); !done)
    report_error(exit_of(done.error()),
                 "the sidecars could not be told: " + done.error().message + "; they look by themselves");
}

Result<std::unique_ptr<MysqlStore>> open_database(const GroupChoice& group, const Clock& clock) {
  const LoadedConfig loaded = load_config(find_config(), ConfigFor::database, group);
  if (!loaded.ok()) return permanent(loaded.problems.front().str());
  return open_store(loaded.config.store, clock);
}

int detach(const AttachOptions& options, const Config& config, QueueAdmin& admin,
           const std::vector<std::string>& queues) {
  std::vector<std::string> attached;  // by attach: the others are left alone
  for (const Policy& policy : need(admin.policies())) {
    const auto queue = attached_by(policy, config.broker.prefix);
    if (queue && std::ranges::find(queues, *queue) != queues.end()) attached.push_back(*queue);
  }
  if (attached.empty()) return print_outcomes(detach_queues(admin, config.broker, queues));
  const SystemClock clock;
  const auto store = open_database(group_choice(queues.front()), clock);
  if (!store && !options.force)
    throw Failed(exit_of(store.error()), "tasks under way cannot be counted: " + store.error().message +
                                             "; --force detaches without counting them");
  if (!options.force) confirm_detach(**store, attached);
  const auto done = detach_queues(admin, config.broker, queues);
  std::vector<std::string> gone;
  for (const AttachOutcome& outcome : done) {
    if (std::string_view(outcome.result) == "detached") gone.push_back(outcome.queue);
  }
  if (store) tell_sidecars(admin, config.broker.prefix, gone, **store);
  return print_outcomes(done);
}

int run(const AttachOptions& options) {
  if (options.named() && options.queues.empty())
    throw Failed(kUserError,
                 std::string("no queues given: name a queue, or use --pattern or --all (see rung ") +
                     (options.detach ? "detach" : "attach") + " --help)");
  const Config config = load(ConfigFor::broker, options.queues.empty() ? "" : options.queues.front());
  check_names(options, config);
  if (options.print) {
    for (const std::string& queue : options.queues)
      print(manual_command(options, config.broker, queue) + "\n");
    return kSuccess;
  }
  const auto admin = reach_management(config.broker);
  if (!admin) {
    return admin.error().kind == Error::Kind::transient
               ? print_manual_commands(options, config.broker, admin.error())
               : report_error(admin.error());
  }
  const auto queues = options.named() ? options.queues : selected_queues(options, config, **admin);
  if (options.detach) return detach(options, config, **admin, queues);
  return print_outcomes(attach_queues(**admin, config.broker, queues, options.named()));
}

void add_selection(CLI::App& c, AttachOptions& o, const char* all) {
  CLI::Option* names = c.add_option("QUEUE", o.queues, "Names of queues");
  CLI::Option* pattern =
      c.add_option("--pattern", o.pattern,
                   "Instead of names: all queues whose name matches this regular expression")
          ->excludes(names);
  c.add_flag("--all", o.all, all)->excludes(names)->excludes(pattern);
  c.add_flag("--print", o.print, "Print the rabbitmqctl commands only; do not contact the broker")
      ->needs(names);
}

}  // namespace

Result<std::unique_ptr<rabbit::QueueAdmin>> reach_management(const BrokerOptions& broker) {
  auto management = rabbit::management_admin(broker, kManagementTimeout);
  if (!management) return management;
  if (auto reached = (*management)->reach(); !reached) return transient(reached.error().message);
  return management;
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

void check_group(const Config& config, const std::string& queue) {
  if (const auto* group = config.groups.elsewhere(queue); group != nullptr)
    throw Failed(kUserError, "queue '" + queue + "' belongs to group " + group->name + ", not to " +
                                 config.groups.own + ": use --group " + group->name +
                                 ", or change groups.NAME.queues");
}

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
      Takes::json);
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
      "The previous policy takes effect again. Policies that rung attach did not create are kept: a queue "
      "that\n"
      "is attached by one, by its argument or by a binding is an error, which says how to detach it.\n"
      "If tasks of a queue are under way it asks first, or refuses without a terminal: once detached, their\n"
      "failures are lost, and silence is no success.",
      Takes::json);
  add_selection(c, *o, "Instead of names: all queues that are attached");
  c.add_flag("--force", o->force, "Detach although tasks are under way, or the database is away");
  c.callback([o, exit] { *exit = run(*o); });
}

}  // namespace rung::cli
