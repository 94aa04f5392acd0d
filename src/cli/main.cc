// The program: parses the command line, runs the command, returns its exit code. rung completion; what is
// said of a mistake on the command line.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <csignal>
#include <exception>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/cli/shared/command.h"
#include "src/cli/shared/text.h"
#include "src/config/document.h"
#include "src/http/api.h"

namespace rung::cli {
namespace {

constexpr const char* kDescription =
    "Rung: durable retries for RabbitMQ. A failed message climbs a ladder of delays and returns to\n"
    "its queue after each delay; every step is a row in MySQL.";

constexpr const char* kFooter =
    "\nStart with:\n"
    "  rung check                      validate rung.yaml and print its ladders\n"
    "  rung migrate                    create the tables\n"
    "  rung run                        run the sidecar\n"
    "  rung attach orders              send the queue's dead letters to the sidecar\n"
    "  rung list --state parked        tasks whose ladder is exhausted\n"
    "  rung history ID                 the failures and retries of one message\n"
    "  rung submit --queue orders --delay 30m --body '{\"order\":17}'   a delayed message\n"
    "\nExit codes: 0 success, 1 user error (flags, config, wrong state), 2 service unreachable, 3 not "
    "found.\n"
    "Every command has its own --help.";

// ---------------------------------------------------------------------------------------- rung completion

// They ask the program itself, which prints a candidate in each line, and its description after a tab; if it
// has none, the shell completes names of files.
constexpr const char* kBash =
    R"(# bash completion for rung: source it, or save it as /usr/share/bash-completion/completions/rung
_rung() {
  local IFS=$'\n'
  COMPREPLY=($("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f1))
}
complete -o default -F _rung rung
)";
constexpr const char* kZsh = R"(#compdef rung
# zsh completion for rung: save it as _rung in a folder of $fpath
_rung() {
  local -a found
  found=("${(@f)$("$words[1]" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  found=("${(@)${(@)found//:/\\:}//$'\t'/:}")
  if [[ -n $found[1] ]]; then _describe rung found; else _files; fi
}
compdef _rung rung
)";
constexpr const char* kFish = R"(# fish completion for rung: save it as ~/.config/fish/completions/rung.fish
function __rung_complete
  set -l words (commandline -opc)
  $words[1] __complete $words[2..-1] (commandline -ct) 2>/dev/null
  or __fish_complete_path (commandline -ct)
end
complete -c rung -f -a '(__rung_complete)'
)";

using Candidates = std::vector<std::pair<std::string, std::string>>;  // with descriptions

// The subcommands for people. CLI11 represents option groups as subcommands without a name; they are skipped.
std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* one) {
    return !one->get_name().empty() && !one->get_name().starts_with("__");  // for tools
  });
}

// All options of a command, with those of its option groups.
std::vector<const CLI::Option*> options_of(const CLI::App& command) {
  std::vector<const CLI::Option*> all = command.get_options();
  for (const CLI::App* group :
       command.get_subcommands([](const CLI::App* one) { return one->get_name().empty(); })) {
    for (const CLI::Option* option : group->get_options()) all.push_back(option);
  }
  return all;
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

// "TEXT:{parked,scheduled}" has the words of an option.
std::vector<std::string> words_of(const std::string& text) {
  const std::size_t begin = text.find('{'), end = text.find('}', begin);
  std::vector<std::string> words;
  if (begin == std::string::npos || end == std::string::npos) return words;
  std::istringstream stream(text.substr(begin + 1, end - begin - 1));
  for (std::string word; std::getline(stream, word, ',');) words.push_back(word);
  return words;
}

Candidates known_queues() {
  Session session("", ConfigFor::reading);
  const Json known = need(read_rows(*session.api, "/v1/queues", {}, "queues"));
  Candidates found;
  for (const Json& one : part_of(known, "queues")) found.emplace_back(text_of(one, "queue"), "");
  return found;
}

// `word`: the last one.
Candidates values_of(const CLI::Option& option, const std::string& word) {
  if (option.get_type_name() == "QUEUE" || option.get_name(true) == "QUEUE") return known_queues();
  Candidates found;
  const std::size_t comma = word.rfind(',');  // of a list
  const std::string before = comma == std::string::npos ? "" : word.substr(0, comma + 1);
  for (const std::string& value : words_of(option.get_type_name())) found.emplace_back(before + value, "");
  return found;
}

// What can follow `words`, of which the last one is not finished.
Candidates candidates(CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* command = &app;
  const CLI::Option* open = nullptr;  // an option whose value comes next
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& word = words[i];
    if (CLI::Option* option = app.get_option_no_throw(word); option != nullptr && takes_value(*option)) {
      option->add_result(words[i + 1]);  // it may say where the queues are known
      option->run_callback();
    }
    const bool is_value = std::exchange(open, nullptr) != nullptr;
    if (is_value) continue;
    for (const CLI::App* one : commands_of(*command)) {
      if (one->check_name(word)) command = one;
    }
    for (const CLI::Option* option : options_of(*command)) {
      if (option->check_name(word) && takes_value(*option)) open = option;
    }
  }
  const std::string& last = words.back();
  if (open != nullptr) return values_of(*open, last);
  Candidates found;
  if (last.starts_with('-')) {
    for (const CLI::Option* option : options_of(*command)) {
      for (const std::string& name : option->get_snames())
        found.emplace_back("-" + name, option->get_description());
      for (const std::string& name : option->get_lnames())
        found.emplace_back("--" + name, option->get_description());
    }
    return found;
  }
  for (const CLI::App* one : commands_of(*command)) {
    found.emplace_back(one->get_name(), one->get_description());
    for (const std::string& name : one->get_aliases()) found.emplace_back(name, "Same as " + one->get_name());
  }
  for (const CLI::Option* option : command->get_options()) {
    if (found.empty() && option->get_positional()) found = values_of(*option, last);
  }
  return found;
}

const CLI::App& command_of(const CLI::App& app) {
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  return *at;
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
  for (const CLI::Option* option : options_of(at)) {
    for (const std::string& one : option->get_lnames()) flags.push_back("--" + one);
  }
  return "unknown option " + name + confile::did_you_mean(name, flags);
}

// "--state: parkd not in {scheduled,parked}" -> the same and ": did you mean parked?"; other messages
// unchanged.
std::string suggest_value(const std::string& what) {
  const std::size_t list = what.find(" not in {"), value = what.find(": ");
  if (list == std::string::npos || value > list) return what;
  return what + confile::did_you_mean(what.substr(value + 2, list - value - 2), words_of(what.substr(list)));
}

void add_completion(CLI::App& app) {
  CLI::App& completion = add_command(
      app, "completion", "Prints a shell completion script",
      "Examples:\n"
      "  rung completion bash > /usr/share/bash-completion/completions/rung\n"
      "  rung completion zsh > /usr/share/zsh/vendor-completions/_rung\n"
      "  rung completion fish > ~/.config/fish/completions/rung.fish",
      [](const CLI::App& c) {
        const std::string shell = value_of(c, "SHELL");
        print(shell == "bash" ? kBash : shell == "zsh" ? kZsh : kFish);
        return kSuccess;
      },
      Takes::none);
  add_text(completion, "SHELL", "bash, zsh or fish")
      .required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
}

int complete(CLI::App& app, const std::vector<std::string>& words) {
  std::string out;
  for (const auto& [text, description] : words.empty() ? Candidates() : candidates(app, words)) {
    if (!text.starts_with(words.back())) continue;
    const std::string first = description.substr(0, description.find('\n'));
    out += one_line(text) + (first.empty() ? "" : "\t" + one_line(first)) + "\n";
  }
  print(out);
  return out.empty() ? kUserError : kSuccess;
}

std::string explain_mistake(const CLI::App& app, const std::string& what) {
  const CLI::App& at = command_of(app);
  const std::vector<std::string> words = app.remaining(true);
  std::string text;
  if (!words.empty()) text = unknown_command(at, words.front());
  for (const std::string& word : words) {
    if (text.empty()) text = unknown_option(at, word);
  }
  return text.empty() ? suggest_value(what) : text;
}

// -------------------------------------------------------------------------------------------- the program

// "rung lst": the name of the command whose arguments were wrong, for the hint.
std::string command_name(const CLI::App& app) {
  for (const CLI::App* command : app.get_subcommands()) return "rung " + command->get_name();
  return "rung";
}

int parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return exit_code();
  } catch (const CLI::Success& success) {  // --help, --version
    std::ostringstream text;
    const int code = app.exit(success, text, text);
    print(text.str());
    return code;
  } catch (const CLI::ParseError& error) {
    std::string what = explain_mistake(app, error.what());
    for (char& c : what) c = c == '\n' ? ' ' : c;
    return report_error(kUserError, what + " (see " + command_name(app) + " --help)");
  }
}

// What a parent may leave to us. A closed stream's number would go to the first socket, and what is printed
// to the socket: reading or writing such a stream fails instead (stderr goes nowhere). A broken connection or
// pipe is an error, not the end.
void begin_process() {
  for (const auto& [stream, mode] :
       {std::pair{STDIN_FILENO, O_WRONLY}, {STDOUT_FILENO, O_RDONLY}, {STDERR_FILENO, O_WRONLY}}) {
    if (fcntl(stream, F_GETFD) < 0) (void)open("/dev/null", mode);  // takes the lowest number that is free
  }
  std::signal(SIGPIPE, SIG_IGN);
}

}  // namespace
}  // namespace rung::cli

int main(int argc, char** argv) {
  using namespace rung::cli;  // NOLINT(google-build-using-namespace)
  begin_process();
  try {
    CLI::App app(kDescription, "rung");
    app.set_version_flag("--version", "rung " RUNG_VERSION);
    app.require_subcommand(1);
    app.footer(kFooter);
    add_program_options(app);
    for (const auto& add : {add_run, add_check, add_attach, add_doctor, add_list, add_submit, add_changes,
                            add_bulk, add_causes, add_pause, add_stats, add_completion})
      add(app);
    // For tools of the source tree: /openapi.json without a sidecar.
    app.add_subcommand("__openapi")->group("")->callback([] {
      print(rung::http::openapi_document() + "\n");
    });
    if (argc > 1 && std::string_view(argv[1]) == "__complete") return complete(app, {argv + 2, argv + argc});
    return parse(app, argc, argv);
  } catch (const Failed& e) {
    // Without a text it has been told.
    return *e.what() == '\0' ? e.exit : report_error(e.exit, e.what());
  } catch (const rung::StoreError& e) {
    return report_error(e.error);
  } catch (const std::exception& e) {  // out of memory, or an unexpected exception of a library
    return report_error(kUserError, e.what());
  }
}
