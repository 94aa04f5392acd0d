// rung completion; what is said of a mistake on the command line.
#include "src/cli/shared/help.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>  // defines what each program with a CLI::App links
#include <memory>
#include <sstream>
#include <vector>

#include "src/cli/shared/command.h"
#include "src/cli/shared/commands.h"
#include "src/config/document.h"

namespace rung::cli {

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* one) {
    return !one->get_name().empty() && !one->get_name().starts_with("__");  // for tools
  });
}

void add_completion(CLI::App& app, int* exit) {
  auto shell = std::make_shared<std::string>();
  CLI::App& completion = *app.add_subcommand("completion", "Prints a shell completion script");
  completion.footer(
      "\nExamples:\n"
      "  rung completion bash > /usr/share/bash-completion/completions/rung\n"
      "  rung completion zsh > /usr/share/zsh/vendor-completions/_rung\n"
      "  rung completion fish > ~/.config/fish/completions/rung.fish");
  completion.add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  completion.callback([&app, shell, exit] {
    print(*shell == "bash"  ? bash_completion(app)
          : *shell == "zsh" ? zsh_completion(app)
                            : fish_completion(app));
    *exit = kSuccess;
  });
}

namespace {

const CLI::App& command_of(const CLI::App& app) {
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  return *at;
}

// All flags of a command, those of its option groups too.
void add_flags(const CLI::App& command, std::vector<std::string>& flags) {
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  for (const CLI::App* group :
       command.get_subcommands([](const CLI::App* one) { return one->get_name().empty(); }))
    add_flags(*group, flags);
}

// The error for an unknown command; "" if the error is a different one.
std::string unknown_command(const CLI::App& at, const std::string& word) {
  if (at.get_require_subcommand_min() == 0 || word.starts_with('-')) return {};
  std::vector<std::string> names;
  for (const CLI::App* command : commands_of(at)) names.push_back(command->get_name());
  return "unknown command " + confile::in_quotes(word) + confile::did_you_mean(word, names);
}

std::string unknown_option(const CLI::App& at, const std::string& word) {
  if (!word.starts_with("--")) return {};
  const std::string name = word.substr(0, word.find('='));
  std::vector<std::string> flags;
  add_flags(at, flags);
  return "unknown option " + name + confile::did_you_mean(name, flags);
}

}  // namespace

std::string suggest_value(const std::string& what) {
  constexpr std::string_view kNotIn = " not in {";
  const std::size_t list = what.find(kNotIn), end = what.find('}', list);
  const std::size_t value = what.find(": ");
  if (list == std::string::npos || end == std::string::npos || value == std::string::npos || value > list)
    return what;
  std::vector<std::string> words;
  std::istringstream stream(what.substr(list + kNotIn.size(), end - list - kNotIn.size()));
  for (std::string word; std::getline(stream, word, ',');) words.push_back(word);
  return what + confile::did_you_mean(what.substr(value + 2, list - value - 2), words);
}

std::string explain_mistake(const CLI::App& app, const std::string& what) {
  const CLI::App& at = command_of(app);
  const std::vector<std::string> words = at.remaining();
  std::string text;
  if (!words.empty()) text = unknown_command(at, words.front());
  for (const std::string& word : words) {
    if (text.empty()) text = unknown_option(at, word);
  }
  return text.empty() ? suggest_value(what) : text;
}

}  // namespace rung::cli
