// rung attach and rung detach: by policy, through the management API. rung attached: which queues are
// attached, and why others are not.
#include "src/cli/attach/attach.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <set>
#include <thread>

#include "plugin/rabbitmq/topology/probe.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/options.h"
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
  if (policy.definition.value("dead-letter-exchange", nlohmann::json()) != rabbit::failed_exchange(prefix))
    return std::nullopt;
  return queue;
}

// The management API, which accepts our login. Permanent error: in the config. Transient: why it was not
// reached.
Result<std::unique_ptr<rabbit::QueueAdmin>> reach_management(const BrokerOptions& broker) {
  auto management = rabbit::management_admin(broker, kManagementTimeout);
  if (!management) return management;
  if (auto reached = (*management)->reach(); !reached) return transient(reached.error().message);
  return management;
}

// Queues that belong to Rung (<prefix>.*, of every group) or to the broker (amq.*).
bool is_own_queue(const Config& config, std::string_view queue) {
  return queue.starts_with("amq.") || config.rules->targets().is_own(queue);
}

// The pattern of the config that the queue matches; "" = none, or an exact name, or it is Rung's own, an
// error queue, exclusive or a stream.
std::string pattern_for(const Config& config, const QueueFacts& facts) {
  if (facts.exclusive || facts.type == "stream" || !config.rules->watches(facts.name)) return {};
  return config.rules->pattern_of(facts.name)->pattern.text();
}

// The command ends if the queue belongs to another group than the chosen one.
void check_group(const Config& config, const std::string& queue) {
  if (const auto* group = config.groups.elsewhere(queue); group != nullptr)
    throw Failed(kUserError, "queue '" + queue + "' belongs to group " + group->name + ", not to " +
                                 config.groups.own + ": use --group " + group->name +
                                 ", or change groups.NAME.queues");
}

// The outcome for one queue.
struct AttachOutcome {
  std::string queue;
  Exit code = kSuccess;
  const char* result = "failed";  // a keyword for scripts
  std::string detail;             // a sentence for people; an error message if `code` is an error
  std::optional<Policy> policy = std::nullopt;  // that attach sets
  // Notes on how its arguments and policies affect its retries; not errors.
  std::vector<std::string> notes = {};
};

AttachOutcome failed(const std::string& queue, Exit code, std::string what) {
  return {queue, code, code == kNotFound ? "not found" : "failed", std::move(what)};
}
AttachOutcome failed(const std::string& queue, const Error& error) {
  return failed(queue, exit_of(error), error.message);
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

bool is_done(const sidecar::AttachPlan& plan) { return !plan.policy && plan.refusal.empty(); }

// Once its policy, if the plan has one, is in effect. `named`: the user named the queue. Otherwise it is
// skipped if a policy cannot attach it, or its dead letters already go elsewhere.
AttachOutcome outcome_of(const QueueFacts& facts, const sidecar::AttachPlan& plan, bool named,
                         const std::string& admin) {
  const std::string queue = "queue " + facts.name;
  const auto skipped = [&](const std::string& why) -> AttachOutcome {
    return {facts.name, kSuccess, "skipped", queue + " is skipped: " + why};
  };
  if (is_done(plan)) {
    const bool known = is_attached(plan.answer.attached);
    return {facts.name, kSuccess, "already attached",
            queue + " is already attached" + (known ? ", by " + describe(plan.answer) : "")};
  }
  if (!named && facts.exclusive) return skipped("it is exclusive to one connection");
  if (!plan.policy && !named) return skipped(plan.refusal);
  if (!plan.policy)
    return failed(facts.name, kUserError, queue + " cannot be attached by a policy: " + plan.refusal);
  if (!named && plan.drift.empty() && !plan.previous_exchange.empty())
    return skipped("its dead letters go to " + plan.previous_exchange +
                   "; name the queue to attach it anyway");
  const std::string set = fmt::format("(priority {}, set by {})", plan.policy->priority, admin);
  if (!plan.drift.empty())
    return {facts.name, kSuccess, "refreshed",
            fmt::format("{} is attached; {}; it is copied anew {}", queue, plan.drift, set), plan.policy};
  std::string detail = fmt::format("{} is attached by policy {} {}", queue, plan.policy->name, set);
  if (!plan.overridden.empty()) {
    detail += fmt::format("; it copies policy {} as it is now: run attach again after changing that policy",
                          plan.overridden);
  }
  if (!plan.previous_exchange.empty())
    detail += fmt::format("; its dead letters previously went to {}", plan.previous_exchange);
  return {facts.name, kSuccess, "attached", std::move(detail), plan.policy};
}

// A policy takes effect shortly after it was accepted.
void wait_until_effective(QueueAdmin& admin, AttachOutcome& outcome, int& polls) {
  for (;; ++polls) {
    const auto facts = admin.queue(outcome.queue);
    if (facts && facts->policy == outcome.policy->name) return;
    if (!facts && facts.error().kind != Error::Kind::not_found) {
      outcome = failed(outcome.queue, facts.error());
      return;
    }
    if (polls >= kMaxEffectPolls) break;
    std::this_thread::sleep_for(kEffectPollInterval);
  }
  outcome = failed(outcome.queue, kUserError,
                   fmt::format("policy {} is set but not in effect for queue {}: another policy of the same "
                               "or a higher priority is (rabbitmqctl list_policies)",
                               outcome.policy->name, outcome.queue));
}

std::vector<std::string> notes_of(const QueueFacts& facts, const std::vector<Policy>& policies) {
  std::vector<std::string> notes;
  for (const QueueNote& note : queue_notes(facts, policies, std::nullopt)) {
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
  if (ours != nullptr && !attached_by(*ours, broker.prefix))
    return failed(queue, kUserError,
                  fmt::format("policy {} was not created by rung attach with this config (its pattern is {}, "
                              "its definition {}): remove it by hand",
                              name, ours->pattern, ours->definition.dump()));
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
    return {queue, kSuccess, "not attached", fmt::format("queue {} is not attached: nothing to do", queue)};
  return {queue, kSuccess, "detached",
          fmt::format("queue {} is detached: policy {} was removed", queue, name)};
}

std::vector<AttachOutcome> attach_queues(QueueAdmin& admin, const BrokerOptions& broker,
                                         const std::vector<std::string>& queues, bool named) {
  const rabbit::Vhost vhost = need(rabbit::read_vhost(admin, broker.prefix, &queues));
  std::vector<AttachOutcome> all;
  bool any = false;
  for (const std::string& queue : queues) {
    const QueueFacts* facts = vhost.find(queue);
    if (facts == nullptr) {
      const bool pattern = QueuePattern(queue).only_name() != queue;
      all.push_back(
          failed(queue, kNotFound,
                 "no queue '" + queue + "' in the virtual host of broker.url" +
                     (pattern ? "; it is taken as a name: --pattern takes a regular expression" : "")));
      continue;
    }
    const auto plan = sidecar::plan_attach(broker, *facts, vhost);
    all.push_back(outcome_of(*facts, plan, named, admin.name()));
    const bool ours = all.back().policy || is_done(plan);
    if (ours) all.back().notes = notes_of(*facts, vhost.policies);
    any = any || ours;
  }
  if (any) declare_topology(admin, broker);
  for (AttachOutcome& one : all) {
    const auto written = one.policy ? admin.put(*one.policy) : Result<void>();
    if (!written) one = failed(one.queue, written.error());
  }
  int polls = 0;
  for (AttachOutcome& one : all) {
    if (one.policy) wait_until_effective(admin, one, polls);
  }
  return all;
}

std::vector<AttachOutcome> detach_queues(QueueAdmin& admin, const BrokerOptions& broker,
                                         const std::vector<std::string>& queues) {
  const rabbit::Vhost vhost = need(rabbit::read_vhost(admin, broker.prefix, &queues));
  std::vector<AttachOutcome> all;
  for (const std::string& queue : queues) all.push_back(detach_one(admin, broker, queue, vhost));
  return all;
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
                      {"definition", outcome.policy->definition}};
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
  for (const QueueStat& stat : store.open_by_queue()) {
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
  if (!can_ask())
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
  const auto now = result_of([&] { return store.now(); });
  if (!now || queues.empty()) return;
  const auto vhost = rabbit::read_vhost(admin, prefix, &queues);
  if (!vhost) return;
  std::vector<AttachmentSighting> seen;
  for (const QueueFacts& facts : vhost->queues) {
    if (vhost->attached(facts).attached != rabbit::Attached::no) continue;  // another policy attaches it
    seen.push_back(
        {facts.name, AttachmentState::detached, "rung detach by " + cli_user(), *now, false, true});
  }
  if (const auto done = result_of([&] { store.see_attachments(seen); }); !done)
    report_error(exit_of(done.error()),
                 "the sidecars could not be told: " + done.error().message + "; they look by themselves");
}

std::unique_ptr<MysqlStore> open_database(const GroupChoice& group, const Clock& clock) {
  const LoadedConfig loaded = load_config(find_config(), ConfigFor::database, group);
  if (!loaded.ok()) throw StoreError({Error::Kind::permanent, loaded.problems.front().str()});
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
  const auto store = result_of([&] { return open_database(group_choice(queues.front()), clock); });
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

int run(const CLI::App& c, bool detaches) {
  AttachOptions options{c.get_option("QUEUE")->results(), value_of(c, "--pattern")};
  options.all = is_on(c, "--all");
  options.print = is_on(c, "--print");
  options.detach = detaches;
  options.force = detaches && is_on(c, "--force");
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

void add_selection(CLI::App& c, const char* all) {
  CLI::Option& names = add_words(c, "QUEUE", "Names of queues");
  CLI::Option* pattern =
      add_text(c, "--pattern", "Instead of names: all queues whose name matches this regular expression")
          .excludes(&names);
  add_flag(c, "--all", all).excludes(&names)->excludes(pattern);
  add_flag(c, "--print", "Print the rabbitmqctl commands only; do not contact the broker").needs(&names);
}

}  // namespace

std::map<std::string, std::vector<std::string>> matched_queues(const Config& config,
                                                               const std::vector<QueueFacts>& all) {
  std::map<std::string, std::vector<std::string>> matched;
  for (const QueueFacts& facts : all) {
    if (std::string pattern = pattern_for(config, facts); !pattern.empty())
      matched[std::move(pattern)].push_back(facts.name);
  }
  return matched;
}

void add_attach(CLI::App& app) {
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
      [](const CLI::App& command) { return run(command, false); }, Takes::json);
  add_selection(c, "Instead of names: all queues of the virtual host");
}

void add_detach(CLI::App& app) {
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
      [](const CLI::App& command) { return run(command, true); }, Takes::json);
  add_selection(c, "Instead of names: all queues that are attached");
  add_flag(c, "--force", "Detach although tasks are under way, or the database is away");
}

// ------------------------------------------------------------------------------------------- rung attached

namespace {

// What there is to say of a queue.
Json line_of(const Config& config, const rabbit::Vhost& vhost, const std::string& queue) {
  const QueueFacts* facts = vhost.find(queue);
  const std::string pattern = facts == nullptr ? "" : pattern_for(config, *facts);
  const bool configured = !pattern.empty() || config.rules->queues().contains(queue);
  sidecar::AttachPlan plan;
  plan.answer = {rabbit::Attached::no_such_queue, "no such queue"};
  if (facts != nullptr) plan = sidecar::plan_attach(config.broker, *facts, vhost);
  const rabbit::Attached how = plan.answer.attached;
  const bool yes = is_attached(how);
  Json json = {{"queue", queue},
               {"attached", yes},
               {"configured", configured},
               {"pattern", api::text_or_null(pattern)},
               {"exists", facts != nullptr},
               {"by", how == rabbit::Attached::yes_by_policy     ? Json("policy")
                      : how == rabbit::Attached::yes_by_argument ? Json("argument")
                      : how == rabbit::Attached::yes_by_binding  ? Json("binding")
                                                                 : Json()},
               {"policy", how == rabbit::Attached::yes_by_policy ? Json(plan.answer.detail) : Json()},
               {"drift", api::text_or_null(plan.drift)},
               {"why_not", yes ? Json() : Json(plan.answer.detail)},
               {"reason", describe(plan.answer)},
               {"command", how == rabbit::Attached::unknown ? Json() : api::text_or_null(plan.command)},
               {"notes", Json::array()}};
  if (facts == nullptr || !(yes || configured)) return json;
  for (const QueueNote& note : target_notes(*facts, vhost.policies))
    json["notes"].push_back({{"name", note.name}, {"what", note.what}, {"fix", note.fix}});
  return json;
}

// All queues of the virtual host, except Rung's own, the broker's, exclusive ones and those of other groups,
// plus those in the config. With `only`: just these.
Json read(QueueAdmin& admin, const Config& config, const std::vector<std::string>& only) {
  const rabbit::Vhost vhost = need(rabbit::read_vhost(admin, config.broker.prefix));
  std::set<std::string> wanted(only.begin(), only.end());
  if (only.empty()) {
    for (const auto& [name, rules] : config.rules->queues()) wanted.insert(name);
    for (const QueueFacts& facts : vhost.queues) {
      if (!facts.exclusive && !is_own_queue(config, facts.name)) wanted.insert(facts.name);
    }
    std::erase_if(wanted,
                  [&](const std::string& queue) { return config.groups.elsewhere(queue) != nullptr; });
  }
  Json lines = Json::array();
  for (const std::string& queue : wanted) lines.push_back(line_of(config, vhost, queue));
  return lines;
}

std::string attachments_text(const Json& attachments) {
  using enum Table::Align;
  if (attachments.empty()) return "no queues\n";
  const auto attached = [](const Json& line) {
    const bool yes = flag_of(line, "attached");
    return Table::Cell(yes ? "yes" : "no", yes                           ? Colour::green
                                           : flag_of(line, "configured") ? Colour::red
                                                                         : Colour::none);
  };
  const auto config = [](const Json& line) {
    const std::string pattern = text_of(line, "pattern");
    return Table::Cell(!flag_of(line, "configured") ? "-" : pattern.empty() ? "named" : pattern);
  };
  std::string out = Table({{"QUEUE", left, 0, 0, text_cell("queue")},
                           {"ATTACHED", left, 0, 0, attached},
                           {"CONFIG", left, 0, 0, config},
                           {"REASON", left, 0, 0, text_cell("reason")}},
                          attachments)
                        .str(Terminal::of_stdout(), false);
  for (const Json& line : attachments) {
    const std::string command = text_of(line, "command"), drift = text_of(line, "drift");
    const bool missing = flag_of(line, "configured") && flag_of(line, "exists") && !flag_of(line, "attached");
    if (missing && !command.empty()) out += "\nto attach: " + command;
    if (!drift.empty()) out += "\n" + one_line(drift) + "; to refresh it: " + command;
  }
  for (const Json& line : attachments) {
    for (const Json& note : part_of(line, "notes"))
      out += "\nqueue " + text_of(line, "queue") + ": " + text_of(note, "what") + "; " + text_of(note, "fix");
  }
  return out + (out.ends_with('\n') ? "" : "\n");
}

int list_attached(const CLI::App& c) {
  const std::vector<std::string>& only = c.get_option("QUEUE")->results();
  const Config config = load(ConfigFor::broker, only.empty() ? "" : only.front());
  for (const std::string& queue : only) check_group(config, queue);
  const auto admin = need(reach_management(config.broker));
  return print_answer({{"attachments", read(*admin, config, only)}},
                      [](const Json& answer) { return attachments_text(part_of(answer, "attachments")); });
}

}  // namespace

void add_attached(CLI::App& app) {
  CLI::App& c = add_command(app, "attached", "Lists attached queues, and why others are not attached",
                            "Examples:\n"
                            "  rung attached\n"
                            "  rung attached orders --json\n"
                            "Uses the management API; the database is not needed.",
                            list_attached, Takes::json);
  add_words(c, "QUEUE", "Only these queues");
}

}  // namespace rung::cli
