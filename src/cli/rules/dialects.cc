// rung dialects: how frameworks describe failures in their error queues.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <nlohmann/json.hpp>

#include "src/cli/shared/command.h"
#include "src/cli/shared/commands.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"

namespace rung::cli {
namespace {

struct DialectsOptions {
  Common common;
  std::string name;
};

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

int dialects(const DialectsOptions& options) {
  Config config;
  config.dialects = built_in_dialects();
  // With a config, its own dialects too. None is needed.
  if (!options.common.config.empty() || !find_config(options.common).empty()) {
    if (const int code = load(options.common, config, ConfigFor::check); code != kSuccess) return code;
  }
  if (!options.name.empty()) {
    const auto found = config.dialects.find(options.name);
    if (found == config.dialects.end())
      return report_error(kNotFound, "no dialect '" + options.name + "': `rung dialects` lists them");
    print(options.common.json ? dump(to_json(*found->second)) + "\n" : details(*found->second));
    return kSuccess;
  }
  if (options.common.json) {
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
  auto o = std::make_shared<DialectsOptions>();
  CLI::App& c =
      add_command(app, "dialects", "Lists the dialects of error queues: how frameworks describe failures",
                  "Examples:\n"
                  "  rung dialects\n"
                  "  rung dialects masstransit     notes, removed headers, and where the facts come from\n"
                  "Needs no servers. With a config, its own dialects (dialects:) are listed too.",
                  o->common);
  c.add_option("NAME", o->name, "One dialect");
  c.callback([o, exit] { *exit = dialects(*o); });
}

}  // namespace rung::cli
