// rung attached: which queues are attached, and why others are not.
#include <CLI/App.hpp>
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "src/cli/attach/attach.h"
#include "src/cli/attach/queue_notes.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"
#include "src/sidecar/attach.h"

namespace rung::cli {
namespace {

using rabbit::Attached;

// What there is to say of a queue. `pattern`: of the config, which it matches. `facts`: nullptr = there is no
// such queue.
Json line_of(const Config& config, const rabbit::Vhost& vhost, const std::string& queue, bool configured,
             const std::string& pattern, const rabbit::QueueFacts* facts) {
  sidecar::AttachPlan plan;
  plan.answer = {Attached::no_such_queue, "no such queue"};
  if (facts != nullptr) plan = sidecar::plan_attach(config.broker, *facts, vhost);
  const Attached how = plan.answer.attached;
  const bool yes = is_attached(how);
  Json json = {{"queue", queue},
               {"attached", yes},
               {"configured", configured},
               {"pattern", api::text_or_null(pattern)},
               {"exists", facts != nullptr},
               {"by", how == Attached::yes_by_policy     ? Json("policy")
                      : how == Attached::yes_by_argument ? Json("argument")
                      : how == Attached::yes_by_binding  ? Json("binding")
                                                         : Json()},
               {"policy", how == Attached::yes_by_policy ? Json(plan.answer.detail) : Json()},
               {"drift", api::text_or_null(plan.drift)},
               {"why_not", yes ? Json() : Json(plan.answer.detail)},
               {"reason", describe(plan.answer)},
               {"command", how == Attached::unknown ? Json() : api::text_or_null(plan.command)},
               {"notes", Json::array()}};
  if (facts == nullptr || !(yes || configured)) return json;
  for (const QueueNote& note : target_notes(*facts, vhost.policies))
    json["notes"].push_back({{"name", note.name}, {"what", note.what}, {"fix", note.fix}});
  return json;
}

// All queues of the virtual host, except Rung's own, the broker's, exclusive ones and those of other groups,
// plus those in the config. With `only`: just these.
Json read(rabbit::QueueAdmin& admin, const Config& config, const std::vector<std::string>& only) {
  const rabbit::Vhost vhost = need(rabbit::read_vhost(admin, config.broker.prefix));
  std::set<std::string> named;
  for (const auto& [name, rules] : config.rules->queues()) named.insert(name);
  std::map<std::string, std::string> pattern_of;
  for (const auto& [pattern, names] : matched_queues(config, vhost.queues)) {
    for (const std::string& name : names) pattern_of[name] = pattern;
  }
  std::set<std::string> wanted(only.begin(), only.end());
  if (only.empty()) {
    wanted = named;
    for (const auto& facts : vhost.queues) {
      if (!facts.exclusive && !is_own_queue(config, facts.name)) wanted.insert(facts.name);
    }
    std::erase_if(wanted,
                  [&](const std::string& queue) { return config.groups.elsewhere(queue) != nullptr; });
  }
  Json lines = Json::array();
  for (const std::string& queue : wanted) {
    const auto by = pattern_of.find(queue);
    const bool matches = by != pattern_of.end();
    lines.push_back(line_of(config, vhost, queue, matches || named.contains(queue), matches ? by->second : "",
                            vhost.find(queue)));
  }
  return lines;
}

std::string to_text(const Json& lines) {
  using enum Table::Align;
  if (lines.empty()) return "no queues\n";
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
                          lines)
                        .str(Terminal::of_stdout(), false);
  for (const Json& line : lines) {
    const std::string command = text_of(line, "command"), drift = text_of(line, "drift");
    const bool missing = flag_of(line, "configured") && flag_of(line, "exists") && !flag_of(line, "attached");
    if (missing && !command.empty()) out += "\nto attach: " + command;
    if (!drift.empty()) out += "\n" + one_line(drift) + "; to refresh it: " + command;
  }
  for (const Json& line : lines) {
    for (const Json& note : part_of(line, "notes"))
      out += "\nqueue " + text_of(line, "queue") + ": " + text_of(note, "what") + "; " + text_of(note, "fix");
  }
  return out + (out.ends_with('\n') ? "" : "\n");
}

int run(const std::vector<std::string>& only) {
  const Config config = load(ConfigFor::broker, only.empty() ? "" : only.front());
  for (const std::string& queue : only) check_group(config, queue);
  const auto admin = need(reach_management(config.broker));
  return print_answer({{"attachments", read(*admin, config, only)}},
                      [](const Json& answer) { return to_text(part_of(answer, "attachments")); });
}

}  // namespace

void add_attached(CLI::App& app, int* exit) {
  auto only = std::make_shared<std::vector<std::string>>();
  CLI::App& c = add_command(app, "attached", "Lists attached queues, and why others are not attached",
                            "Examples:\n"
                            "  rung attached\n"
                            "  rung attached orders --json\n"
                            "Uses the management API; the database is not needed.",
                            Takes::json);
  c.add_option("QUEUE", *only, "Only these queues");
  c.callback([only, exit] { *exit = run(*only); });
}

}  // namespace rung::cli
