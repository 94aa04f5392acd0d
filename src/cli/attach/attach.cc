// rung attach and rung detach: by policy, through the management API. rung attached: which queues are
// attached, and why others are not.
#include "src/cli/attach/attach.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "levels/duration.h"
#include "plugin/rabbitmq/topology/probe.h"
#include "src/api/base/message.h"
#include "src/cli/shared/command.h"
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
constexpr int kMaxEffectPolls = 100;  // until a policy should be in effect
constexpr Ms kEffectPollInterval{100};

// The queue that attach created this policy for, with this prefix; nullopt if attach did not create it.
std::optional<std::string> attached_by(const rabbit::Policy& policy, std::string_view prefix) {
  const std::string queue = policy.name.substr(std::min(rabbit::policy_name("").size(), policy.name.size()));
  const bool ours =
      policy.name == rabbit::policy_name(queue) && policy.pattern == rabbit::policy_pattern(queue) &&
      policy.definition.value("dead-letter-exchange", nlohmann::json()) == rabbit::failed_exchange(prefix);
  return ours ? std::optional(queue) : std::nullopt;
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

// What becomes of each queue: said as soon as it is known or, for scripts, at the end.
class Outcomes {
 public:
  // `result`: a keyword for scripts. `detail`: a sentence.
  void tell(const std::string& queue, const char* result, const std::string& detail,
            const std::optional<Policy>& set = {}, const std::vector<std::string>& notes = {}) {
    add(queue, result, detail, notes);
    if (set)
      rows_.back()["policy"] = {{"name", set->name},
                                {"pattern", set->pattern},
                                {"priority", set->priority},
                                {"definition", set->definition}};
    if (given().json) return;
    print(one_line(detail) + "\n");
    for (const std::string& note : notes) print("  note: " + one_line(note) + "\n");
  }
  void fail(const std::string& queue, const Error& error) {
    add(queue, error.kind == Error::Kind::not_found ? "not found" : "failed", error.message, {});
    const int code = report_error(error);
    if (code_ == kSuccess) code_ = code;
  }
  void fail(const std::string& queue, const std::string& what) {
    fail(queue, Error{Error::Kind::permanent, what});
  }
  // The command's exit code: of the first queue that failed.
  int end() const {
    if (given().json) print_json({{"results", rows_}});
    if (rows_.empty() && !given().json) print("no queue matches: nothing to do\n");
    return code_;
  }

 private:
  void add(const std::string& queue, const char* result, const std::string& detail,
           const std::vector<std::string>& notes) {
    rows_.push_back(
        {{"queue", queue}, {"result", result}, {"detail", detail}, {"policy", nullptr}, {"notes", notes}});
  }
  Json rows_ = Json::array();
  int code_ = kSuccess;
};

// ---------------------------------------------------------------------------------------------- rung attach

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

// Why a queue that the user did not name is left alone; "" = it is not.
std::string why_skipped(const QueueFacts& facts, const sidecar::AttachPlan& plan) {
  if (plan.is_done()) return {};
  if (facts.exclusive) return "it is exclusive to one connection";
  if (!plan.drift.empty() || plan.previous_exchange.empty()) return plan.refusal;
  return "its dead letters go to " + plan.previous_exchange + "; name the queue to attach it anyway";
}

// Sets the policy of the queue, which takes effect shortly after it was accepted.
Result<void> set_policy(QueueAdmin& admin, const std::string& queue, const Policy& policy) {
  if (auto accepted = admin.put(policy); !accepted) return accepted;
  for (int polls = 0; polls < kMaxEffectPolls; ++polls) {
    const auto facts = admin.queue(queue);
    if (facts && facts->policy == policy.name) return {};
    if (!facts && facts.error().kind != Error::Kind::not_found) return tl::unexpected(facts.error());
    std::this_thread::sleep_for(kEffectPollInterval);
  }
  return permanent(
      fmt::format("policy {} is set but not in effect for queue {}: another policy of the same or a higher "
                  "priority is (rabbitmqctl list_policies)",
                  policy.name, queue));
}

std::vector<std::string> notes_of(const QueueFacts& facts, const std::vector<Policy>& policies) {
  std::vector<std::string> notes;
  for (const QueueNote& note : queue_notes(facts, policies, std::nullopt)) {
    // An explicit limit is the user's choice. Delays and cancels by the broker are worth a note anyway.
    const bool told = !note.fine() || note.name == "delayed_retry" || note.name == "consumer_timeout";
    if (told) notes.push_back(note.what + (note.fine() ? "" : "; " + note.fix));
  }
  return notes;
}

// "queue orders is attached by policy rung-orders (priority 0, set by the management API at ...)".
std::string attached_text(const std::string& queue, const sidecar::AttachPlan& plan,
                          const std::string& admin) {
  std::string text = "queue " + queue + " is ";
  if (plan.is_done())
    return text + "already attached" +
           (is_attached(plan.answer.attached) ? ", by " + describe(plan.answer) : "");
  const std::string set = fmt::format("(priority {}, set by {})", plan.policy->priority, admin);
  if (!plan.drift.empty()) return text + "attached; " + plan.drift + "; it is copied anew " + set;
  text += "attached by policy " + plan.policy->name + " " + set;
  if (!plan.overridden.empty())
    text += "; it copies policy " + plan.overridden +
            " as it is now: run attach again after changing that policy";
  if (!plan.previous_exchange.empty())
    text += "; its dead letters previously went to " + plan.previous_exchange;
  return text;
}

// `named`: the user named the queues. Of others, those are skipped that a policy cannot attach, or whose dead
// letters already go elsewhere.
int attach(QueueAdmin& admin, const BrokerOptions& broker, const std::vector<std::string>& queues,
           bool named) {
  const rabbit::Vhost vhost = need(rabbit::read_vhost(admin, broker.prefix, &queues));
  bool declared = false;
  Outcomes out;
  for (const std::string& queue : queues) {
    const QueueFacts* facts = vhost.find(queue);
    if (facts == nullptr) {
      const bool pattern = QueuePattern(queue).only_name() != queue;
      const char* hint = pattern ? "; it is taken as a name: --pattern takes a regular expression" : "";
      out.fail(queue,
               {Error::Kind::not_found, "no queue '" + queue + "' in the virtual host of broker.url" + hint});
      continue;
    }
    const auto plan = sidecar::plan_attach(broker, *facts, vhost);
    if (const std::string why = named ? "" : why_skipped(*facts, plan); !why.empty()) {
      out.tell(queue, "skipped", "queue " + queue + " is skipped: " + why);
    } else if (!plan.refusal.empty()) {
      out.fail(queue, "queue " + queue + " cannot be attached by a policy: " + plan.refusal);
    } else {
      if (!std::exchange(declared, true)) declare_topology(admin, broker);
      const auto set = plan.policy ? set_policy(admin, queue, *plan.policy) : Result<void>();
      const char* result = plan.is_done()       ? "already attached"
                           : plan.drift.empty() ? "attached"
                                                : "refreshed";
      if (!set) {
        out.fail(queue, set.error());
      } else {
        out.tell(queue, result, attached_text(queue, plan, admin.name()), plan.policy,
                 notes_of(*facts, vhost.policies));
      }
    }
  }
  return out.end();
}

// ---------------------------------------------------------------------------------------------- rung detach

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
                rabbit::binding_command("delete", broker.vhost(), binding.source,
                                        binding.to.empty() ? "queue" : "exchange",
                                        binding.to.empty() ? ours : binding.to, binding.routing_key);
  return answer.detail + ": to detach it, and all other queues that dead-letter there, run: " + commands;
}

// True: an existing queue is detached now, and was attached by attach.
bool detach_one(QueueAdmin& admin, const BrokerOptions& broker, const std::string& queue,
                const rabbit::Vhost& vhost, Outcomes& out) {
  const std::string name = rabbit::policy_name(queue);
  const QueueFacts* facts = vhost.find(queue);
  const Policy* ours = rabbit::find_policy(vhost.policies, name);
  if (ours != nullptr && !attached_by(*ours, broker.prefix)) {
    out.fail(queue, fmt::format("policy {} was not created by rung attach with this config (its pattern is "
                                "{}, its definition {}): remove it by hand",
                                name, ours->pattern, ours->definition.dump()));
    return false;
  }
  QueueFacts after = facts != nullptr ? *facts : QueueFacts();  // without our policy
  if (after.policy == name) {
    const Policy* below = sidecar::policy_below(after, vhost.policies, name);
    after.policy = below == nullptr ? "" : below->name;
  }
  const auto answer = vhost.attached(after);
  if (const auto gone = ours != nullptr ? admin.remove(name) : Result<void>(); !gone) {
    out.fail(queue, gone.error());
  } else if (facts == nullptr && ours == nullptr) {
    out.fail(queue, {Error::Kind::not_found, "no queue '" + queue + "' and no policy " + name});
  } else if (is_attached(answer.attached)) {
    out.fail(queue, "queue " + queue + " is attached by " + how_to_detach(broker, after, answer, vhost));
  } else if (ours == nullptr) {
    out.tell(queue, "not attached", "queue " + queue + " is not attached: nothing to do");
  } else {
    out.tell(queue, "detached", "queue " + queue + " is detached: policy " + name + " was removed");
    return facts != nullptr;
  }
  return false;
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
void tell_sidecars(MysqlStore& store, const std::vector<std::string>& queues) {
  const auto told = result_of([&] {
    std::vector<AttachmentSighting> seen;
    for (const std::string& queue : queues)
      seen.push_back(
          {queue, AttachmentState::detached, "rung detach by " + cli_user(), store.now(), false, true});
    store.see_attachments(seen);
  });
  if (!told)
    report_error(exit_of(told.error()),
                 "the sidecars could not be told: " + told.error().message + "; they look by themselves");
}

std::unique_ptr<MysqlStore> open_database(const GroupChoice& group, const Clock& clock) {
  const LoadedConfig loaded = load_config(find_config(), ConfigFor::database, group);
  if (!loaded.ok()) throw StoreError({Error::Kind::permanent, loaded.problems.front().str()});
  return open_store(loaded.config.store, clock);
}

int detach(QueueAdmin& admin, const BrokerOptions& broker, const std::vector<std::string>& queues,
           bool force) {
  const rabbit::Vhost vhost = need(rabbit::read_vhost(admin, broker.prefix, &queues));
  std::vector<std::string> attached;  // by attach: the others are left alone
  for (const Policy& policy : vhost.policies) {
    const auto queue = attached_by(policy, broker.prefix);
    if (queue && std::ranges::find(queues, *queue) != queues.end()) attached.push_back(*queue);
  }
  const SystemClock clock;
  Result<std::unique_ptr<MysqlStore>> store;
  if (!attached.empty()) {
    store = result_of([&] { return open_database(group_choice(queues.front()), clock); });
    if (!store && !force)
      throw Failed(exit_of(store.error()), "tasks under way cannot be counted: " + store.error().message +
                                               "; --force detaches without counting them");
    if (!force) confirm_detach(**store, attached);
  }
  Outcomes out;
  std::vector<std::string> gone;
  for (const std::string& queue : queues) {
    if (detach_one(admin, broker, queue, vhost, out)) gone.push_back(queue);
  }
  if (store && !gone.empty()) tell_sidecars(**store, gone);
  return out.end();
}

// -------------------------------------------------------------------------------------------------- of both

// The commands that do it by hand, a line each.
std::string by_hand(const std::vector<std::string>& queues, const BrokerOptions& broker, bool detaches) {
  const std::string vhost = broker.vhost();
  std::string out;
  for (const std::string& queue : queues)
    out += (detaches ? "rabbitmqctl clear_policy -p " + rabbit::shell_quote(vhost) + " " +
                           rabbit::shell_quote(rabbit::policy_name(queue))
                     : rabbit::policy_command(broker.prefix, vhost, queue)) +
           "\n";
  return out;
}

void check_name(const std::string& queue, const Config& config, bool prints) {
  if (queue.empty() || queue.size() > 255)
    throw Failed(kUserError, "invalid queue name: it must have 1 to 255 bytes");
  for (const char* inlet : {"failed", "results", "delay", "parked"}) {
    if (!prints && queue == config.rules->targets().own_prefix(queue) + inlet)
      throw Failed(kUserError, queue + " is a queue of Rung itself: its dead letters would loop");
  }
  check_group(config, queue);
}

// As in RabbitMQ's policies, the regular expression can match anywhere in the name.
std::regex regex_of(const std::string& pattern) {
  try {
    return std::regex(pattern);
  } catch (const std::regex_error& e) {
    throw Failed(kUserError, "--pattern: invalid regular expression: " + std::string(e.what()));
  }
}

// The queues that the pattern selects; an empty one: all. To attach, existing ones; to detach, those with a
// policy by attach, and those that are attached in any other way. Of groups: those of the chosen one.
std::vector<std::string> selected_queues(const std::string& pattern, const Config& config, QueueAdmin& admin,
                                         bool detaches) {
  const std::regex matches = regex_of(pattern);
  const rabbit::Vhost vhost = need(rabbit::read_vhost(admin, config.broker.prefix));
  std::set<std::string> found;
  for (const QueueFacts& facts : vhost.queues) {
    const auto* group = config.groups.of_queue(facts.name);
    const bool ours = config.groups.empty() || (group != nullptr && group->name == config.groups.own);
    const bool meant = detaches ? is_attached(vhost.attached(facts).attached) : ours;
    if (meant && !is_own_queue(config, facts.name)) found.insert(facts.name);
  }
  for (const Policy& policy : vhost.policies) {
    const auto queue = attached_by(policy, config.broker.prefix);
    if (detaches && queue) found.insert(*queue);
  }
  std::erase_if(found, [&](const std::string& name) { return !std::regex_search(name, matches); });
  return {found.begin(), found.end()};
}

int run(const CLI::App& c, bool detaches) {
  std::vector<std::string> queues = c.get_option("QUEUE")->results();
  const std::string pattern = value_of(c, "--pattern");
  const bool named = !is_on(c, "--all") && pattern.empty(), prints = is_on(c, "--print");
  if (named && queues.empty())
    throw Failed(kUserError, "no queues given: name a queue, or use --pattern or --all (see rung " +
                                 c.get_name() + " --help)");
  const Config config = load(ConfigFor::broker, queues.empty() ? "" : queues.front());
  for (const std::string& queue : queues) check_name(queue, config, prints);
  if (prints) {
    print(by_hand(queues, config.broker, detaches));
    return kSuccess;
  }
  const auto admin = reach_management(config.broker);
  if (!admin) {
    if (admin.error().kind == Error::Kind::transient && !queues.empty())
      print("Run this where rabbitmqctl reaches the broker:\n\n" + by_hand(queues, config.broker, detaches) +
            (detaches ? ""
                      : "\nor declare the queue with the argument x-dead-letter-exchange: " +
                            rabbit::failed_exchange(config.broker.prefix) + "\n"));
    return report_error(admin.error());
  }
  if (!named) queues = selected_queues(pattern, config, **admin, detaches);
  if (detaches) return detach(**admin, config.broker, queues, is_on(c, "--force"));
  return attach(**admin, config.broker, queues, named);
}

void add_selection(CLI::App& c, const char* all) {
  CLI::Option& names = add_words(c, "QUEUE", "Names of queues");
  CLI::Option* pattern =
      add_text(c, "--pattern", "Instead of names: all queues whose name matches this regular expression")
          .excludes(&names);
  add_flag(c, "--all", all).excludes(&names)->excludes(pattern);
  add_flag(c, "--print", "Print the rabbitmqctl commands only; do not contact the broker").needs(&names);
}

// ------------------------------------------------------------------------------------------- rung attached

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
               {"command", api::text_or_null(plan.command)},
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
  const auto config = [](const Json& line) {
    const std::string pattern = text_of(line, "pattern");
    return !flag_of(line, "configured") ? "-" : pattern.empty() ? "named" : pattern;
  };
  std::string out = Table({{"QUEUE", left, 0, 0, text_cell("queue")},
                           {"ATTACHED", left, 0, 0, text_cell("attached")},
                           {"CONFIG", left, 0, 0, config},
                           {"REASON", left, 0, 0, text_cell("reason")}},
                          attachments)
                        .whole_last()
                        .str();
  for (const Json& line : attachments) {
    const std::string command = text_of(line, "command"), drift = text_of(line, "drift");
    const bool missing = flag_of(line, "configured") && flag_of(line, "exists") && !flag_of(line, "attached");
    if (missing && !command.empty()) out += "\nto attach: " + command;
    if (!drift.empty()) out += "\n" + one_line(drift) + "; to refresh it: " + command;
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

constexpr Ms kBrokerTimeout{std::chrono::seconds{10}};

std::string owner_text(const Sides& sides) {
  if (sides.report.owner.empty()) return "no database";
  if (sides.report.owner == sides.ownership.database) return "this database";
  return sides.report.owner == kUnknownOwner ? "another database" : "database " + sides.report.owner;
}

std::string text(const Sides& sides) {
  const auto& serves = sides.ownership.serves;
  return fmt::format(
      "this database{} serves: {}\nthe config names: {}\nthere the broker is marked as served by: {}\n"
      "instances that use this database now: {}\n",
      sides.is_new() ? "" : " (id " + sides.ownership.database + ")",
      serves ? describe(*serves) : "nothing yet", describe(sides.report.place), owner_text(sides),
      sides.instances.empty() ? "none" : fmt::format("{}", fmt::join(sides.instances, ", ")));
}

Json place_json(const BrokerPlace& place) {
  return {{"broker", place.cluster}, {"virtual_host", place.space}, {"prefix", place.prefix}};
}

Json to_json(const Sides& sides, bool changed) {
  const auto& serves = sides.ownership.serves;
  return {{"database_id", api::text_or_null(sides.ownership.database)},
          {"serves", serves ? place_json(*serves) : Json()},
          {"config", place_json(sides.report.place)},
          {"marked_as", api::text_or_null(sides.report.owner)},
          {"instances", sides.instances},
          {"fits", conflict(sides.ownership, sides.report).empty()},
          {"changed", changed}};
}

void change(MysqlStore& store, rabbit::Probe& probe, const BrokerOptions& broker, const Sides& before) {
  const std::string id = change_ownership(store, before.report.place);
  need(probe.remove_mark(broker));
  const auto marked = need(probe.owner(broker, {id, true}));
  if (marked.owner != id)
    throw Failed({Error::Kind::transient,
                  "another database has just marked the broker: stop its sidecars, then run this again" +
                      marked.problem});
  const std::string detail =
      cli_user() + ": this database serves " + describe(before.report.place) +
      "; before: " + (before.ownership.serves ? describe(*before.ownership.serves) : "nothing") +
      "; the broker was marked as served by " + owner_text(before);
  store.record_event(0, {"ownership_changed", broker.prefix, detail});
}

int adopt(const CLI::App& c) {
  const Config config = load(ConfigFor::sidecar);
  const SystemClock clock;
  const auto store = open_store(config.store, clock);
  const auto probe = need(rabbit::Probe::open(config.broker, clock, kBrokerTimeout));
  const Sides sides = look_at_both(*store, *probe, config.broker);
  if (!sides.report.problem.empty()) throw Failed({Error::Kind::refused, sides.report.problem});
  const bool changes = is_on(c, "--yes");
  if (changes) change(*store, *probe, config.broker, sides);
  print_answer(to_json(changes ? look_at_both(*store, *probe, config.broker) : sides, changes),
               [&](const Json&) { return text(sides); });
  const std::string others = shared(sides.report, sides.instances.size());
  const bool fit = conflict(sides.ownership, sides.report).empty();
  if (!changes && !others.empty()) throw Failed(kUserError, others);
  if (!changes && !fit)
    throw Failed(
        kUserError,
        "nothing was changed: stop whatever else serves this broker or this database, then run `rung "
        "adopt --yes`");
  if (!given().json)
    print(changes ? "changed: they belong together from now on; sidecars notice it within 30 s\n"
                  : "they fit: nothing to do\n");
  return kSuccess;
}

// --------------------------------------------------------- settings of a queue that matter to its retries

using PlainJson = nlohmann::json;

constexpr std::int64_t kDefaultLimit = 20;  // RabbitMQ 4
constexpr Ms kShortTtl{std::chrono::minutes{1}};

// What a queue's arguments and the policies in effect set.
struct Settings {
  Settings(const rabbit::QueueFacts& facts, const std::vector<rabbit::Policy>& policies)
      : arguments(facts.arguments), policy(facts.effective_policy) {
    const rabbit::Policy* its = rabbit::find_policy(policies, facts.policy);
    if (policy.is_null() && its != nullptr) policy = its->definition;
  }

  // Null if neither sets it.
  PlainJson setting(std::string_view name) const {
    const auto set = rabbit::setting_of(arguments, policy, name);
    return set ? set->value : PlainJson();
  }
  std::optional<std::int64_t> number(const char* name) const {
    const PlainJson value = setting(name);
    return value.is_number_integer() ? std::optional(value.get<std::int64_t>()) : std::nullopt;
  }

  const PlainJson& arguments;
  PlainJson policy;
};

std::string duration(std::optional<std::int64_t> ms) { return levels::format_duration(Ms{ms.value_or(0)}); }

// The maximum time that the broker delays a message before the delivery limit: the sum of min(n * least,
// most).
Ms longest_hold(std::int64_t least, std::int64_t most, std::int64_t limit) {
  const std::int64_t longest = levels::kLongest.count();
  std::int64_t all = 0;
  for (std::int64_t n = 1; n <= limit && all < longest; ++n)
    all += std::min({most, least > longest / n ? longest : least * n, longest});
  return Ms{std::min(all, longest)};
}

std::optional<QueueNote> delayed_retry_note(const Settings& queue, const std::optional<Silence>& silence) {
  const PlainJson type = queue.setting("delayed-retry-type");
  const auto least = queue.number("delayed-retry-min");
  // Without a minimum the broker does not delay.
  if (!type.is_string() || type == "disabled" || !least || *least <= 0) return std::nullopt;
  const std::int64_t most = std::max(queue.number("delayed-retry-max").value_or(*least), *least);
  const std::int64_t limit = queue.number("delivery-limit").value_or(kDefaultLimit);
  QueueNote note{
      "delayed_retry",
      fmt::format("RabbitMQ's own delayed retry ({}) delays returned messages, {} times the number "
                  "of deliveries, up to {}: Rung gets those that are rejected without requeue, or "
                  "exceed the delivery limit, and each of its retries begins again",
                  type.get<std::string>(), duration(least), duration(most))};
  if (limit < 0 || type == "returned") {
    note.what += limit < 0 ? "; without a delivery limit it never ends"
                           : "; returns by basic.nack do not count toward the limit, so it never ends";
    note.fix = "set delayed-retry-type: failed and a delivery-limit, and let consumers reject";
    return note;
  }
  const Ms hold = longest_hold(*least, most, limit);
  const std::string held = levels::format_duration(hold);
  note.what += fmt::format("; up to {} until the limit of {}", held, limit);
  if (!silence || silence->after > hold) return note;
  const bool success = silence->means == Silence::Means::success;
  note.what += fmt::format(
      ", which is longer than success.{} ({}): Rung counts a retry as {} while the broker still delays it",
      success ? "presumed_after" : "reported_within", levels::format_duration(silence->after),
      success ? "succeeded" : "failed");
  note.fix = "set it to more than " + held + ", or a smaller delivery-limit or delayed-retry-max";
  return note;
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

Sides look_at_both(MysqlStore& store, rabbit::Probe& probe, const BrokerOptions& broker) {
  Sides sides{look_at_ownership(store), {}, {}};
  // Without an id no mark can be ours.
  sides.report = need(probe.owner(broker, {sides.is_new() ? "none" : sides.ownership.database, false}));
  for (const NodeRow& node : store.live_nodes()) sides.instances.push_back(node.name);
  return sides;
}

std::vector<QueueNote> target_notes(const rabbit::QueueFacts& facts,
                                    const std::vector<rabbit::Policy>& policies) {
  const Settings target(facts, policies);
  std::vector<QueueNote> notes;
  const auto note = [&](bool is, const char* name, const std::string& what, const char* fix) {
    if (is) notes.push_back({name, what, fix});
  };
  const auto length = target.number("max-length"), bytes = target.number("max-length-bytes"),
             ttl = target.number("message-ttl"), expires = target.number("expires");
  const PlainJson set = target.setting("overflow");
  const std::string overflow = set.is_string() ? set.get<std::string>() : "drop-head";
  const bool drops = !overflow.starts_with("reject-publish");
  note(length == 0 || bytes == 0, "length",
       "its max-length or max-length-bytes is 0: the broker confirms a retry and drops it at once",
       "remove the limit, or set a larger one");
  note(overflow == "reject-publish-dlx", "overflow",
       "when it is full, each refused retry is dead-lettered as well (overflow reject-publish-dlx): it comes "
       "back to Rung at each try",
       "set overflow: reject-publish");
  note(drops && (length.value_or(0) > 0 || bytes.value_or(0) > 0), "overflow",
       "when it is full, it drops its oldest messages (overflow " + overflow +
           "): a retry that it had confirmed counts as a failure",
       "set overflow: reject-publish: then retries wait at Rung until there is room");
  note(ttl && *ttl >= 0 && *ttl < kShortTtl.count(), "ttl",
       "its messages expire after " + duration(ttl) +
           ": a retry that no consumer has taken by then counts as a failure",
       "set a longer message-ttl, or none");
  const std::string lost = ", with confirmed retries in it: they are lost, and silence is a success";
  note(expires.has_value(), "expires",
       "the broker deletes it when it is unused for " + duration(expires) + lost, "remove expires");
  note(facts.auto_delete || facts.exclusive, "auto_delete",
       "the broker deletes it when its last consumer leaves" + lost,
       "declare a queue that is neither auto-delete nor exclusive");
  note(!facts.durable, "durable",
       "it is not durable: a restart of the broker loses it, with confirmed retries in it",
       "declare a durable queue");
  return notes;
}

std::vector<QueueNote> queue_notes(const rabbit::QueueFacts& facts,
                                   const std::vector<rabbit::Policy>& policies,
                                   const std::optional<Silence>& silence) {
  std::vector<QueueNote> notes = target_notes(facts, policies);
  if (facts.type != "quorum") return notes;
  const Settings queue(facts, policies);
  const PlainJson limit = queue.setting("delivery-limit");
  // Which deliveries count toward the limit differs between versions.
  const std::string counts =
      ": since RabbitMQ 4.3, basic.reject with requeue counts toward it, and basic.nack with requeue does "
      "not";
  if (limit.is_null()) {
    notes.push_back({"limit",
                     "it sets no delivery limit, so RabbitMQ 4 dead-letters a message after 20" + counts,
                     "set delivery-limit by a policy, or the argument x-delivery-limit, if 20 is not right"});
  } else {
    notes.push_back({"limit", "delivery limit " + limit.dump() + counts});
  }
  const bool refuses = queue.setting("overflow") == "reject-publish";
  if (refuses && queue.setting("dead-letter-strategy") == "at-least-once") {
    notes.push_back({"strategy", "dead letters are transferred at least once"});
  } else {
    notes.push_back(
        {"strategy",
         "dead letters are transferred at most once, also those over the delivery limit: a broker "
         "failure at that moment loses one",
         "set dead-letter-strategy: at-least-once and overflow: reject-publish by a policy"});
  }
  if (auto note = delayed_retry_note(queue, silence)) notes.push_back(*std::move(note));
  if (const auto timeout = queue.number("consumer-timeout"); timeout && *timeout > 0) {
    notes.push_back({"consumer_timeout",
                     "RabbitMQ 4.3 cancels a consumer (basic.cancel) that keeps a message unacked for " +
                         duration(timeout) +
                         ", and requeues its messages: the consumer must subscribe again"});
  }
  return notes;
}

void add_attach(CLI::App& app) {
  CLI::App& attached = add_command(
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
  add_selection(attached, "Instead of names: all queues of the virtual host");

  CLI::App& detached = add_command(
      app, "detach", "Undoes rung attach: removes the policies that it created",
      "Examples:\n"
      "  rung detach orders\n"
      "  rung detach --pattern '^shop\\.'\n"
      "  rung detach --all\n"
      "The previous policy takes effect again. A queue that is attached in another way is an error, which\n"
      "says how to detach it. If tasks are under way it asks first, or refuses without a terminal: their\n"
      "failures would be lost.",
      [](const CLI::App& command) { return run(command, true); }, Takes::json);
  add_selection(detached, "Instead of names: all queues that are attached");
  add_flag(detached, "--force", "Detach although tasks are under way, or the database is away");

  CLI::App& list = add_command(app, "attached", "Lists attached queues, and why others are not attached",
                               "Examples:\n"
                               "  rung attached\n"
                               "  rung attached orders --json\n"
                               "Uses the management API; the database is not needed.",
                               list_attached, Takes::json);
  add_words(list, "QUEUE", "Only these queues");

  CLI::App& adopted = add_command(
      app, "adopt", "Says that this database serves this broker from now on",
      "Examples:\n"
      "  rung adopt                       what both sides remember, and whether they fit\n"
      "  rung adopt --yes                 after a renamed or new cluster, or another database\n"
      "A database serves one broker, virtual host and prefix, and each of these has one database.\n"
      "First make sure that nothing else serves the broker or the database (docs/operations.md).",
      adopt, Takes::json);
  add_flag(adopted, "-y,--yes", "Change both sides; without it, only show them");
}

}  // namespace rung::cli
