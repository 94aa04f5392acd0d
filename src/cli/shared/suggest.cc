#include "src/cli/shared/suggest.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <sstream>
#include <vector>

#include "src/cli/shared/help.h"
#include "src/config/document.h"

namespace rung::cli {
namespace {

std::string did_you_mean(const std::string& near) {
  return near.empty() ? "" : ": did you mean " + near + "?";
}

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
  return "unknown command " + confile::in_quotes(word) + did_you_mean(confile::closest(word, names));
}

std::string unknown_option(const CLI::App& at, const std::string& word) {
  if (!word.starts_with("--")) return {};
  const std::string name = word.substr(0, word.find('='));
  std::vector<std::string> flags;
  add_flags(at, flags);
  return "unknown option " + name + did_you_mean(confile::closest(name, flags));
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
  return what + did_you_mean(confile::closest(what.substr(value + 2, list - value - 2), words));
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
