// groups: several Rung groups in one file.
#include "src/core/rules/policy.h"
#include "tests/unit/config/fixture.h"

namespace rung {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kBroker = "broker: { url: \"amqp://guest:guest@127.0.0.1:5672/%2f\" }\n";
// The groups begin in line 3, each in a line.
const std::string kTwo =
    "groups:\n"
    "  eu: { store: { url: \"mysql://u@db/eu\" }, queues: [orders, \"eu.*\"] }\n"
    "  us: { prefix: retries-us, store: { url: \"mysql://u@db/us\" }, queues: [\"*.us\", \"eu.odd\"] }\n";

class ConfigGroups : public ConfigTest {
 protected:
  LoadedConfig chosen(const std::string& text, const GroupChoice& choice,
                      ConfigFor purpose = ConfigFor::sidecar) const {
    return load_config(write("rung.yaml", text), purpose, choice);
  }
  std::vector<std::string> wrong(const std::string& groups, const GroupChoice& choice = {"eu"}) const {
    std::vector<std::string> lines;
    for (const ConfigProblem& problem : chosen(kBroker + groups, choice, ConfigFor::check).problems)
      lines.push_back(std::to_string(problem.line) + ": " + problem.what);
    return lines;
  }
};

TEST_F(ConfigGroups, TheChosenOneIsTheConfig) {
  const LoadedConfig eu = chosen(kBroker + kTwo, {"eu"});
  ASSERT_TRUE(eu.ok()) << eu.problems.front().str();
  EXPECT_EQ(eu.config.broker.prefix, "rung-eu");
  EXPECT_EQ(eu.config.store.urls[0].path, "eu");
  EXPECT_EQ(eu.config.groups.own, "eu");
  EXPECT_EQ(eu.config.groups.names(), "eu, us");
  const LoadedConfig us = chosen(kBroker + kTwo, {"us"});
  EXPECT_EQ(us.config.broker.prefix, "retries-us");
  EXPECT_EQ(us.config.store.urls[0].path, "us");
}

// The password of another group's database need not be known.
TEST_F(ConfigGroups, AFingerprintLeavesOutTheDatabasesOfOtherGroups) {
  const auto of = [&](const std::string& text, const std::string& group) {
    return fingerprint(chosen(kBroker + text, {group}).config);
  };
  std::string changed = kTwo;
  changed.replace(changed.find("u@db/us"), 7, "u:${NOT_SET}@db/us");
  EXPECT_EQ(of(changed, "eu"), of(kTwo, "eu"));
  std::string elsewhere = kTwo;
  elsewhere.replace(elsewhere.find("db/eu"), 5, "dc/eu");
  EXPECT_NE(of(elsewhere, "eu"), of(kTwo, "eu"));
  std::string moved = kTwo;
  moved.replace(moved.find("[orders, "), 9, "[");
  EXPECT_NE(of(moved, "eu"), of(kTwo, "eu"));
  EXPECT_NE(of(moved, "us"), of(kTwo, "us"));
}

TEST_F(ConfigGroups, WithoutGroupsNothingChanges) {
  const Config plain = good(kServers);
  EXPECT_EQ(plain.broker.prefix, "rung");
  EXPECT_TRUE(plain.groups.empty());
  EXPECT_THAT(chosen(kServers, {"eu", "RUNG_GROUP"}).problems.front().what,
              HasSubstr("RUNG_GROUP is \"eu\", but the config has no groups"));
}

TEST_F(ConfigGroups, WhoNeedsOneMustSayWhich) {
  for (const ConfigFor purpose : {ConfigFor::sidecar, ConfigFor::database, ConfigFor::broker}) {
    const auto loaded = chosen(kBroker + kTwo, {}, purpose);
    ASSERT_EQ(loaded.problems.size(), 1u);
    EXPECT_THAT(loaded.problems.front().what, HasSubstr("--group NAME or RUNG_GROUP: eu, us"));
  }
  const auto checked = chosen(kBroker + kTwo, {}, ConfigFor::check);
  EXPECT_TRUE(checked.ok());
  EXPECT_EQ(checked.config.broker.prefix, "");
  EXPECT_THAT(wrong(kTwo, {"ue"}), ElementsAre("0: --group: unknown group \"ue\": available groups: eu, us"));
}

TEST_F(ConfigGroups, AQueueFindsItsGroup) {
  const auto group = [&](const std::string& queue) {
    const auto loaded = chosen(kBroker + kTwo, {"", "", queue}, ConfigFor::database);
    return loaded.ok() ? loaded.config.groups.own : loaded.problems.front().what;
  };
  EXPECT_EQ(group("orders"), "eu");
  EXPECT_EQ(group("a.us"), "us");
  EXPECT_EQ(group("eu.us"), "eu") << "the first of two patterns";
  EXPECT_EQ(group("eu.odd"), "us") << "a plain name goes before a pattern";
  EXPECT_THAT(group("other"), HasSubstr("no group has queue \"other\""));
}

TEST_F(ConfigGroups, WhatMustDifferDiffers) {
  EXPECT_THAT(wrong("groups:\n"
                    "  eu: { store: { url: \"mysql://u@db/eu\" } }\n"
                    "  us: { prefix: rung-eu, store: { url: \"mysql://u@db/us\" } }\n"),
              ElementsAre("4: groups.us.prefix: same prefix as group eu: each group needs its own prefix"));
  EXPECT_THAT(wrong("groups:\n"
                    "  eu: { store: { url: \"mysql://u@db/eu\" } }\n"
                    "  us: { store: { urls: [\"mysql://v@x/eu\", \"mysql://v@db:3306/eu\"] } }\n"),
              ElementsAre("4: groups.us.store.urls: same host, port and schema as group eu: each group needs "
                          "its own database"));
  EXPECT_THAT(wrong("groups:\n"
                    "  eu: { store: { url: \"mysql://u@db/eu\" }, queues: [orders] }\n"
                    "  us: { store: { url: \"mysql://u@db/us\" }, queues: [a, orders] }\n"),
              ElementsAre("4: groups.us.queues: eu has the same entry: a queue belongs to one group"));
}

TEST_F(ConfigGroups, WhatEachHasForItselfIsNotAtTheTop) {
  EXPECT_THAT(wrong("store: { url: \"mysql://u@db/x\", timeout: 5s }\n" + kTwo),
              ElementsAre("2: store.url: each group needs its own: write it as groups.NAME.store.url"));
  const auto prefix = load("broker: { url: \"amqp://h\", prefix: x }\n" + kTwo).problems;
  EXPECT_THAT(prefix.front().what,
              HasSubstr("broker.prefix: each group needs its own: write it as groups.NAME.prefix"));
}

TEST_F(ConfigGroups, AllAreJudgedWhicheverIsChosen) {
  EXPECT_THAT(wrong("groups:\n  eu: { store: { url: \"mysql://u@db/eu\" } }\n  us: { queues: [a] }\n"),
              ElementsAre(HasSubstr("4: groups.us.store.url is missing: write groups.us.store: { url: ")));
  EXPECT_THAT(wrong("groups:\n  eu: { store: { url: \"mysql://u@db/eu\" } }\n"
                    "  us: { store: { url: \"mysql://u@db\" } }\n"),
              ElementsAre(HasSubstr("4: groups.us.store.url: the user or the schema is missing")));
  EXPECT_THAT(wrong("groups:\n  eu: { store: { url: \"mysql://u@db/eu\" }, quues: [a] }\n"),
              ElementsAre("3: groups.eu: unknown key \"quues\": did you mean queues?"));
  EXPECT_THAT(wrong("groups:\n  eu/a: { store: { url: \"mysql://u@db/eu\" } }\n").front(),
              HasSubstr("groups.eu/a"));
}

TEST_F(ConfigGroups, AnotherGroupsSecretsNeedNotBeThere) {
  env("EU_PASSWORD", "p");
  write("us-password", "s3cret\n");
  const std::string text =
      kBroker +
      "groups:\n"
      "  eu: { store: { url: \"mysql://u:${EU_PASSWORD}@db/eu\" }, queues: [orders] }\n"
      "  us: { store: { url: \"mysql://u@db/us\", password_file: us-password } }\n"
      "  jp: { store: { url: \"mysql://u:${JP_PASSWORD}@db/jp\", password_file: none } }\n";
  EXPECT_EQ(chosen(text, {"eu"}).config.store.urls[0].password, "p");
  EXPECT_EQ(chosen(text, {"", "", "orders"}, ConfigFor::database).config.store.urls[0].password, "p");
  EXPECT_EQ(chosen(text, {"us"}).config.store.password_file, path("us-password"));
  const auto jp = chosen(text, {"jp"}).problems;
  ASSERT_EQ(jp.size(), 2u);
  EXPECT_THAT(jp.front().what, HasSubstr("JP_PASSWORD"));
  EXPECT_THAT(jp.back().what, HasSubstr("groups.jp.store.password_file"));
  // rung check judges all.
  EXPECT_THAT(chosen(text, {}, ConfigFor::check).problems.front().what, HasSubstr("JP_PASSWORD"));
}

TEST_F(ConfigGroups, APasswordFileForAllStands) {
  write("password", "s3cret\n");
  const auto loaded = chosen(kBroker + "store: { password_file: password }\n" + kTwo, {"us"});
  ASSERT_TRUE(loaded.ok()) << loaded.problems.front().str();
  EXPECT_EQ(loaded.config.store.password_file, path("password"));
}

TEST_F(ConfigGroups, HttpListensWhereTheGroupSays) {
  const std::string text =
      kBroker +
      "http: { listen: \"127.0.0.1:8025\" }\n"
      "groups:\n"
      "  eu: { store: { url: \"mysql://u@db/eu\" } }\n"
      "  us: { store: { url: \"mysql://u@db/us\" }, http: { listen: \"127.0.0.1:8026\" } }\n";
  EXPECT_EQ(chosen(text, {"eu"}).config.http.listen->port, 8025);
  EXPECT_EQ(chosen(text, {"us"}).config.http.listen->port, 8026);
  std::string open = text;
  open.replace(open.find("127.0.0.1:8026"), 9, "0.0.0.0");
  const auto problems = chosen(open, {"eu"}).problems;
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_THAT(problems.front().what, HasSubstr("groups.us.http.listen: not a loopback address"));
}

TEST_F(ConfigGroups, ADelayedExchangeBelongsToOne) {
  const std::string delays = "delays: [{ from: a, to: b, group: us }, { from: c, to: d, group: eu }]\n";
  EXPECT_EQ(chosen(kBroker + delays + kTwo, {"eu"}).config.delays, (DelayRoutes::Moves{{"c", "d"}}));
  EXPECT_THAT(wrong("delays: [{ from: a, to: b }]\n" + kTwo),
              ElementsAre("2: delays[1].group: set the group that receives these messages: eu, us"));
}

TEST_F(ConfigGroups, EachOnesNamesAreRungsOwn) {
  const Config eu = chosen(kBroker + kTwo, {"eu"}).config;
  const TargetRules& targets = eu.rules->targets();
  EXPECT_FALSE(targets.allows("rung-eu.failed"));
  EXPECT_FALSE(targets.allows("retries-us.failed"));
  EXPECT_TRUE(targets.allows("a.us")) << "what is on its way may come back to a queue that has moved";
  EXPECT_THAT(own_target({"", "retries-us.delay", "x"}, targets), HasSubstr("begins with retries-us."));
  EXPECT_EQ(own_target({"a.us", "", ""}, targets), "");
  EXPECT_EQ(refused_target({"a.us", "", ""}, targets),
            "the queue 'a.us' belongs to the group us, and this is eu: ask that group");
  EXPECT_EQ(refused_target({"", "", "a.us"}, targets), refused_target({"a.us", "", ""}, targets))
      << "the default exchange";
  for (const Target& good : {Target{"orders", "", ""}, {"of no group", "", ""}, {"", "shop", "a.us"}})
    EXPECT_EQ(refused_target(good, targets), "") << good.queue;
  EXPECT_THAT(wrong("tags: { t: { queue: retries-us.delay } }\n" + kTwo),
              ElementsAre(HasSubstr("names that begin with retries-us. are reserved for Rung")));
}

// As those under queues: a queue that a group names needs no place in broker.targets.allow.
TEST_F(ConfigGroups, WhatTheyNameIsConfigured) {
  std::string text = kBroker + kTwo;
  text.insert(text.find(" }"), ", targets: { allow: [] }");
  const Config eu = chosen(text, {"eu"}).config;
  const TargetRules& targets = eu.rules->targets();
  EXPECT_TRUE(targets.allows("orders"));
  EXPECT_TRUE(targets.allows("eu.odd")) << "it may have moved to us with retries under way";
  EXPECT_FALSE(targets.allows("eu.x")) << "a pattern names nothing";
}

TEST_F(ConfigGroups, CheckShowsThem) {
  const std::string text = describe(
      chosen(kBroker + "queues: { orders: { parked: publish }, lost: {} }\n" + kTwo, {}, ConfigFor::check)
          .config);
  EXPECT_THAT(text, HasSubstr("groups\n"
                              "  group  prefix      queues\n"
                              "  eu     rung-eu     orders, eu.*\n"
                              "  us     retries-us  *.us, eu.odd\n"));
  EXPECT_THAT(text, HasSubstr("  lost         none   default"));
  EXPECT_THAT(text, HasSubstr("publish to PREFIX.parked"));
}

}  // namespace
}  // namespace rung
