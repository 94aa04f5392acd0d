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

struct QueueLine {
  std::string queue;
  rabbit::AttachedAnswer answer;
  bool configured = false;   // the config names it, also by a pattern
  std::string pattern = {};  // which one
  std::vector<QueueNote> notes = {};
  std::string drift = {}, command = {};  // of its AttachPlan
};

std::set<std::string> configured_queues(const Config& config) {
  std::set<std::string> names;
  for (const auto& [name, rules] : config.rules->queues()) {
    names.insert(name);
  }
  return names;
}

// All queues of the virtual host, except Rung's own, the broker's, exclusive ones and those of other groups,
// plus those in the config. With `only`: just these.
Result<std::vector<QueueLine>> read(rabbit::QueueAdmin& admin, const Config& config,
                                    const std::vector<std::string>& only) {
  const auto vhost = rabbit::read_vhost(admin, config.broker.prefix);
  if (!vhost) return tl::unexpected(vhost.error());
  const std::set<std::string> configured = configured_queues(config);
  std::map<std::string, std::string> pattern_of;
  for (const auto& [pattern, names] : matched_queues(config, vhost->queues)) {
    for (const std::string& name : names) pattern_of[name] = pattern;
  }
  std::set<std::string> wanted(only.begin(), only.end());
  if (only.empty()) {
    wanted = configured;
    for (const auto& facts : vhost->queues) {
      if (!facts.exclusive && !is_own_queue(config, facts.name)) wanted.insert(facts.name);
    }
    std::erase_if(wanted,
                  [&](const std::string& queue) { return config.groups.elsewhere(queue) != nullptr; });
  }
  std::vector<QueueLine> lines;
  for (const std::string& queue : wanted) {
    const rabbit::QueueFacts* facts = vhost->find(queue);
    QueueLine line{queue, {Attached::no_such_queue, "no such queue"}, configured.contains(queue)};
    if (const auto by = pattern_of.find(queue); by != pattern_of.end()) {
      line.configured = true;
      line.pattern = by->second;
    }
    if (facts != nullptr) {
      const sidecar::AttachPlan plan = sidecar::plan_attach(config.broker, *facts, *vhost);
      line.answer = plan.answer;
      line.drift = plan.drift;
      line.command = plan.command;
      if (is_attached(line.answer.attached) || line.configured)
        line.notes = target_notes(*facts, vhost->policies);
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

Json line_json(const QueueLine& line) {
  const Attached how = line.answer.attached;
  Json json = {{"queue", line.queue},
               {"attached", is_attached(how)},
               {"configured", line.configured},
               {"pattern", api::text_or_null(line.pattern)},
               {"exists", how != Attached::no_such_queue}};
  json["by"] = how == Attached::yes_by_policy     ? Json("policy")
               : how == Attached::yes_by_argument ? Json("argument")
               : how == Attached::yes_by_binding  ? Json("binding")
                                                  : Json();
  json["policy"] = how == Attached::yes_by_policy ? Json(line.answer.detail) : Json();
  json["drift"] = api::text_or_null(line.drift);
  json["why_not"] = is_attached(how) ? Json() : Json(line.answer.detail);
  json["notes"] = Json::array();
  for (const QueueNote& note : line.notes)
    json["notes"].push_back({{"name", note.name}, {"what", note.what}, {"fix", note.fix}});
  return json;
}

std::string to_text(const std::vector<QueueLine>& lines) {
  using enum Table::Align;
  if (lines.empty()) return "no queues\n";
  Table table({{"QUEUE", left}, {"ATTACHED", left}, {"CONFIG", left}, {"REASON", left}});
  for (const QueueLine& line : lines) {
    const bool yes = is_attached(line.answer.attached);
    table.row({line.queue,
               {yes ? "yes" : "no", yes               ? Colour::green
                                    : line.configured ? Colour::red
                                                      : Colour::none},
               !line.configured       ? "-"
               : line.pattern.empty() ? "named"
                                      : line.pattern,
               describe(line.answer)});
  }
  std::string out = table.str(Terminal::of_stdout(), false);
  for (const QueueLine& line : lines) {
    if (line.configured && line.answer.attached == Attached::no && !line.command.empty())
      out += "\nto attach: " + line.command;
    if (!line.drift.empty()) out += "\n" + one_line(line.drift) + "; to refresh it: " + line.command;
  }
  for (const QueueLine& line : lines) {
    for (const QueueNote& note : line.notes)
      out += "\nqueue " + line.queue + ": " + note.what + "; " + note.fix;
  }
  return out + (out.ends_with('\n') ? "" : "\n");
}

int run(const std::vector<std::string>& only) {
  Config config;
  const std::string first = only.empty() ? "" : only.front();
  if (const int code = load(config, ConfigFor::broker, first); code != kSuccess) return code;
  for (const std::string& queue : only) {
    if (const auto why = of_other_group(config, queue); !why.empty()) return report_error(kUserError, why);
  }
  const auto admin = reach_management(config.broker);
  if (!admin) return report_error(admin.error());
  auto lines = read(**admin, config, only);
  if (!lines) return report_error(lines.error());
  if (!given().json) {
    print(to_text(*lines));
    return kSuccess;
  }
  Json json = {{"attachments", Json::array()}};
  for (const QueueLine& line : *lines) json["attachments"].push_back(line_json(line));
  return print_json(json);
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
