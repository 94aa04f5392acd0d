// A config that has only the API of an instance.
#include "tests/unit/config/fixture.h"

namespace rung {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ConfigOfAnApi : public ConfigTest {
 protected:
  LoadedConfig load_for(ConfigFor purpose, const std::string& text) const {
    return load_config(write("rung.yaml", text), purpose);
  }
  std::string first_problem(const std::string& text) const {
    const LoadedConfig loaded = load_for(ConfigFor::check, text);
    return loaded.problems.empty() ? "" : loaded.problems.front().what;
  }
};

TEST_F(ConfigOfAnApi, IsEnoughForCommandsThatUseIt) {
  write("token", "geheim");
  write("ca.pem", "pem");
  const std::string text = "api: { url: \"https://rung.example:8025\", token_file: token, ca: ca.pem }\n";
  const LoadedConfig loaded = load_for(ConfigFor::api, text);
  EXPECT_THAT(loaded.problems, IsEmpty());
  EXPECT_EQ(loaded.config.api.url, "https://rung.example:8025");
  EXPECT_EQ(loaded.config.api.token_file, path("token"));
  EXPECT_EQ(loaded.config.api.ca, path("ca.pem"));
  EXPECT_THAT(load_for(ConfigFor::check, text).problems, IsEmpty());
  EXPECT_THAT(describe(loaded.config),
              ::testing::AllOf(HasSubstr("api: https://rung.example:8025, token in " + path("token")),
                               HasSubstr("verified by " + path("ca.pem")), HasSubstr("work over HTTP")));
}

TEST_F(ConfigOfAnApi, IsNotEnoughForOthers) {
  for (const ConfigFor purpose :
       {ConfigFor::sidecar, ConfigFor::database, ConfigFor::broker, ConfigFor::health}) {
    const LoadedConfig loaded = load_for(purpose, "api: { url: \"https://h\" }\n");
    ASSERT_EQ(loaded.problems.size(), 1U);
    EXPECT_EQ(loaded.problems[0].what, kOnlyApi);
  }
}

TEST_F(ConfigOfAnApi, HasNothingElse) {
  const std::string text = "api: { url: \"https://h\" }\n" + kServers + "http: { listen: \"127.0.0.1:1\" }\n";
  std::vector<std::string> what;
  for (const ConfigProblem& problem : load_for(ConfigFor::api, text).problems)
    what.push_back(problem.what.substr(0, problem.what.find(':')));
  EXPECT_THAT(what, ElementsAre("broker", "store", "http"));
}

TEST_F(ConfigOfAnApi, WhatIsWrongIsSaid) {
  EXPECT_THAT(first_problem("api: { ca: ca.pem }\n"), HasSubstr("api.url is missing"));
  EXPECT_THAT(first_problem("api: { url: \"mysql://h\" }\n"), HasSubstr("api.url"));
  EXPECT_THAT(first_problem("api: { url: \"https://ann:pw@h\" }\n"), HasSubstr("api.token_file"));
  EXPECT_THAT(first_problem("api: { url: \"https://h?a=b\" }\n"), HasSubstr("?query in the URL"));
  write("ca.pem", "pem");
  EXPECT_THAT(first_problem("api: { url: \"http://h\", ca: ca.pem }\n"),
              HasSubstr("api.ca: only with https"));
  EXPECT_THAT(first_problem("api: { url: \"https://h\", tokenfile: x }\n"), HasSubstr("token_file"));
  EXPECT_THAT(
      load_for(ConfigFor::api, "api: { url: \"https://h\", token_file: none }\n").problems.front().what,
      HasSubstr("none\" cannot be read"));
}

TEST_F(ConfigOfAnApi, ATokenIsNotSentInPlainText) {
  write("token", "geheim");
  const auto with_token = [&](const std::string& url) {
    return first_problem("api: { url: \"" + url + "\", token_file: token }\n");
  };
  for (const char* url : {"http://127.0.0.1:8025", "http://localhost", "http://[::1]:8025", "https://h"})
    EXPECT_EQ(with_token(url), "") << url;
  for (const char* url : {"http://rung.example:8025", "http://127.example", "http://127.0.0.1.example"})
    EXPECT_THAT(with_token(url), HasSubstr("would send the token in plain text: use https://")) << url;
}

TEST_F(ConfigOfAnApi, PlainHttpElsewhereIsWarnedOf) {
  const auto warnings = [&](const std::string& url) {
    return load_for(ConfigFor::check, "api: { url: \"" + url + "\" }\n").warnings;
  };
  EXPECT_THAT(warnings("http://127.0.0.1:8025"), IsEmpty());
  EXPECT_THAT(warnings("https://rung.example"), IsEmpty());
  const auto plain = warnings("http://rung.example:8025");
  ASSERT_EQ(plain.size(), 1U);
  EXPECT_THAT(plain[0].what, HasSubstr("sends everything in plain text"));
}

}  // namespace
}  // namespace rung
