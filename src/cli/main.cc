// The program: parses the command line, runs the command, returns its exit code.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <clocale>
#include <csignal>
#include <exception>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "src/cli/shared/command.h"
#include "src/http/api.h"

namespace {

constexpr const char* kDescription =
    "Rung: durable retries for RabbitMQ. A failed message climbs a ladder of delays and returns to its "
    "queue\n"
    "after each delay; every step is a row in MySQL.";

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

// "rung lst": the name of the command whose arguments were wrong, for the hint.
std::string command_name(const CLI::App& app) {
  for (const CLI::App* command : app.get_subcommands()) return "rung " + command->get_name();
  return "rung";
}

int parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return rung::cli::exit_code();
  } catch (const CLI::Success& success) {  // --help, --version
    std::ostringstream text;
    const int code = app.exit(success, text, text);
    rung::cli::print(text.str());
    return code;
  } catch (const CLI::ParseError& error) {
    std::string what = rung::cli::explain_mistake(app, error.what());
    for (char& c : what) c = c == '\n' ? ' ' : c;
    return rung::cli::report_error(rung::cli::kUserError, what + " (see " + command_name(app) + " --help)");
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

int main(int argc, char** argv) {
  begin_process();
  try {
    CLI::App app(kDescription, "rung");
    app.set_version_flag("--version", "rung " RUNG_VERSION);
    app.require_subcommand(1);
    app.footer(kFooter);
    rung::cli::add_program_options(app);
    using namespace rung::cli;  // NOLINT(google-build-using-namespace): its commands
    for (const auto& add : {add_run, add_check, add_attach, add_doctor, add_list, add_submit, add_changes,
                            add_bulk, add_causes, add_pause, add_stats, add_completion})
      add(app);
    // For tools of the source tree: /openapi.json without a sidecar.
    app.add_subcommand("__openapi")->group("")->callback([] {
      rung::cli::print(rung::http::openapi_document() + "\n");
    });
    if (argc > 1 && std::string_view(argv[1]) == "__complete")
      return rung::cli::complete(app, {argv + 2, argv + argc});
    return parse(app, argc, argv);
  } catch (const rung::cli::Failed& e) {
    // Without a text it has been told.
    return *e.what() == '\0' ? e.exit : rung::cli::report_error(e.exit, e.what());
  } catch (const rung::StoreError& e) {
    return rung::cli::report_error(e.error);
  } catch (const std::exception& e) {  // out of memory, or an unexpected exception of a library
    return rung::cli::report_error(rung::cli::kUserError, e.what());
  }
}
