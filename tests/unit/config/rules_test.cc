// From the file to the values that the other rooms use.
#include <unistd.h>

#include "levels/ready.h"
#include "tests/unit/config/fixture.h"

namespace rung {
namespace {

using testing::HasSubstr;

class ConfigRules : public ConfigTest {
 protected:
  RuleBookPtr rules(const std::string& text) const { return good(kServers + text).rules; }
};

std::string delays(const levels::Ladder* ladder) {
  if (ladder == nullptr) return "none";
  std::string out;
  for (int level = 1; level <= ladder->levels(); ++level)
    out += (level > 1 ? " " : "") + levels::format_duration(ladder->delay(level));
  if (ladder->jitter() > 0) out += " ~" + std::to_string(ladder->jitter()).substr(0, 4);
  return out;
}

// To the letter.
const std::string kContractsExample =
    R"(broker: { url: "amqp://guest:guest@127.0.0.1:5672/%2f" }     # amqps:// with ca, cert, key
store:  { url: "mysql://rung:secret@127.0.0.1:3306/rung" }   # tls options; password_file
http:   { listen: "127.0.0.1:8025", token_file: /etc/rung/token }
node:   sidecar-1            # this instance's name; the host's name where it is left out
lease:  10s                  # a dead instance is taken over after this
window: 10m                  # the horizon held in memory
drain:  10s                  # the longest that SIGTERM may take
log:    { level: info, format: text }                         # or json
ladders:
  default: [5s, 30s, 1m, 10m, 30m, 1h, 6h, 1d, 2d]
  webhook: { base: 10s, factor: 2, max: 1h, levels: 12, jitter: 20% }
queues:
  orders:
    ladder: default
    success: { presumed_after: 10m }       # silence means success
  invoices:
    ladder: webhook
    success: { reported_within: 5m }       # silence means failure: next level
)";

TEST_F(ConfigRules, FilesAreLookedAtByThoseWhoNeedThem) {
  const std::string file =
      write("rung.yaml",
            "broker: { url: \"amqps://u@h/%2f\", password_file: no, ca: no, cert: no, key: no }\n"
            "store: { url: \"mysql://u@h/s\", password_file: no, tls: verify, ca: no }\n"
            "http: { listen: \"0.0.0.0:1\", token_file: no, cert: no, key: no }\n");
  EXPECT_EQ(load_config(file).problems.size(), 9u);
  EXPECT_EQ(load_config(file, ConfigFor::database).problems.size(), 2u);
  EXPECT_EQ(load_config(file, ConfigFor::broker).problems.size(), 4u);
  EXPECT_EQ(load_config(file, ConfigFor::check).problems.size(), 0u);
  EXPECT_EQ(load_config(file, ConfigFor::check).warnings.size(), 9u);
  // What is there is judged.
  write("no", "\n");
  EXPECT_EQ(load_config(file, ConfigFor::check).problems.size(), 3u) << "no password, no password, no token";
}

TEST_F(ConfigRules, TheContractsExampleLoads) {
  const std::string token = write("token", "geheim\n");
  std::string text = kContractsExample;
  const std::string_view theirs = "/etc/rung/token";
  text.replace(text.find(theirs), theirs.size(), token);
  const auto config = good(text);
  EXPECT_EQ(config.node, "sidecar-1");
  EXPECT_EQ(config.http.listen->host_port(0), "127.0.0.1:8025");
  EXPECT_EQ(config.http.tokens, std::vector<std::string>{"geheim"});
  EXPECT_EQ(delays(config.rules->ladder("default")), "5s 30s 1m 10m 30m 1h 6h 1d 2d");
  EXPECT_EQ(delays(config.rules->ladder("webhook")),
            "10s 20s 40s 1m20s 2m40s 5m20s 10m40s 21m20s 42m40s 1h 1h 1h ~0.20");
  EXPECT_EQ(config.rules->queue("orders"),
            (QueueRules{"default", {Silence::Means::success, Ms{600'000}}, false}));
  EXPECT_EQ(config.rules->queue("invoices"),
            (QueueRules{"webhook", {Silence::Means::failure, Ms{300'000}}, false}));
  EXPECT_EQ(config.rules->queue("another"), QueueRules{});
}

TEST_F(ConfigRules, TheHeartbeatFollowsAShortLease) {
  EXPECT_EQ(good(kServers + "lease: 2s500ms\n").broker.heartbeat, Ms{2000});
  EXPECT_EQ(good(kServers + "lease: 1m\n").broker.heartbeat, Ms{10'000});
}

TEST_F(ConfigRules, AllFormsOfALadder) {
  const auto book = rules(
      "ladders:\n"
      "  list: [1s, 2s]\n"
      "  shaken: { levels: [1s, 2s], jitter: 10% }\n"
      "  still: { levels: [1s, 2s], jitter: off }\n"
      "  grown: { base: 1s, levels: 4 }\n"
      "  half: { base: 100ms, factor: 1.5, max: 200ms, levels: 4, jitter: 100% }\n"
      "  block:\n"
      "    - 1s\n"
      "    - 1m30s\n");
  EXPECT_EQ(delays(book->ladder("list")), "1s 2s");
  EXPECT_EQ(delays(book->ladder("shaken")), "1s 2s ~0.10");
  EXPECT_EQ(delays(book->ladder("still")), "1s 2s");
  EXPECT_EQ(delays(book->ladder("grown")), "1s 2s 4s 8s");
  EXPECT_EQ(delays(book->ladder("half")), "100ms 150ms 200ms 200ms ~1.00");
  EXPECT_EQ(delays(book->ladder("block")), "1s 1m30s");
  EXPECT_EQ(book->ladder("nobody"), nullptr);
}

TEST_F(ConfigRules, ReadyLaddersNeedNoSpelling) {
  const auto book = rules("queues: { a: { ladder: patient } }\n");
  EXPECT_EQ(book->queue("a").ladder, "patient");
  EXPECT_EQ(delays(book->ladder("default")), "5s 30s 1m 10m 30m 1h 6h 1d 2d");
  EXPECT_EQ(delays(book->ladder("webhook")),
            "10s 20s 40s 1m20s 2m40s 5m20s 10m40s 21m20s 42m40s 1h 1h 1h ~0.20");
  EXPECT_EQ(delays(book->ladder("patient")), "1m 10m 1h 6h 12h 1d 2d 4d 7d ~0.10");
  EXPECT_EQ(delays(book->ladder("quick")), "1s 2s 5s 10s 30s");
  for (const auto& ready : levels::ready_ladders())
    EXPECT_NE(book->ladder(ready.name), nullptr) << ready.name;
  // The file's own goes before.
  EXPECT_EQ(delays(rules("ladders: { quick: [7s] }\n")->ladder("quick")), "7s");
  EXPECT_EQ(delays(rules("ladders: { default: [7s] }\n")->ladder("default")), "7s");
}

TEST_F(ConfigRules, ParkedAtTheTopHoldsForEveryQueue) {
  const auto book =
      rules("parked: publish\ncatch_up: 50\nqueues: { a: {}, b: { parked: keep, catch_up: 7 } }\n");
  EXPECT_EQ(book->queue("a").catch_up, 50);
  EXPECT_EQ(book->queue("b").catch_up, 7);
  EXPECT_EQ(book->queue("nobody named it").catch_up, 50);
  EXPECT_TRUE(book->queue("a").publish_parked);
  EXPECT_FALSE(book->queue("b").publish_parked);
  EXPECT_TRUE(book->queue("nobody named it").publish_parked);
  EXPECT_EQ(book->queue("nobody named it").ladder, "default");
}

TEST_F(ConfigRules, TagsSayWhereTheirTasksGo) {
  const auto book = rules(
      "ladders: { own: [7s] }\n"
      "tags:\n"
      "  close-order: { queue: orders, ladder: own, success: { reported_within: 1m } }\n"
      "  remind: { exchange: shop, routing_key: reminders, success: { presumed_after: 2m } }\n"
      "  only-exchange: { exchange: shop }\n"
      "  only-ladder: { ladder: quick }\n"
      "  empty:\n");
  ASSERT_NE(book->tag("close-order"), nullptr);
  EXPECT_EQ(*book->tag("close-order"),
            (TagRules{{"orders", "", ""}, "own", Silence{Silence::Means::failure, Ms{60'000}}}));
  EXPECT_EQ(*book->tag("remind"),
            (TagRules{{"", "shop", "reminders"}, "", Silence{Silence::Means::success, Ms{120'000}}}));
  EXPECT_EQ(*book->tag("only-exchange"), (TagRules{{"", "shop", ""}, "", {}}));
  EXPECT_EQ(*book->tag("only-ladder"), (TagRules{{}, "quick", {}}));
  EXPECT_EQ(*book->tag("empty"), TagRules{});
  EXPECT_EQ(book->tag("nobody"), nullptr);
}

TEST_F(ConfigRules, DelaysNameExchanges) {
  const auto config =
      good(kServers +
           "delays:\n  - { from: my-delayed, to: my-exchange }\n  - from: \"a b\"\n    to: amq.topic\n");
  EXPECT_EQ(config.delays, (DelayRoutes::Moves{{"my-delayed", "my-exchange"}, {"a b", "amq.topic"}}));
  EXPECT_EQ(config.broker.rabbitmq.delay_exchanges, (std::vector<std::string>{"a b", "my-delayed"}));
  const auto none = good(kServers + "delays: []\n");
  EXPECT_TRUE(none.delays.empty());
  EXPECT_TRUE(good(kServers + "delays:\ntags:\n").delays.empty());
}

TEST_F(ConfigRules, QueuesMayHaveEveryLegalName) {
  const auto book = rules(
      "queues:\n  \"ö a.b*#/${x}\": { ladder: quick }\n  42: { ladder: patient }\n  \"[*]\": { ladder: "
      "webhook }\n");
  EXPECT_EQ(book->queue("ö a.b*#/${x}").ladder, "quick");
  EXPECT_EQ(book->queue("42").ladder, "patient");
  EXPECT_EQ(book->queue("*").ladder, "webhook");
  EXPECT_EQ(book->queue("x").ladder, "default") << "a * alone would be a pattern";
  EXPECT_THAT(problem("queues:\n  " + std::string(256, 'q') + ": {}\n"),
              HasSubstr("at most 255 bytes are allowed"));
}

TEST_F(ConfigRules, RelativeFilesStandBesideTheConfig) {
  write("ca.pem", "x");
  const auto config = good(
      "broker: { url: \"amqps://h\", ca: ca.pem }\nstore: { url: \"mysql://u:p@h/s\", tls: verify, ca: " +
      path("ca.pem") + " }\n");
  EXPECT_EQ(config.broker.ca, path("ca.pem"));
  EXPECT_EQ(config.store.ca, path("ca.pem"));
}

}  // namespace
}  // namespace rung
