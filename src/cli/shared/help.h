// Completion scripts, generated from the program's commands and options; better messages for mistakes on the
// command line. Thread: pure functions.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace rung::cli {

// A command without its hidden options: {"list", "Lists tasks, newest first", ["--state", ...]}.
struct OptionInfo {
  std::vector<std::string> flags;  // "-c", "--config"
  std::string summary;
  bool takes_value = false;
  bool takes_file = false;
};
struct CommandInfo {
  std::string name;  // "bulk show" for a subcommand
  std::string summary;
  std::vector<OptionInfo> options;
  std::vector<std::string> commands;  // subcommands
};
// The program itself comes first, with the name "".
std::vector<CommandInfo> commands_info(const CLI::App& app);

std::string bash_completion(const CLI::App& app);
std::string zsh_completion(const CLI::App& app);
std::string fish_completion(const CLI::App& app);

// The subcommands for people. CLI11 represents option groups as subcommands without a name; they are skipped.
std::vector<const CLI::App*> commands_of(const CLI::App& app);

// rung completion. Call after all other commands were added.
void add_completion(CLI::App& app, int* exit);

// The message for a command line that `app` could not parse: it names the nearest command, option or value.
// `what`: the parser's own message.
std::string explain_mistake(const CLI::App& app, const std::string& what);

// "--state: parkd not in {scheduled,parked}" -> the same and ": did you mean parked?"; other messages
// unchanged.
std::string suggest_value(const std::string& what);

}  // namespace rung::cli
