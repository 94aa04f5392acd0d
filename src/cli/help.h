// What the program says about itself, made from its tree of commands and options: completion scripts and man
// pages. Thread: pure functions.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

namespace rung::cli {

// A command as people type it, without hidden ones: {"list", "The tasks, newest first", ["--state", ...]}.
struct OptionInfo {
  std::vector<std::string> flags;  // "-c", "--config"
  std::string summary;
  bool takes_value = false;
  bool takes_file = false;
};
struct CommandInfo {
  std::string name;  // "bulk show" for a command within a command
  std::string summary;
  std::vector<OptionInfo> options;
  std::vector<std::string> commands;  // within it
};
// The program itself first, with the name "".
std::vector<CommandInfo> commands_info(const CLI::App& app);

std::string bash_completion(const CLI::App& app);
std::string zsh_completion(const CLI::App& app);
std::string fish_completion(const CLI::App& app);

// The commands within one. CLI11 counts groups of options as commands without a name: those are left out.
std::vector<const CLI::App*> commands_of(const CLI::App& app);

struct ManPage {
  std::string file;  // "rung-list.1"
  std::string text;  // roff
};
std::vector<ManPage> man_pages(const CLI::App& app, const std::string& version);

// rung help, version, completion and man. Call after all other commands were added.
void add_help(CLI::App& app, int* exit);

}  // namespace rung::cli
