// What concerns who may do what: targets, tokens, the rights of files; and the rules of all other queues.
#include "tests/unit/config/fixture.h"

namespace rung {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

class ConfigSecurity : public ConfigTest {
 protected:
  std::vector<std::string> warnings(const std::string& text, fs::perms mode = fs::perms{0600},
                                    ConfigFor purpose = ConfigFor::check) const {
    const std::string file = write("rung.yaml", text);
    fs::permissions(file, mode);
    std::vector<std::string> lines;
    for (const ConfigProblem& warning : load_config(file, purpose).warnings) lines.push_back(warning.what);
    return lines;
  }
};

TEST_F(ConfigSecurity, TargetsThatHeadersMayName) {
  const Config config = good(
      "broker: { url: \"amqp://u:p@h\", targets: { allow: [\"billing.*\"], deny: [billing.internal] } }\n"
      "store: { url: \"mysql://u:p@h/s\" }\n"
      "queues: { orders: {} }\n"
      "tags: { remind: { exchange: shop } }\n"
      "delays: [{ from: my-delayed, to: my-exchange }]\n");
  const TargetRules& targets = config.rules->targets();
  for (const char* name : {"orders", "shop", "my-exchange", "billing.eu"})
    EXPECT_TRUE(targets.allows(name)) << name;
  for (const char* name : {"billing.internal", "my-delayed", "other", "rung.failed", "amq.topic"})
    EXPECT_FALSE(targets.allows(name)) << name;
  EXPECT_TRUE(good(kServers).rules->targets().allows("other"));
  EXPECT_FALSE(good(kServers).rules->targets().allows("rung.delay"));
}

TEST_F(ConfigSecurity, RequireToken) {
  EXPECT_TRUE(good(kServers).require_token);
  EXPECT_FALSE(good(kServers + "results: { require_token: false }\n").require_token);
}

TEST_F(ConfigSecurity, APasswordInAFileThatOthersMayRead) {
  EXPECT_THAT(warnings(kServers), IsEmpty());
  EXPECT_THAT(warnings(kServers, fs::perms{0640}), IsEmpty());
  EXPECT_THAT(warnings(kServers, fs::perms{0644}),
              ElementsAre(AllOf(HasSubstr("broker.url contains a password"),
                                HasSubstr("(mode 0644): chmod 640"), HasSubstr(path("rung.yaml")))));
  EXPECT_THAT(warnings(kServers, fs::perms{0644}, ConfigFor::database), IsEmpty());
  env("RUNG_AMQP", "amqp://u:p@h");
  env("RUNG_MYSQL", "mysql://u:p@h/s");
  EXPECT_THAT(
      warnings("broker: { url: \"${RUNG_AMQP}\" }\nstore: { url: \"${RUNG_MYSQL}\" }\n", fs::perms{0644}),
      IsEmpty());
}

TEST_F(ConfigSecurity, SecretFilesThatOthersMayRead) {
  const std::string secret = write("secret", "abcdefghijklmnop\n"),
                    people = write("people", "- { name: a, role: admin, token: ponmlkjihgfedcba }\n");
  const std::pair<std::string, std::string> texts[] = {
      {"http.token_file", kServers + "http: { token_file: secret }\n"},
      {"http.tokens_file", kServers + "http: { tokens_file: people }\n"},
      {"api.token_file", "api: { url: \"https://h\", token_file: secret }\n"},
      // Once, though two keys name it.
      {"broker.password_file",
       "broker: { url: \"amqp://u@h\", password_file: secret }\n"
       "store: { url: \"mysql://u@h/s\", password_file: secret }\n"}};
  for (const auto& [key, text] : texts) {
    const std::string& file = key == "http.tokens_file" ? people : secret;
    fs::permissions(file, fs::perms{0640});
    EXPECT_THAT(warnings(text), IsEmpty()) << key;
    fs::permissions(file, fs::perms{0604});
    EXPECT_THAT(warnings(text),
                ElementsAre(AllOf(HasSubstr(key + " is secret"), HasSubstr("every user of this machine"),
                                  HasSubstr("chmod 640 " + file))))
        << key;
  }
}

TEST_F(ConfigSecurity, AQueueNamedDefault) {
  const std::string queues =
      "queues: { default: { ladder: quick, success: { reported_within: 3m } }, other: {} }\n";
  // The old spelling: what holds for all others.
  const Config old = good(kServers + queues);
  EXPECT_EQ(old.rules->queue("nobody named it").ladder, "quick");
  EXPECT_EQ(old.rules->queue("other").ladder, "quick");
  EXPECT_FALSE(old.rules->queues().contains("default"));
  EXPECT_THAT(warnings(kServers + queues), ElementsAre(HasSubstr("queues.default is deprecated:")));
  // Beside defaults: a queue of that name.
  const std::string with_defaults = kServers + "defaults: { ladder: patient }\n" + queues;
  const Config config = good(with_defaults);
  EXPECT_EQ(config.rules->queue("nobody named it"), config.rules->defaults());
  EXPECT_EQ(config.rules->defaults().ladder, "patient");
  EXPECT_EQ(config.rules->queue("other").ladder, "patient");
  EXPECT_EQ(config.rules->queue("default").ladder, "quick");
  EXPECT_EQ(config.rules->queue("default").silence.after, Ms{180'000});
  EXPECT_THAT(warnings(with_defaults), IsEmpty());
  EXPECT_THAT(describe(config), HasSubstr("\n  default      quick    failed after 3m"));
}

TEST_F(ConfigSecurity, DefaultsHoldWhatAQueueHolds) {
  const QueueRules rules =
      good(kServers +
           "defaults: { ladder: quick, success: { reported_within: 3m }, catch_up: 7, parked: publish }\n")
          .rules->queue("any");
  EXPECT_EQ(rules, (QueueRules{"quick", {Silence::Means::failure, Ms{180'000}}, true, 7}));
}

}  // namespace
}  // namespace rung
