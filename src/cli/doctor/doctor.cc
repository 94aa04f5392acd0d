// rung doctor: runs the checks and prints what they found.
#include "src/cli/doctor/doctor.h"

#include <CLI/App.hpp>
#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "src/cli/shared/command.h"
#include "src/cli/shared/commands.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"

namespace rung::cli {
namespace {

using Status = Finding::Status;

struct StatusText {
  const char* word;
  Colour colour;
};
StatusText text_of(Status status) {
  switch (status) {
    case Status::ok:
      return {"ok", Colour::green};
    case Status::warn:
      return {"warn", Colour::yellow};
    case Status::wrong:
      return {"wrong", Colour::red};
    case Status::skipped:
      return {"skipped", Colour::dim};
  }
  return {"", Colour::none};
}

std::ptrdiff_t count(const Findings& findings, Status status) {
  return std::ranges::count(findings, status, &Finding::status);
}

std::string to_text(const Findings& findings) {
  const Terminal terminal = Terminal::of_stdout();
  std::string out;
  for (const Finding& f : findings) {
    std::string label = text_of(f.status).word;
    label.resize(8, ' ');
    std::string name = f.name;
    if (name.size() < 24) name.resize(24, ' ');
    out += paint(label, text_of(f.status).colour, terminal) + name + " " + one_line(f.what) + "\n";
    if (!f.fix.empty()) out += "          fix: " + one_line(f.fix) + "\n";
  }
  out += "\n" + std::to_string(count(findings, Status::ok)) + " ok, " +
         std::to_string(count(findings, Status::warn)) + " warnings, " +
         std::to_string(count(findings, Status::wrong)) + " wrong, " +
         std::to_string(count(findings, Status::skipped)) + " skipped\n";
  return out;
}

std::string findings_json(const Findings& findings) {
  Json lines = Json::array();
  for (const Finding& f : findings)
    lines.push_back({{"name", f.name},
                     {"status", text_of(f.status).word},
                     {"what", f.what},
                     {"fix", api::text_or_null(f.fix)}});
  return dump(Json{{"healthy", count(findings, Status::wrong) == 0}, {"checks", lines}}) + "\n";
}

int run(const Common& common) {
  Config config;
  if (const int code = load(common, config, ConfigFor::check, {}, false); code != kSuccess) return code;
  if (!config.groups.empty() && config.groups.own.empty())
    return report_error(kUserError, which_group(config.groups));
  Findings all = {good("config", find_config(common) + " is valid")};
  const SystemClock clock;
  QueueList list(config.broker);
  for (Findings part : {check_broker(config, list, clock), check_management(config, list),
                        check_error_queues(config, list, clock), check_database(config, clock),
                        check_ownership(config, clock), check_collector(config),
                        check_identity_provider(config), check_machine(config, find_config(common))})
    std::ranges::move(part, std::back_inserter(all));
  print(common.json ? findings_json(all) : to_text(all));
  if (std::ranges::any_of(all, &Finding::unreachable)) return kUnreachable;
  return count(all, Status::wrong) == 0 ? kSuccess : kUserError;
}

}  // namespace

void add_doctor(CLI::App& app, int* exit) {
  auto common = std::make_shared<Common>();
  CLI::App& c = add_command(
      app, "doctor", "Connects to all configured services and reports problems",
      "Examples:\n"
      "  rung doctor\n"
      "  rung doctor --json\n"
      "Each line is ok, warn, wrong or skipped, followed by a command that fixes it. It changes nothing\n"
      "on the servers. Exit code 1 if anything is wrong: something that keeps Rung from working; 2 if a "
      "service is not reached.",
      *common);
  c.callback([common, exit] { *exit = run(*common); });
}

}  // namespace rung::cli
