// The key table, examples/full.yaml and docs/configuration.md say the same.
#include <map>
#include <set>
#include <sstream>

#include "src/config/load.h"
#include "tests/support/snapshot.h"
#include "tests/unit/config/fixture.h"

namespace rung {
namespace {

using ConfigKeys = ConfigTest;

// How a row of the reference begins, without what the key means.
std::string row(const confile::Key& key) {
  const std::string fallback = key.fallback.empty() ? "" : "; `" + key.fallback + "`";
  return "| `" + key.path + "` | " + key.type + fallback +
         (key.when == confile::When::secret ? " (secret)" : "");
}

// The rows of the table that have read a node, or one below it.
std::set<std::string_view> keys_of(const confile::Node& node) {
  std::set<std::string_view> all;
  if (node.row != nullptr) all.insert(node.row->path);
  for (const auto& [key, value] : node.entries) all.merge(keys_of(value));
  for (const auto& item : node.items) all.merge(keys_of(item));
  return all;
}

std::set<std::string_view> keys_in(const std::string& text) {
  confile::Problems problems("");
  confile::Load load{problems};
  load.root = confile::parse_document(text, problems).value();
  confile::walk(load);
  return keys_of(load.root);
}

// Every key that does not reload asks for a restart, whatever it is; and only such a key.
TEST_F(ConfigKeys, ThoseThatDifferAndNeedARestartAreNamed) {
  const auto changed = [&](const std::string& before, const std::string& after) {
    const LoadedConfig one = load(kServers + before), other = load(kServers + after);
    EXPECT_THAT(one.problems, testing::IsEmpty());
    EXPECT_THAT(other.problems, testing::IsEmpty());
    return keys_for_restart(one.config, other.config);
  };
  using testing::ElementsAre;
  EXPECT_THAT(changed("lease: 9s\n", "lease: 9s\n"), testing::IsEmpty());
  EXPECT_THAT(changed("", "lease: 10s\n"), testing::IsEmpty()) << "the default";
  EXPECT_THAT(changed("lease: 9s\n", ""), ElementsAre("lease"));
  EXPECT_THAT(changed("", "drain: 3s\nindex_headers: [tenant]\n"), ElementsAre("drain", "index_headers"));
  EXPECT_THAT(changed("otel: { endpoint: \"http://one:4318\", headers: { a: b } }\n",
                      "otel: { endpoint: \"http://two:4318\", headers: { a: c }, sample: 0.5 }\n"),
              ElementsAre("otel.endpoint", "otel.headers", "otel.sample"));
  EXPECT_THAT(changed("error_queues: [ { from: a, to: x } ]\n",
                      "error_queues: [ { from: a, to: y, ladder: none }, { from: b, to: x } ]\n"),
              ElementsAre("error_queues[1].to", "error_queues[2].from", "error_queues[2].to"));
  EXPECT_THAT(changed("",
                      "catch_up: 7\nqueues: { orders: { ladder: fast } }\nladders: { fast: [1s] }\n"
                      "log: { level: debug }\n"),
              testing::IsEmpty());
}

TEST_F(ConfigKeys, WhatMayHoldAPasswordIsSecret) {
  std::set<std::string_view> secret;
  for (const auto& key : confile::config_table().keys) {
    if (key.when == confile::When::secret) secret.insert(key.path);
  }
  EXPECT_EQ(secret, (std::set<std::string_view>{"broker.url", "broker.urls", "broker.management", "store.url",
                                                "store.urls", "groups.*.store.url", "groups.*.store.urls",
                                                "otel.headers"}));
}

TEST_F(ConfigKeys, TheFallbacksOfTheTableAreThoseOfTheProgram) {
  // Each fallback written out gives the config that leaving it out gives.
  const Config plain = good(kServers + "node: n\n");
  std::string text = "node: n\n";
  std::map<std::string, std::string> sections{{"broker", "url: \"amqp://guest:guest@127.0.0.1:5672/%2f\""},
                                              {"store", "url: \"mysql://rung:secret@127.0.0.1:3306/rung\""}};
  for (const auto& key : confile::config_table().keys) {
    if (key.fallback.empty() || key.path.find('*') != std::string_view::npos) continue;
    if (key.path == "broker.verify_host") continue;   // means nothing without amqps://
    if (key.path.starts_with("defaults.")) continue;  // below
    const auto dot = key.path.find('.');
    const std::string line = std::string(key.path.substr(dot == std::string_view::npos ? 0 : dot + 1)) +
                             ": " + std::string(key.fallback);
    if (dot == std::string_view::npos) {
      text += line + "\n";
    } else {
      std::string& section = sections[std::string(key.path.substr(0, dot))];
      section += (section.empty() ? "" : ", ") + line;
    }
  }
  for (const auto& [name, lines] : sections) text += name + ": { " + lines + " }\n";
  text += "defaults: { ladder: default, success: { presumed_after: 10m }, catch_up: 1000, parked: keep }\n";
  const Config spelled = good(text);
  EXPECT_THAT(keys_for_restart(plain, spelled), testing::IsEmpty());
  // What the table says is what the members begin with.
  EXPECT_EQ(spelled.broker.prefix, plain.broker.prefix);
  EXPECT_EQ(spelled.broker.prefetch, plain.broker.prefetch);
  EXPECT_EQ(spelled.broker.max_unconfirmed, plain.broker.max_unconfirmed);
  EXPECT_EQ(spelled.broker.heartbeat, plain.broker.heartbeat);
  EXPECT_EQ(spelled.broker.rabbitmq.queue_type, plain.broker.rabbitmq.queue_type);
  EXPECT_EQ(spelled.require_token, plain.require_token);
  EXPECT_EQ(spelled.store.tls, plain.store.tls);
  EXPECT_EQ(spelled.store.migrate, plain.store.migrate);
  EXPECT_EQ(spelled.store.connections, plain.store.connections);
  EXPECT_EQ(spelled.store.timeout, plain.store.timeout);
  EXPECT_EQ(spelled.lease, plain.lease);
  EXPECT_EQ(spelled.window, plain.window);
  EXPECT_EQ(spelled.drain, plain.drain);
  EXPECT_EQ(spelled.start_wait, plain.start_wait);
  EXPECT_EQ(spelled.max_loaded, plain.max_loaded);
  EXPECT_EQ(spelled.retention, plain.retention);
  EXPECT_EQ(spelled.http.connections, plain.http.connections);
  EXPECT_EQ(spelled.http.connections_per_address, plain.http.connections_per_address);
  EXPECT_EQ(spelled.http.max_body, plain.http.max_body);
  EXPECT_EQ(spelled.http.timeout, plain.http.timeout);
  EXPECT_EQ(spelled.otel.service, plain.otel.service);
  EXPECT_EQ(spelled.otel.verify, plain.otel.verify);
  EXPECT_EQ(spelled.otel.sample, plain.otel.sample);
  EXPECT_EQ(spelled.log.level, plain.log.level);
  EXPECT_EQ(spelled.log.format, plain.log.format);
  EXPECT_EQ(spelled.rules->queue("x"), plain.rules->queue("x"));
  EXPECT_EQ(spelled.rules->queue("x"), QueueRules{});
}

TEST_F(ConfigKeys, FullYamlHoldsEveryKeyAndLoads) {
  // Its files stand in /etc/rung; here in this test's folder.
  std::string text = test::text_of_file(RUNG_SOURCE_DIR "/examples/full.yaml");
  const std::string etc = "/etc/rung/";
  for (auto at = text.find(etc); at != std::string::npos; at = text.find(etc, at))
    text.replace(at, etc.size(), path(""));
  for (const auto* file :
       {"broker-ca.pem", "broker-cert.pem", "broker-key.pem", "store-ca.pem", "store-cert.pem",
        "store-key.pem", "http.pem", "http-key.pem", "id-ca.pem", "otel-ca.pem"})
    write(file, "pem");
  for (const auto* file : {"broker-password", "store-password", "token", "oidc-secret"})
    write(file, "geheim\n");
  write("my-dialect.yaml", "name: mine\n");
  write("read-token", "public\n");
  write("tokens.yaml", test::text_of_file(RUNG_SOURCE_DIR "/examples/tokens.yaml"));
  env("RUNG_DEPLOY_TOKEN", "a-token-for-this-test");
  env("RUNG_STORE_HOST", "db.example.com");
  env("RUNG_OTEL_TOKEN", "geheim");
  const auto loaded = load(text);
  for (const auto& problem : loaded.problems) ADD_FAILURE() << problem.str();
  std::set<std::string_view> used = keys_in(text);
  for (const char* of_a_grant : {"role", "queues"}) used.erase(of_a_grant);  // in a table of their own
  used.insert("defaults.success.reported_within");  // excludes presumed_after beside it: a comment has it
  used.insert({"broker.urls", "store.urls"});       // exclude url beside them: comments have them
  // Exclude store.url: a comment has them.
  used.insert({"groups.*.prefix", "groups.*.queues", "groups.*.store.url", "groups.*.store.urls",
               "groups.*.store.password_file", "groups.*.http.listen", "delays.*.group",
               "error_queues.*.group"});
  used.insert({"api.url", "api.token_file", "api.ca"});  // exclude everything: a comment has them
  for (const auto& key : confile::config_table().keys)
    EXPECT_TRUE(used.contains(key.path)) << key.path << " is not in examples/full.yaml";
  EXPECT_EQ(used.size(), confile::config_table().keys.size());
  EXPECT_EQ(loaded.config.store.urls[0].host, "db.example.com");
  // The comment is right, too: without its marks, and without what it excludes.
  const auto begin = text.find("#   groups:\n"), end = text.find("\n\n", begin);
  ASSERT_NE(begin, std::string::npos);
  std::string groups = "broker: { url: \"amqp://h\" }\n";
  std::istringstream marked(text.substr(begin, end - begin));
  for (std::string line; std::getline(marked, line);)
    groups += line.substr(std::string("#   ").size()) + "\n";
  const auto of_groups = load_config(write("groups.yaml", groups), ConfigFor::sidecar, {"eu"});
  for (const auto& problem : of_groups.problems) ADD_FAILURE() << problem.str() << "\n" << groups;
  EXPECT_EQ(keys_in(groups).size(), 13U) << groups;
  std::string api_text = test::text_of_file(RUNG_SOURCE_DIR "/examples/api.yaml");
  for (auto at = api_text.find(etc); at != std::string::npos; at = api_text.find(etc, at))
    api_text.replace(at, etc.size(), path(""));
  write("my-token", "geheim");
  write("rung-ca.pem", "pem");
  const auto of_api = load_config(write("api.yaml", api_text), ConfigFor::api);
  for (const auto& problem : of_api.problems) ADD_FAILURE() << problem.str();
  EXPECT_EQ(keys_in(api_text).size(), 3U);
  // Every key has its explanation: a comment on its line or on the one above it or its section.
  std::istringstream lines(text);
  std::string line, before = "#";
  while (std::getline(lines, line)) {
    if (line.find_first_not_of(' ') == std::string::npos) continue;
    EXPECT_TRUE(line.find('#') != std::string::npos || before.find_first_not_of(' ') == before.find('#'))
        << line;
    before = line;
  }
}

TEST_F(ConfigKeys, TheReferenceHoldsTheTable) {
  const std::string text = test::text_of_file(RUNG_SOURCE_DIR "/docs/configuration.md");
  std::vector<std::string> wanted, found;
  for (const bool reloadable : {false, true}) {
    for (const auto& key : confile::config_table().keys) {
      // The defaults have the keys of queues: the page says so once.
      if ((key.when == confile::When::live) == reloadable && !key.path.starts_with("defaults."))
        wanted.push_back(row(key));
    }
  }
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| `")) continue;
    const std::size_t meaning = line.find(" | ", line.find(" | ") + 3);
    found.push_back(line.substr(0, meaning) + (line.ends_with(" (secret) |") ? " (secret)" : ""));
    EXPECT_GE(line.size(), meaning + 10) << line;
  }
  std::string whole;
  for (const auto& line : wanted) whole += line + "\n";
  EXPECT_EQ(found, wanted) << "the rows of docs/configuration.md should begin with:\n" << whole;
}

}  // namespace
}  // namespace rung
