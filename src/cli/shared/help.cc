// rung help, version, completion, man.
#include "src/cli/shared/help.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <vector>

#include "src/cli/shared/command.h"
#include "src/cli/shared/commands.h"
#include "src/config/document.h"

namespace rung::cli {

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* one) { return !one->get_name().empty(); });
}

namespace {

// The text of --help. Uses get_formatter(), because help() would print the running command, `help`.
std::string help_of(const CLI::App& command, const std::string& name) {
  return command.get_formatter()->make_help(&command, name, CLI::AppFormatMode::Normal);
}

int help(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* at = &app;
  std::string name = "rung", before;
  for (const std::string& word : words) {
    std::vector<std::string> names;
    const CLI::App* found = nullptr;
    for (const CLI::App* command : commands_of(*at)) {
      names.push_back(command->get_name());
      if (command->get_name() == word) found = command;
    }
    if (found == nullptr) {
      const std::string meant = confile::closest(word, names);
      return report_error(
          kUserError, "unknown command " + confile::in_quotes(before + word) +
                          (meant.empty() ? " (see rung help)" : ": did you mean " + before + meant + "?"));
    }
    at = found;
    name += " " + word;
    before += word + " ";
  }
  print(help_of(*at, name));
  return kSuccess;
}

// Escapes help text for roff.
std::string roff(const std::string& text) {
  std::string out;
  bool line_begins = true;
  for (const char c : text) {
    if (line_begins && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
    line_begins = c == '\n';
  }
  return out;
}

void add_pages(const CLI::App& command, const std::string& name, const std::string& version,
               std::vector<ManPage>& pages) {
  std::string dashed = name, upper;
  for (char& c : dashed) c = c == ' ' ? '-' : c;
  for (const char c : dashed) upper += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const std::string summary = command.get_description();
  pages.push_back({dashed + ".1", ".TH " + upper + " 1 \"\" \"rung " + version + "\" \"Rung\"\n.SH NAME\n" +
                                      roff(dashed) + " \\- " + roff(summary.substr(0, summary.find('\n'))) +
                                      "\n.SH DESCRIPTION\n.nf\n" + roff(help_of(command, name)) +
                                      "\n.fi\n.SH SEE ALSO\nrung(1)\n"});
  for (const CLI::App* inner : commands_of(command))
    add_pages(*inner, name + " " + inner->get_name(), version, pages);
}

int write_man(const CLI::App& app, const std::string& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  for (const ManPage& page : man_pages(app, RUNG_VERSION)) {
    const std::filesystem::path path = std::filesystem::path(folder) / page.file;
    std::ofstream file(path);
    file << page.text;
    file.close();
    if (!file) return report_error(kUserError, "cannot write " + path.string() + ": " + std::strerror(errno));
  }
  return kSuccess;
}

// For help, version, completion and man, which have neither -c nor --json.
CLI::App& plain_command(CLI::App& app, const std::string& name, const std::string& summary,
                        const std::string& footer) {
  CLI::App& command = *app.add_subcommand(name, summary);
  command.footer("\n" + footer);
  return command;
}

}  // namespace

std::vector<ManPage> man_pages(const CLI::App& app, const std::string& version) {
  std::vector<ManPage> pages;
  add_pages(app, "rung", version, pages);
  return pages;
}

void add_help(CLI::App& app, int* exit) {
  auto words = std::make_shared<std::vector<std::string>>();
  CLI::App& c = plain_command(app, "help", "Shows what a command does, and its options",
                              "Examples:\n  rung help\n  rung help list\n  rung help bulk show");
  c.add_option("COMMAND", *words, "The command");
  c.callback([&app, words, exit] { *exit = help(app, *words); });

  plain_command(app, "version", "Prints the version", "Example:\n  rung version").callback([exit] {
    print("rung " RUNG_VERSION "\n");
    *exit = kSuccess;
  });

  auto shell = std::make_shared<std::string>();
  CLI::App& completion =
      plain_command(app, "completion", "Prints a shell completion script",
                    "Examples:\n"
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

  auto folder = std::make_shared<std::string>();
  CLI::App& man = plain_command(app, "man", "Writes a man page for each command",
                                "Example:\n  rung man /usr/local/share/man/man1");
  man.add_option("FOLDER", *folder, "The folder to write to; created if it does not exist")->required();
  man.callback([&app, folder, exit] { *exit = write_man(app, *folder); });
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
