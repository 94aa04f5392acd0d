// ${NAME}, files of secrets, and that nothing of them is ever shown.
#include "src/config/load.h"
#include "src/core/base/url.h"
#include "tests/unit/config/fixture.h"

namespace rung {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class ConfigEnvironment : public ConfigTest {};

const std::string kStore = "store: { url: \"mysql://u:p@h/s\" }\n";

std::vector<Url> urls(const std::vector<std::string>& texts) {
  std::vector<Url> all;
  for (const std::string& text : texts) all.push_back(*parse_url(text));
  return all;
}

TEST_F(ConfigEnvironment, IsPutIntoAnyValue) {
  env("RUNG_T_PASSWORD", "geheim");
  env("RUNG_T_HOST", "rabbit");
  env("RUNG_T_LEASE", "7s");
  env("RUNG_T_LADDER", "quick");
  env("RUNG_T_FIRST", "3s");
  const auto config = good("broker: { url: \"amqp://me:${RUNG_T_PASSWORD}@${RUNG_T_HOST}/x\" }\n" + kStore +
                           "lease: ${RUNG_T_LEASE}\n"
                           "ladders: { mine: [\"${RUNG_T_FIRST}\", 10s] }\n"
                           "queues: { a: { ladder: \"${RUNG_T_LADDER}\" } }\n");
  EXPECT_EQ(config.broker.urls, urls({"amqp://me:geheim@rabbit/x"}));
  EXPECT_EQ(config.lease, Ms{7000});
  EXPECT_EQ(config.rules->ladder("mine")->delay(1), Ms{3000});
  EXPECT_EQ(config.rules->queue("a").ladder, "quick");
}

TEST_F(ConfigEnvironment, AValueIsNeverReadAsYaml) {
  env("RUNG_T_NODE", "a, lease: 1s }");
  EXPECT_EQ(problem("node: \"${RUNG_T_NODE}\"\n"),
            "rung.yaml:3:7: node: the value of \"${RUNG_T_NODE}\" has invalid characters: use letters, "
            "digits and . _ -");
  // Nor is what it holds replaced again.
  env("RUNG_T_OUTER", "${RUNG_T_INNER}");
  env("RUNG_T_INNER", "inner");
  EXPECT_EQ(good("broker: { url: \"amqp://me:${RUNG_T_OUTER}@h\" }\n" + kStore).broker.urls[0].password,
            "${RUNG_T_INNER}");
}

TEST_F(ConfigEnvironment, ADollarThatIsMeant) {
  const auto password = [&](const std::string& text) {
    return good("broker: { url: \"amqp://me:" + text + "@h\" }\n" + kStore).broker.urls[0].password;
  };
  EXPECT_EQ(password("$$${NAME}$5$"), "$${NAME}$5$");
  EXPECT_EQ(password("$${NAME}"), "${NAME}");
}

TEST_F(ConfigEnvironment, WhatIsNotThereIsNamed) {
  EXPECT_EQ(problem("node: ${RUNG_T_UNSET}\n"),
            "rung.yaml:3:7: environment variable RUNG_T_UNSET is not set: set it, or write the value here");
  for (const auto* text : {"${", "${}", "${A-B}", "${1A}", "x${A", "${A:-b}"}) {
    EXPECT_THAT(problem("node: '" + std::string(text) + "'\n"),
                HasSubstr("rung.yaml:3:7: invalid ${: write ${NAME}"))
        << text;
  }
  EXPECT_THAT(problem("retention: \"off${RUNG_T_UNSET}\"\n"), HasSubstr("RUNG_T_UNSET is not set"));
  env("RUNG_T_EMPTY", "");
  EXPECT_THAT(problem("node: ${RUNG_T_EMPTY}\n"), HasSubstr("node: must not be empty"));
  // A server's URL that is wrong is not also told as missing.
  EXPECT_THAT(problems("broker: { url: \"${RUNG_T_UNSET}\" }\n" + kStore),
              ElementsAre(HasSubstr("environment variable RUNG_T_UNSET is not set")));
}

TEST_F(ConfigEnvironment, NoProblemHoldsAValueFromTheEnvironment) {
  // The secret in every key there is: none of the problems may show it, nor digits of it.
  env("RUNG_T_SECRET", "8472hunter");
  env("RUNG_T_NUMBER", "8472");
  env("RUNG_T_MS", "8472ms");
  for (const auto* variable : {"RUNG_T_SECRET", "RUNG_T_NUMBER", "RUNG_T_MS"}) {
    for (const auto& key : confile::config_table().keys) {
      std::string text;
      std::string_view rest = key.path;
      std::string closing;
      while (rest.find('.') != std::string_view::npos) {
        const auto name = rest.substr(0, rest.find('.'));
        rest.remove_prefix(name.size() + 1);
        text += (name == "*" ? "thing" : std::string(name)) + ": { ";
        closing += " }";
      }
      const std::string value = "\"${" + std::string(variable) + "}\"";
      text +=
          (rest == "*" ? "thing: [ " + value + ", 1ms ]" : std::string(rest) + ": " + value) + closing + "\n";
      for (const auto& line : problems(text)) {
        EXPECT_THAT(line, Not(HasSubstr("8472"))) << text;
        EXPECT_THAT(line, Not(HasSubstr("hunter"))) << text;
      }
    }
  }
}

TEST_F(ConfigEnvironment, NoProblemHoldsAPassword) {
  for (const auto* url : {"amqp://u:hun,ter2@h", "amqp://u:hun/ter2@h", "amqp://u:hun: ter2@h",
                          "amqp://u:hun ter2@h", "amqp://u:hun, ter2@h", "mysql://u:hunter2@h", "hunter2",
                          "amqp://u:hunter2@h?x=hunter2", "amqp://u:hunter2@h:port", "amqp://u:p#hunter2@h",
                          "amqp://u:hun,ter2,x@h", "amqp://u:hunter2,hunter2,hunter2@h", "\"hun\\qter2",
                          "*hunter2", "&hunter2 *ter2", "!hunter2<ter2>", "amqp://u:hunter2, cert@h, url"}) {
    for (const std::string& text :
         {"broker: { url: " + std::string(url) + " }\n", "broker: { url: \"" + std::string(url) + "\" }\n",
          "broker:\n  url: " + std::string(url) + "\n", "store: { url: " + std::string(url) + " }\n",
          "broker: { urls: [\"" + std::string(url) + "\", \"amqp://me:hunter2@h/b\"] }\n"}) {
      for (const auto& line : problems(text)) {
        EXPECT_THAT(line, Not(HasSubstr("hun"))) << text;
        EXPECT_THAT(line, Not(HasSubstr("ter2"))) << text;
      }
    }
  }
}

TEST_F(ConfigEnvironment, APasswordFileThatCannotServe) {
  write("empty", "");
  write("blank", "\nsecret\n");
  const auto with = [&](const std::string& url, const std::string& file) {
    const auto lines = problems("broker: { url: \"" + url + "\", password_file: " + file + " }\n" + kStore);
    return lines.size() == 1 ? lines[0] : testing::PrintToString(lines);
  };
  EXPECT_EQ(with("amqp://me@h", "nowhere"),
            "rung.yaml:1:46: broker.password_file: \"nowhere\" cannot be read: No such file or directory");
  EXPECT_EQ(with("amqp://me@h", "."),
            "rung.yaml:1:46: broker.password_file: \".\" cannot be read: Is a directory");
  EXPECT_EQ(
      with("amqp://me@h", "empty"),
      "rung.yaml:1:46: broker.password_file: the first line of the file is empty: it must be the password");
  EXPECT_EQ(
      with("amqp://me@h", "blank"),
      "rung.yaml:1:46: broker.password_file: the first line of the file is empty: it must be the password");
  EXPECT_EQ(with("amqp://me@h", "/dev/zero"),
            "rung.yaml:1:46: broker.password_file: the first line of the file is longer than 4096 bytes: not "
            "a password");
  EXPECT_EQ(with("amqp://h", "blank"),
            "rung.yaml:1:43: broker.password_file: the URL has no user for this password: write "
            "amqp://USER@... in broker.url");
}

TEST_F(ConfigEnvironment, AddressesAreAListOrATextWithCommas) {
  env("RUNG_TEST_BROKERS", "amqp://me:a%2Cb@h1:1/x, amqp://you:c@h2/x");
  const auto config = good(
      "broker: { urls: \"${RUNG_TEST_BROKERS}\" }\n"
      "store: { urls: [\"mysql://me:a@h1/s\", \"mysql://you@h1:3307/s\", \"mysql://me@h2/s\"] }\n");
  EXPECT_EQ(config.broker.urls, urls({"amqp://me:a%2Cb@h1:1/x", "amqp://you:c@h2/x"}));
  EXPECT_EQ(config.store.urls, urls({"mysql://me:a@h1/s", "mysql://you@h1:3307/s", "mysql://me@h2/s"}));
}

TEST_F(ConfigEnvironment, TheDescriptionHoldsNoSecret) {
  write("pw", "hunter2\n");
  const auto config = good(
      "broker: { url: \"amqp://me@h\", password_file: pw, management: \"http://a:hunter2@h:15672\" }\n"
      "store: { url: \"mysql://me:hunter2@h/s\" }\n");
  EXPECT_THAT(describe(config), Not(HasSubstr("hunter2")));
}

}  // namespace
}  // namespace rung
