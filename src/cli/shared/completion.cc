// Completion scripts for bash, zsh and fish.
#include <CLI/App.hpp>
#include <algorithm>

#include "src/cli/shared/help.h"

namespace rung::cli {
namespace {

void collect(const CLI::App& app, const std::string& name, std::vector<CommandInfo>& out) {
  CommandInfo words{name, app.get_description(), {}, {}};
  words.summary = words.summary.substr(0, words.summary.find('\n'));
  for (const CLI::Option* option : app.get_options()) {
    OptionInfo one;
    for (const std::string& flag : option->get_snames()) one.flags.push_back("-" + flag);
    for (const std::string& flag : option->get_lnames()) one.flags.push_back("--" + flag);
    if (one.flags.empty()) continue;  // a positional
    one.summary = option->get_description();
    one.takes_value = option->get_items_expected_max() > 0;
    one.takes_file = option->get_type_name() == "FILE";
    words.options.push_back(std::move(one));
  }
  const auto commands = commands_of(app);
  for (const CLI::App* command : commands) words.commands.push_back(command->get_name());
  out.push_back(std::move(words));
  for (const CLI::App* command : commands)
    collect(*command, (name.empty() ? "" : name + " ") + command->get_name(), out);
}

std::string joined(const std::vector<std::string>& words, const char* between = " ") {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : between) + word;
  return out;
}

std::vector<std::string> flags_of(const CommandInfo& command, bool files_only = false) {
  std::vector<std::string> flags;
  for (const OptionInfo& option : command.options) {
    if (files_only && !option.takes_file) continue;
    flags.insert(flags.end(), option.flags.begin(), option.flags.end());
  }
  return flags;
}

// For single quotes in a shell.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

// The same for zsh's _arguments and _describe, where : [ and ] mean something.
std::string zsh_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == ':' || c == '[' || c == ']' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

std::vector<CommandInfo> commands_info(const CLI::App& app) {
  std::vector<CommandInfo> out;
  collect(app, "", out);
  return out;
}

std::string bash_completion(const CLI::App& app) {
  std::string cases, files;
  for (const CommandInfo& command : commands_info(app)) {
    std::vector<std::string> words = command.commands;
    for (const std::string& flag : flags_of(command)) words.push_back(flag);
    cases += "    " + quoted(command.name) + ") words=" + quoted(joined(words)) + " ;;\n";
    for (const std::string& flag : flags_of(command, true)) files += files.empty() ? flag : "|" + flag;
  }
  return "# bash completion for rung: source it, or save it as /usr/share/bash-completion/completions/rung\n"
         "_rung() {\n"
         "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command='' words='' "
         "i\n"
         "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
         "    [[ ${COMP_WORDS[i]} == -* ]] && break\n"
         "    case \"${command:+$command }${COMP_WORDS[i]}\" in\n"
         "      " +
         [&] {
           std::vector<std::string> names;
           for (const CommandInfo& command : commands_info(app)) {
             if (!command.name.empty()) names.push_back(quoted(command.name));
           }
           return joined(names, "|");
         }() +
         ") command=\"${command:+$command }${COMP_WORDS[i]}\" ;;\n"
         "      *) break ;;\n"
         "    esac\n"
         "  done\n"
         "  case $previous in " +
         files +
         ") COMPREPLY=($(compgen -f -- \"$current\")); return ;; esac\n"
         "  case $command in\n" +
         cases +
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
         "}\n"
         "complete -o default -F _rung rung\n";
}

std::string zsh_completion(const CLI::App& app) {
  const auto all = commands_info(app);
  std::string cases;
  for (const CommandInfo& command : all) {
    if (command.name.find(' ') != std::string::npos) continue;
    std::string arguments;
    for (const std::string& name : command.commands) {
      const auto it =
          std::ranges::find(all, command.name.empty() ? name : command.name + " " + name, &CommandInfo::name);
      arguments += " " + quoted(zsh_text(name) + ":" + (it == all.end() ? "" : zsh_text(it->summary)));
    }
    std::string flags;
    for (const OptionInfo& option : command.options) {
      for (const std::string& flag : option.flags)
        flags += " " + quoted(zsh_text(flag) + ":" + zsh_text(option.summary));
    }
    cases += "    " + quoted(command.name) + ") commands=(" + arguments + "); flags=(" + flags + ") ;;\n";
  }
  return "#compdef rung\n"
         "# zsh completion for rung: save it as _rung in a folder of $fpath\n"
         "_rung() {\n"
         "  local -a commands flags\n"
         "  local command=''\n"
         "  (( CURRENT > 2 )) && command=$words[2]\n"
         "  case $words[CURRENT-1] in -c|--config) _files; return ;; esac\n"
         "  case $command in\n" +
         cases +
         "  esac\n"
         "  [[ $words[CURRENT] == -* ]] || _describe command commands\n"
         "  _describe option flags\n"
         "}\n"
         "compdef _rung rung\n";
}

std::string fish_completion(const CLI::App& app) {
  std::string out =
      "# fish completion for rung: save it as ~/.config/fish/completions/rung.fish\n"
      "complete -c rung -f\n";
  for (const CommandInfo& command : commands_info(app)) {
    const std::string top = command.name.substr(0, command.name.find(' '));
    if (command.name.find(' ') != std::string::npos) continue;
    if (!command.name.empty()) {
      out += "complete -c rung -n __fish_use_subcommand -a " + quoted(command.name) + " -d " +
             quoted(command.summary) + "\n";
    }
    const std::string when =
        command.name.empty() ? "__fish_use_subcommand" : quoted("__fish_seen_subcommand_from " + top);
    if (!command.name.empty() && !command.commands.empty())
      out += "complete -c rung -n " + when + " -a " + quoted(joined(command.commands)) + "\n";
    for (const OptionInfo& option : command.options) {
      out += "complete -c rung -n " + when;
      for (const std::string& flag : option.flags)
        out += flag.starts_with("--") ? " -l " + flag.substr(2) : " -s " + flag.substr(1);
      if (option.takes_value) out += option.takes_file ? " -r -F" : " -x";
      out += " -d " + quoted(option.summary) + "\n";
    }
  }
  return out;
}

}  // namespace rung::cli
