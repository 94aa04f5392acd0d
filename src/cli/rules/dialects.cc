// rung dialects: how frameworks describe failures in their error queues.
#include <CLI/App.hpp>
#include <nlohmann/json.hpp>

#include "src/cli/shared/command.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"

namespace rung::cli {
namespace {

Json to_json(const Dialect& dialect) {
  return {{"name", dialect.name},       {"about", dialect.about}, {"versions", dialect.versions},
          {"sources", dialect.sources}, {"notes", dialect.notes}, {"remove", dialect.remove}};
}

std::string list_of(const std::string& title, const std::vector<std::string>& items) {
  std::string out;
  for (const std::string& item : items) out += "\n  " + one_line(item);
  return out.empty() ? "" : "\n" + title + out + "\n";
}

std::string details(const Dialect& dialect) {
  return one_line(dialect.name + ": " + dialect.about) + "\n" +
         (dialect.versions.empty() ? "" : "\nversions: " + one_line(dialect.versions) + "\n") +
         list_of("notes", dialect.notes) +
         list_of("headers that are removed before a message goes back", dialect.remove) +
         list_of("sources", dialect.sources);
}

int dialects(const std::string& wanted) {
  Config config;
  config.dialects = built_in_dialects();
  // With a config, its own dialects too. None is needed.
  if (!find_config().empty()) {
    if (const int code = load(config, ConfigFor::check); code != kSuccess) return code;
  }
  if (!wanted.empty()) {
    const auto found = config.dialects.find(wanted);
    if (found == config.dialects.end())
      return report_error(kNotFound, "no dialect '" + wanted + "': `rung dialects` lists them");
    print(given().json ? dump(to_json(*found->second)) + "\n" : details(*found->second));
    return kSuccess;
  }
  if (given().json) {
    Json json = {{"dialects", Json::array()}};
    for (const auto& [name, dialect] : config.dialects) json["dialects"].push_back(to_json(*dialect));
    return print_json(json);
  }
  using enum Table::Align;
  Table table({{"NAME", left}, {"VERSIONS", left, 12, 1}, {"WHAT", left}});
  for (const auto& [name, dialect] : config.dialects)
    table.row({name, dialect->versions.empty() ? "-" : dialect->versions, dialect->about});
  print(table.str(Terminal::of_stdout()));
  return kSuccess;
}

}  // namespace

void add_dialects(CLI::App& app, int* exit) {
  auto o = std::make_shared<std::string>();
  CLI::App& c =
      add_command(app, "dialects", "Lists the dialects of error queues: how frameworks describe failures",
                  "Examples:\n"
                  "  rung dialects\n"
                  "  rung dialects masstransit     notes, removed headers, and where the facts come from\n"
                  "Needs no servers. With a config, its own dialects (dialects:) are listed too.",
                  Takes::json);
  c.add_option("NAME", *o, "One dialect");
  c.callback([o, exit] { *exit = dialects(*o); });
}

}  // namespace rung::cli
