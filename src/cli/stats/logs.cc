// rung logs: what the events of the log mean, from events.json.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/cli/shared/command.h"
#include "src/cli/shared/commands.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"
#include "src/config/document.h"

namespace rung::cli {
namespace {

constexpr std::size_t kMostSuggested = 5;

// An entry of events.json. An event that ends with "..." stands for all that begin like it.
struct LoggedEvent {
  std::string name, section, levels, fields, meaning;
};

std::vector<LoggedEvent> all_events() {
  std::vector<LoggedEvent> events;
  for (const Json& event : Json::parse(events_json()))
    events.push_back({event["event"], event["section"], event["levels"], event["fields"], event["meaning"]});
  return events;
}

// What the user gave: an event, or a line of the log, in which fields follow the event.
struct Given {
  std::string text;
  bool line = false;
};

// Lines of both formats, also behind what journalctl prints.
Given given(const std::string& text) {
  if (const std::size_t brace = text.find('{'); brace != std::string::npos) {
    const Json line = Json::parse(text.substr(brace), nullptr, false);
    if (line.is_object() && line.contains("event") && line["event"].is_string()) return {line["event"]};
  }
  for (const std::string_view level : {"Z debug ", "Z info  ", "Z warn  ", "Z error "}) {
    if (const std::size_t at = text.find(level); at != std::string::npos)
      return {text.substr(at + level.size()), true};
  }
  return {text};
}

bool fits(const Given& given, std::string_view event) {
  if (event.ends_with("...")) return given.text.starts_with(event.substr(0, event.size() - 3));
  return given.text == event || (given.line && given.text.starts_with(std::string(event) + " "));
}

// Of several that fit, the longest: "queue paused" and not "queue".
const LoggedEvent* find_event(const std::vector<LoggedEvent>& events, const Given& given) {
  const LoggedEvent* found = nullptr;
  for (const LoggedEvent& event : events) {
    if (fits(given, event.name) && (found == nullptr || event.name.size() > found->name.size()))
      found = &event;
  }
  return found;
}

int report_unknown(const std::vector<LoggedEvent>& events, const std::string& text) {
  std::vector<std::string> names;
  std::string similar;
  std::size_t count = 0;
  for (const LoggedEvent& event : events) {
    names.push_back(event.name);
    if (event.name.find(text) != std::string::npos && count++ < kMostSuggested)
      similar += (similar.empty() ? "" : "; ") + event.name;
  }
  if (similar.empty()) similar = confile::closest(text, names);
  return report_error(kNotFound,
                      "no event \"" + text + "\"" +
                          (similar.empty() ? ": `rung logs list` lists them" : ": similar: " + similar));
}

Json to_json(const LoggedEvent& event) {
  return {{"event", event.name},
          {"section", event.section},
          {"levels", event.levels},
          {"fields", event.fields},
          {"meaning", event.meaning}};
}

int explain(const std::vector<std::string>& words, bool json) {
  const std::vector<LoggedEvent> events = all_events();
  const Given event_or_line = given(fmt::format("{}", fmt::join(words, " ")));
  const LoggedEvent* event = find_event(events, event_or_line);
  if (event == nullptr) return report_unknown(events, event_or_line.text);
  print(json ? dump(to_json(*event)) + "\n"
             : fmt::format("event    {}\nabout    {}\nlevel    {}\nfields   {}\nmeaning  {}\n", event->name,
                           event->section, event->levels, event->fields.empty() ? "-" : event->fields,
                           event->meaning));
  return kSuccess;
}

int list(bool json) {
  using enum Table::Align;
  Json array = Json::array();
  Table table({{"LEVEL", left}, {"EVENT", left}});
  for (const LoggedEvent& event : all_events()) {
    array.push_back(to_json(event));
    table.row({event.levels, event.name});
  }
  print(json ? dump({{"events", array}}) + "\n" : table.str(Terminal::of_stdout(), false));
  return kSuccess;
}

}  // namespace

void add_logs(CLI::App& app, int* exit) {
  CLI::App& logs = *app.add_subcommand("logs", "Explains the events of the log");
  logs.require_subcommand(1);
  logs.footer(
      "\nExamples:\n  rung logs list\n  rung logs explain broker unavailable\nNeeds no servers and no "
      "config.");
  const auto json = std::make_shared<bool>(false);
  const auto words = std::make_shared<std::vector<std::string>>();
  CLI::App& one = *logs.add_subcommand("explain", "What an event means, its fields, what to do");
  one.add_option("EVENT", *words, "The event, or a line of the log in quotes")->required();
  one.footer(
      "\nExamples:\n  rung logs explain broker unavailable\n"
      "  rung logs explain \"$(journalctl -u rung -p warning -n 1 -o cat)\"");
  one.callback([=] { *exit = explain(*words, *json); });
  CLI::App& all = *logs.add_subcommand("list", "Lists the events");
  all.footer("\nExample:\n  rung logs list --json");
  all.callback([=] { *exit = list(*json); });
  for (CLI::App* command : {&one, &all}) command->add_flag("--json", *json, "Print JSON, for scripts");
}

}  // namespace rung::cli
