// What is wrong, where, and what would be right: to the letter, since people and editors read these lines.
#include <sstream>

#include "tests/support/snapshot.h"
#include "tests/unit/config/fixture.h"
#include "tests/unit/levels/seed.h"

namespace rung {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ConfigErrors : public ConfigTest {};

// mistakes.txt: a config, or one without its servers, and behind "= " each problem of it.
TEST_F(ConfigErrors, AreToTheLetter) {
  const std::string path = RUNG_SOURCE_DIR "/tests/unit/config/mistakes.txt";
  std::istringstream lines(test::text_of_file(path));
  std::string said, text;
  for (std::string line; std::getline(lines, line) || !text.empty(); line.clear()) {
    if (!line.empty()) {
      if (!line.starts_with("= ")) text += line + "\n";
      continue;
    }
    said += (said.empty() ? "" : "\n") + text;
    const std::string whole = text.starts_with("broker:") ? text : kServers + text;
    for (const std::string& problem : problems(whole)) said += "= " + problem + "\n";
    text.clear();
  }
  test::expect_snapshot(path, said);
}

TEST_F(ConfigErrors, AFileThatIsNone) {
  const auto nowhere = load_config(path("nowhere.yaml"));
  ASSERT_EQ(nowhere.problems.size(), 1u);
  EXPECT_EQ(nowhere.problems[0].str(), path("nowhere.yaml") + ": cannot be read: No such file or directory");
  const auto folder = load_config(path("."));
  ASSERT_EQ(folder.problems.size(), 1u);
  EXPECT_THAT(folder.problems[0].str(), HasSubstr("cannot be read: Is a directory"));
  const auto missing = {
      "rung.yaml: broker.url is missing: write broker: { url: \"amqp://user:password@host:port/%2f\" }",
      "rung.yaml: store.url is missing: write store: { url: \"mysql://user:password@host:port/schema\" }"};
  EXPECT_THAT(problems(""), testing::ElementsAreArray(missing));
  EXPECT_THAT(problems("# nothing yet\n"), testing::ElementsAreArray(missing));
  EXPECT_THAT(problems("broker:\nstore:\n"), ElementsAre(HasSubstr("rung.yaml:1:1: broker.url is missing"),
                                                         HasSubstr("rung.yaml:2:1: store.url is missing")));
  EXPECT_THAT(problems("- a\n- b\n").front(), HasSubstr("rung.yaml:1:1: the file has no keys"));
  EXPECT_THAT(problems(std::string(2'000'000, '#')), ElementsAre(HasSubstr("larger than 1 MB")));
}

TEST_F(ConfigErrors, WhatIsNotYaml) {
  EXPECT_THAT(problems("broker: {\n  url: [\n"), ElementsAre(HasSubstr("rung.yaml:3:1: not YAML: ")));
  EXPECT_THAT(problems("lease: 5s\n\twindow: 10m\n"), ElementsAre(HasSubstr("indent with spaces, not tabs")));
  EXPECT_THAT(problems("broker: { url: ${URL} }\n"),
              ElementsAre("rung.yaml:1:17: not YAML: end of map flow not found; inside { } or [ ], ${NAME} "
                          "needs quotes: \"${NAME}\""));
  EXPECT_THAT(problems(kServers + "---\nlease: 5s\n"),
              ElementsAre("rung.yaml:3:1: unexpected second YAML document: a config file has only one"));
  for (const std::string star :
       {"queues:\n  *: {}\n", "queues:\n  *_error: {}\n", "error_queues:\n  - from: *\n"})
    EXPECT_THAT(problems(kServers + star),
                ElementsAre(HasSubstr("a text that begins with * needs quotes: \"*\"")))
        << star;
  EXPECT_THAT(problems("\xEF\xBB\xBF" + kServers), IsEmpty()) << "a byte order mark";
  // yaml-cpp finds documents without end in this one.
  EXPECT_THAT(problems(",\n"),
              ElementsAre("rung.yaml:1:1: unexpected second YAML document: a config file has only one"));
}

TEST_F(ConfigErrors, HttpBeyondThisMachineNeedsAToken) {
  write("token", "geheim\nmore\n");
  for (const auto* listen : {"127.0.0.1:8025", "localhost:1", "[::1]:8025", "127.9.9.9:8025"})
    EXPECT_THAT(good(kServers + "http: { listen: \"" + std::string(listen) + "\" }\n").http.tokens,
                testing::IsEmpty());
  EXPECT_THAT(good(kServers + "http: { listen: \"0.0.0.0:8025\", token_file: token }\n").http.tokens,
              testing::ElementsAre("geheim", "more"));
}

TEST_F(ConfigErrors, TheConsolesUrlMayHaveAPath) {
  EXPECT_EQ(good(kServers + "http: { listen: \"127.0.0.1:1\", url: \"https://h:1/rung/\" }\n").http.url,
            "https://h:1/rung");
}

TEST_F(ConfigErrors, HttpTokens) {
  write("token", "geheim\n");
  write("same", "geheim");
  write("empty", "\n");
  write("blank", "two words\n");
  EXPECT_THAT(problem("http: { token_file: nowhere }\n"), HasSubstr("cannot be read"));
  EXPECT_THAT(problem("http: { token_file: empty }\n"),
              HasSubstr("first line of the file is empty: it must be the token"));
  EXPECT_THAT(problem("http: { token_file: blank }\n"), HasSubstr("only visible ASCII characters"));
  EXPECT_THAT(problem("http: { read_token_file: token }\n"), HasSubstr("requires http.token_file"));
  EXPECT_THAT(problem("http: { token_file: token, read_token_file: same }\n"), HasSubstr("the same token"));
  EXPECT_THAT(problem("http: { cert: token }\n"), HasSubstr("requires http.key"));
}

TEST_F(ConfigErrors, Tls) {
  write("ca.pem", "x");
  write("key.pem", "x");
  const std::string store = "store: { url: \"mysql://u:p@h/s\"";
  EXPECT_THAT(problems("broker: { url: \"amqp://h\", ca: ca.pem }\n" + store + ", ca: ca.pem }\n"),
              ElementsAre("rung.yaml:1:32: broker.ca: only valid with amqps://, but broker.url uses amqp://",
                          "rung.yaml:2:38: store.ca: only valid with store.tls: verify"));
  EXPECT_THAT(problems("broker: { url: \"amqps://h\", key: key.pem }\n" + store + ", tls: verify }\n"),
              ElementsAre("rung.yaml:1:34: broker.key: requires broker.cert",
                          "rung.yaml:2:39: store.tls: verify requires store.ca, the CA certificates for the "
                          "server's certificate"));
  EXPECT_THAT(
      problems("broker: { url: \"amqps://h\", ca: nowhere.pem }\n" + store + " }\n"),
      ElementsAre("rung.yaml:1:33: broker.ca: \"nowhere.pem\" cannot be read: No such file or directory"));
}

TEST_F(ConfigErrors, AliasesThatMultiplyAreStopped) {
  std::string text = "a: &a [x, x, x, x, x, x, x, x, x, x]\n";
  for (char c = 'b'; c < 'k'; ++c) {
    text += std::string(1, c) + ": &" + c + " [";
    for (int i = 0; i < 10; ++i) text += std::string(i == 0 ? "*" : ", *") + static_cast<char>(c - 1);
    text += "]\n";
  }
  EXPECT_THAT(problems(text), ElementsAre(HasSubstr("too large for a configuration file")));
  EXPECT_THAT(problems("a: &a [*a]\n"), ElementsAre(HasSubstr("nested too deep")));
}

TEST_F(ConfigErrors, LinesAreWholeWhateverIsQuoted) {
  EXPECT_THAT(problem("lease: " + std::string(500, '9') + "x\n").size(), testing::Lt(200u));
}

// On a bad day somebody looks at the tasks while the file is being mended.
TEST_F(ConfigErrors, ElsewhereDoNotStopWhoOnlyReads) {
  for (const std::string mistake : {"queues: { orders: { lader: fast } }\n", "queues:\n  *: {}\n",
                                    "http: { listen: nowhere }\n", "ladders:\n\ta: [1s]\n"}) {
    const std::string file = write("rung.yaml", mistake + kServers + mistake);
    const LoadedConfig loaded = load_config(file, ConfigFor::reading);
    EXPECT_TRUE(loaded.ok()) << loaded.problems.front().str();
    EXPECT_EQ(loaded.config.store.urls[0].user, "rung");
    ASSERT_FALSE(loaded.warnings.empty()) << mistake;
    EXPECT_EQ(loaded.warnings.front().str(), load_config(file, ConfigFor::api).problems.front().str());
  }
  const LoadedConfig wrong = load_config(write("rung.yaml", "store: { url: nowhere }\n"), ConfigFor::reading);
  ASSERT_FALSE(wrong.ok());
  EXPECT_THAT(wrong.problems.back().what, ::testing::HasSubstr("store.url"));
}

}  // namespace
}  // namespace rung
