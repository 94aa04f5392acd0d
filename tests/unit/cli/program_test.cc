// The program from outside, without servers: exit codes, help, what goes to which stream.
#include "tests/support/program.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/snapshot.h"

namespace rung::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Program : public ::testing::Test {
 protected:
  Program() {
    char folder[] = "/tmp/rung-cli-XXXXXX";
    folder_ = mkdtemp(folder);
    unsetenv("RUNG_CONFIG");
  }
  ~Program() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) {
    const std::string path = folder_ / name;
    std::ofstream(path) << text;
    return path;
  }
  // No server listens on port 1.
  std::string good() {
    return write(
        "rung.yaml",
        "broker: { url: \"amqp://guest:brokersecret@127.0.0.1:1/%2f\", management: \"http://127.0.0.1:1\" }\n"
        "store: { url: \"mysql://rung:storesecret@127.0.0.1:1/rung\" }\n");
  }
  static Ran rung(std::vector<std::string> words) {
    words.insert(words.begin(), RUNG_TEST_PROGRAM);
    Ran ran = run_program(words);
    EXPECT_THAT(ran.out + ran.err, AllOf(Not(HasSubstr("brokersecret")), Not(HasSubstr("storesecret"))));
    return ran;
  }
  // As far as the servers, which are not there.
  Ran to_the_servers(std::vector<std::string> words) {
    words.insert(words.end(), {"-c", good()});
    Ran ran = rung(words);
    EXPECT_EQ(ran.exit, 2) << words[0] << ": " << ran.err;
    return ran;
  }
  static std::size_t count_lines(const std::string& text) {
    return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  }

  std::filesystem::path folder_;
};

// errno is not ENOENT: as for one that may not be read. (The tests may run as root, who may read all.)
TEST_F(Program, AConfigThatIsThereAndCannotBeReadIsNotMissing) {
  std::filesystem::create_symlink("rung.yaml", folder_ / "rung.yaml");
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  const Ran ran = rung({"check"});
  std::filesystem::current_path(before);
  EXPECT_EQ(ran.exit, 1);
  EXPECT_THAT(ran.err, AllOf(HasSubstr("rung.yaml: cannot be read: "), Not(HasSubstr("no config file"))));
}

TEST_F(Program, DoctorTellsWhoCanReadThePasswordOfTheBroker) {
  std::filesystem::permissions(write("pw", "x\n"), std::filesystem::perms{0644});
  const Ran ran = rung({"doctor", "-c",
                        write("doctor.yaml",
                              "broker: { url: \"amqp://u@127.0.0.1:1/%2f\", password_file: pw, management: "
                              "\"http://127.0.0.1:1\" }\n"
                              "store: { url: \"mysql://u@127.0.0.1:1/rung\" }\n")});
  EXPECT_THAT(ran.err, HasSubstr("every user of this machine can read " + (folder_ / "pw").string()));
}

TEST_F(Program, WhichEntryAQueueFollows) {
  const std::string config = write("patterns.yaml",
                                   "broker: { url: \"amqp://u@127.0.0.1:1/%2f\" }\n"
                                   "store: { url: \"mysql://u@127.0.0.1:1/rung\" }\n"
                                   "queues: { \"orders.*\": { ladder: quick } }\n");
  EXPECT_THAT(rung({"check", "-c", config, "--queue", "orders.eu"}).out,
              HasSubstr("queue orders.eu follows queues.orders.*, a pattern"));
  const auto answer =
      nlohmann::json::parse(rung({"check", "-c", config, "--queue", "orders.eu", "--json"}).out);
  EXPECT_EQ(answer["entry"], "orders.*");
  EXPECT_EQ(answer["ladder"], "quick");
  EXPECT_TRUE(
      nlohmann::json::parse(rung({"check", "-c", config, "--queue", "x", "--json"}).out)["entry"].is_null());
  EXPECT_THAT(rung({"check", "-c", config, "--explain", "--queue", "orders.eu"}).out,
              HasSubstr("level 1 of 5 of ladder quick"));
  EXPECT_THAT(rung({"check", "-c", config, "--explain=false", "--queue", "orders.eu"}).out,
              HasSubstr("follows queues.orders.*"));
  EXPECT_THAT(rung({"check", "-c", config, "--explain", "--queue", "orders.eu", "--type",
                    std::string(256, 't'), "--tag", std::string(256, 't')})
                  .err,
              AllOf(HasSubstr("rung: --type: "), HasSubstr("; --tag: ")))
      << "each mistake, with its option";
  EXPECT_EQ(nlohmann::json::parse(rung({"check", "-c", config, "--json"}).out)["queues"][0]["name"],
            "orders.*");
}

TEST_F(Program, HelpAndVersion) {
  EXPECT_EQ(rung({"--version"}).out.substr(0, 5), "rung ");
  const Ran help = rung({"--help"});
  EXPECT_EQ(help.exit, 0);
  for (const char* command :
       {"run", "check", "migrate", "attach", "list", "show", "history", "cancel", "audit", "submit",
        "reschedule", "fire", "retry", "redrive", "finish", "stats", "nodes", "healthcheck"}) {
    EXPECT_THAT(help.out, HasSubstr(command));
    const Ran each = rung({command, "--help"});
    EXPECT_EQ(each.exit, 0) << command;
    EXPECT_THAT(each.out, AllOf(HasSubstr("Examples:\n  rung "), HasSubstr("--config FILE"))) << command;
    EXPECT_EQ(each.err, "") << command;
  }
  EXPECT_THAT(rung({"bulk", "--help"}).out, HasSubstr("Examples:\n  rung bulk"));
  for (const char* command : {"list", "show", "pause", "resume", "abort"}) {
    const Ran each = rung({"bulk", command, "--help"});
    EXPECT_EQ(each.exit, 0) << command;
    EXPECT_THAT(each.out, AllOf(HasSubstr("Examples:\n  rung bulk "), HasSubstr("--config FILE"))) << command;
  }
}

// mistakes.txt: command lines ("$ rung ..."), and under each what it says. No server is asked, and nothing is
// printed.
TEST_F(Program, MistakesAreToldToTheLetter) {
  good();
  const std::string path = RUNG_SOURCE_DIR "/tests/unit/cli/mistakes.txt";
  std::istringstream lines(test::text_of_file(path));
  std::string said;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("$ rung")) continue;
    const Ran ran =
        run_program({"sh", "-c", "cd " + folder_.string() + " && " RUNG_TEST_PROGRAM + line.substr(6)});
    EXPECT_EQ(ran.exit, 1) << line;
    EXPECT_EQ(ran.out, "") << line;
    EXPECT_EQ(count_lines(ran.err), 1U) << ran.err;
    said += (said.empty() ? "" : "\n") + line + "\n" + ran.err;
  }
  test::expect_snapshot(path, said);
}

// A value is never taken for one.
TEST_F(Program, AFormerNameOfAnOptionIsTaken) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"list", "--all"},
                                             {"nodes", "--all"},
                                             {"causes", "--all"},
                                             {"list", "--tag", "nodes", "--error", "--all"}})
    to_the_servers(words);
  EXPECT_EQ(rung({"attach", "--all", "-c", good(), "--group", "nodes"}).err.find("include-ended"),
            std::string::npos);
}

// A token that only the sidecar's user may read keeps nobody from the database, and no CI from checking.
TEST_F(Program, AFileThatIsNotThereIsAWarningForCheckAndNothingForTheDatabase) {
  const std::string config =
      write("rung.yaml",
            "broker: { url: \"amqps://guest:brokersecret@127.0.0.1:1/%2f\", ca: no.pem }\n"
            "store: { url: \"mysql://rung:storesecret@127.0.0.1:1/rung\" }\n"
            "http: { listen: \"127.0.0.1:8025\", token_file: no-token }\n");
  const Ran check = rung({"check", "-c", config});
  EXPECT_EQ(check.exit, 0);
  EXPECT_THAT(check.out, HasSubstr("ladder default: 9 levels"));
  EXPECT_EQ(count_lines(check.err), 3U) << check.err;  // the third: others may read the passwords
  EXPECT_THAT(check.err, HasSubstr(config + ":3:47: warning: http.token_file: \"" + folder_.string() +
                                   "/no-token\" cannot be read: No such file or directory; `rung run`"));
  const auto answer = nlohmann::json::parse(rung({"check", "--json", "-c", config}).out);
  EXPECT_TRUE(answer["ok"].get<bool>());
  EXPECT_EQ(answer["warnings"].size(), 3U);
  const Ran run = rung({"run", "-c", config});
  EXPECT_EQ(run.exit, 1);
  EXPECT_THAT(run.err, HasSubstr(config + ":3:47: http.token_file: "));
  for (const char* verb : {"migrate", "list", "stats"}) {
    const Ran ran = rung({verb, "-c", config});
    EXPECT_EQ(ran.exit, 2) << ran.err;  // as far as the database, which is not there
    EXPECT_THAT(ran.err, Not(HasSubstr("no-token"))) << verb;
  }
}

TEST_F(Program, CheckNamesFileLineAndColumn) {
  const std::string path =
      write("bad.yaml", "broker:\n  urll: x\nstore: { url: \"mysql://a@b/c\" }\nladders: { default: [] }\n");
  const Ran ran = rung({"check", "-c", path});
  EXPECT_EQ(ran.exit, 1);
  EXPECT_EQ(ran.out, "");
  EXPECT_THAT(ran.err, HasSubstr(path + ":2:3: "));
  const Ran answer = rung({"check", "--json", "-c", path});
  EXPECT_EQ(answer.exit, 1);
  EXPECT_FALSE(nlohmann::json::parse(answer.out)["ok"].get<bool>());
}

TEST_F(Program, ConfigIsFoundByFlagThenEnvironmentThenFolder) {
  const std::string from_env = write("env.yaml", "nonsense_env: 1\n");
  write("rung.yaml", "nonsense_here: 1\n");
  const auto check = [&](const std::string& env, const std::string& flags) {
    return run_program({"sh", "-c",
                        "cd " + folder_.string() + " && " + env + " " RUNG_TEST_PROGRAM " check " + flags})
        .err;
  };
  EXPECT_THAT(check("", ""), HasSubstr("nonsense_here"));
  EXPECT_THAT(check("RUNG_CONFIG=" + from_env, ""), HasSubstr("nonsense_env"));
  EXPECT_THAT(check("RUNG_CONFIG=" + from_env, "-c rung.yaml"), HasSubstr("nonsense_here"));
}

TEST_F(Program, ServicesThatAreAwayExit2) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"migrate"},
                                             {"list"},
                                             {"show", "1"},
                                             {"history", "1"},
                                             {"cancel", "1"},
                                             {"retry", "1"},
                                             {"finish", "1", "--failed"},
                                             {"fire", "--state", "scheduled", "--yes"},
                                             {"stats"},
                                             {"nodes"}})
    EXPECT_EQ(count_lines(to_the_servers(words).err), 1U) << words[0];
}

TEST_F(Program, AttachWithNobodyThereSaysWhatToRun) {
  const Ran ran = to_the_servers({"attach", "orders"});
  EXPECT_THAT(ran.out, HasSubstr("rabbitmqctl set_policy -p / --apply-to queues rung-orders"));
  EXPECT_THAT(ran.out, HasSubstr("x-dead-letter-exchange: rung.failed"));
  EXPECT_THAT(ran.err, HasSubstr("management API at 127.0.0.1:1"));
}

TEST_F(Program, AttachPrintAsksNobody) {
  const Ran ran = rung({"attach", "it's", "--print", "-c", good()});
  EXPECT_EQ(ran.exit, 0);
  EXPECT_EQ(ran.out,
            "rabbitmqctl set_policy -p / --apply-to queues 'rung-it'\\''s' '^it'\\''s$' "
            "'{\"dead-letter-exchange\":\"rung.failed\"}'\n");
  EXPECT_EQ(ran.err, "");
}

TEST_F(Program, CompletionIsAValidScriptAndCompletes) {
  const std::string script = write("completion.bash", rung({"completion", "bash"}).out);
  const auto complete = [&](const std::string& words) {
    auto ran = run_program({"bash", "-c",
                            "source " + script + "; COMP_WORDS=(" RUNG_TEST_PROGRAM " " + words +
                                "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _rung; echo ${COMPREPLY[@]}"});
    EXPECT_EQ(ran.err, "");
    return ran.out;
  };
  EXPECT_EQ(complete("canc"), "cancel\n");
  EXPECT_EQ(complete("list --corr"), "--correlation-id\n");
  EXPECT_EQ(complete("list --state parked,sch"), "parked,scheduled\n");
  EXPECT_EQ(complete("bulk sh"), "show\n");
  EXPECT_EQ(complete("bulk show --j"), "--json\n");
  EXPECT_EQ(complete("check --ap"), "\n") << "a command completes the program's options that it takes";
  EXPECT_EQ(complete("show 1 --token-file ''"), "\n") << "the shell completes names of files";
  for (const char* shell : {"zsh", "fish"})
    EXPECT_THAT(rung({"completion", shell}).out, HasSubstr(" __complete ")) << shell;
  EXPECT_EQ(rung({"completion", "tcsh"}).exit, 1);
}

// As cron, supervisors, shells and containers start and end it; "$R" is the program, "$C" a config, "$D" a
// folder.
class Process : public Program {
 protected:
  // The exit code of the script's last command, then what the script has printed.
  std::string bash(const std::string& script) {
    const std::string whole = "R=" RUNG_TEST_PROGRAM " C=" + good() + " D=" + folder_.string() +
                              "\nchmod 600 $C\n"
                              // Until it handles SIGTERM.
                              "started() { until (( 0x$(awk '/SigCgt/ { print $2 }' /proc/$!/status) & "
                              "0x4000 )); do sleep 0.01; done; }\n" +
                              script;
    const Ran ran = run_program({"bash", "-c", whole});
    return std::to_string(ran.exit) + ": " + ran.out + ran.err;
  }
};

TEST_F(Process, AnOutputIsWholeOrTheCommandFails) {
  for (const std::string command : {"check -c $C", "--help", "--version", "completion bash", "dialects"}) {
    EXPECT_EQ(bash("$R " + command + " >/dev/full"),
              "1: rung: the output cannot be written: No space left on device\n");
    EXPECT_EQ(bash("$R " + command + " >&-"), "1: rung: the output cannot be written: Bad file descriptor\n");
    // With and without a parent that ignores SIGPIPE.
    const std::string pipe = "rm -f $D/closed; { until [ -e $D/closed ]; do sleep 0.01; done; $R " + command +
                             "; echo $? >$D/code; } | { exec <&-; touch $D/closed; }; cat $D/code";
    EXPECT_EQ(bash(pipe), "0: 1\n") << command;
    EXPECT_EQ(bash("trap '' PIPE; " + pipe), "0: 1\n") << command;
  }
}

TEST_F(Process, AnOrderlyStopExits0HoweverItWasStarted) {
  const std::string start = "rm -f $D/log; $R run -c $C ", stop = " & started; kill $! && wait $!";
  for (const std::string streams :
       {"<&-", ">&-", "2>&-", "<&- >&- 2>&-", ">/dev/full 2>/dev/full", "2> >(true)"})
    EXPECT_EQ(bash(start + streams + stop).substr(0, 2), "0:") << streams;
  // What it writes to its log does not go to a socket that took the number of a closed stream.
  EXPECT_THAT(bash(start + "<&- >&- 2>&- & started; readlink /proc/$!/fd/{0,1,2}; kill $!; wait $!"),
              HasSubstr("/dev/null\n/dev/null\n/dev/null\n"));
  const std::string log = " 2>$D/log & until grep -qs connect $D/log; do sleep 0.02; done; ";
  EXPECT_EQ(bash(start + log + "kill -TERM $!; kill -TERM $!; kill -INT $!; wait $!").substr(0, 2), "0:");
  EXPECT_EQ(bash("trap '' INT HUP PIPE CHLD TERM; " + start + log + "kill -TERM $!; wait $!").substr(0, 2),
            "0:");
  EXPECT_EQ(
      bash("for ((i = 0; i < 1500; ++i)); do exec {fd}</dev/null; done; " + start + log + "kill $!; wait $!")
          .substr(0, 2),
      "0:");
}

// Signals that came while they were blocked: between the start of the process and that of its loop.
TEST_F(Process, ASignalBeforeTheStartIsFinishedIsNotLost) {
  const auto pending = [](const std::string& signal) {
    return "python3 -c 'import os, signal, sys; s = {signal.SIGHUP, signal.SIGTERM}; "
           "signal.pthread_sigmask(signal.SIG_BLOCK, s); os.kill(os.getpid(), signal." +
           signal + "); os.execv(sys.argv[1], sys.argv[1:])' $R run -c $C ";
  };
  EXPECT_EQ(bash(pending("SIGTERM")).substr(0, 2), "0:");
  const std::string reloaded =
      bash(pending("SIGHUP") +
           "2>$D/log & until grep -q 'config reloaded' $D/log; do kill -0 $! || exit 9; sleep 0.02; "
           "done; kill $!; wait $!");
  EXPECT_EQ(reloaded.substr(0, 2), "0:") << reloaded;
}

}  // namespace
}  // namespace rung::cli
