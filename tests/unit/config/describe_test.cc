// `rung check`, to the letter.
#include "tests/unit/config/fixture.h"

namespace rung {
namespace {

using testing::HasSubstr;

class ConfigDescription : public ConfigTest {};

TEST_F(ConfigDescription, OfJitterQueuesAndTheirSilence) {
  EXPECT_EQ(describe(good("broker: { url: \"amqp://h\", prefix: shop }\n"
                          "store: { url: \"mysql://u:p@h/s\" }\n"
                          "ladders:\n"
                          "  default: [5s]\n"
                          "  spread: { base: 10s, factor: 10, levels: 3, jitter: 20% }\n"
                          "queues:\n"
                          "  größe: { ladder: spread, parked: publish }\n"
                          "  invoices: { success: { reported_within: 5m } }\n")),
            "ladder default: 1 level\n"
            "  level  delay  since first failure\n"
            "      1     5s                   5s\n"
            "\nladder spread: 3 levels, jitter 20%\n"
            "  level   delay  at most  since first failure  at most\n"
            "      1     10s      12s                  10s      12s\n"
            "      2   1m40s       2m                1m50s    2m12s\n"
            "      3  16m40s      20m               18m30s   22m12s\n"
            "\nqueues\n"
            "  queue        ladder   silence after a retry  parked\n"
            "  größe        spread   succeeded after 10m    publish to shop.parked\n"
            "  invoices     default  failed after 5m        keep\n"
            "  (any other)  default  succeeded after 10m    keep\n"
            "\ntargets: message headers may name any queue or exchange; "
            "broker.targets.allow restricts this\n"
            "results: retry-token is required\n");
}

TEST_F(ConfigDescription, OfDelays) {
  const auto text = describe(good(kServers + "delays: [{ from: my-delayed, to: my-exchange }]\n"
                                             "tags: { close-order: { queue: orders, ladder: quick } }\n"));
  EXPECT_THAT(text, HasSubstr("ladder quick: 5 levels\n"));
  EXPECT_THAT(text, HasSubstr("\ndelayed exchanges\n"
                              "  published to  forwarded to\n"
                              "  my-delayed    my-exchange\n"));
}

TEST_F(ConfigDescription, LetsNoControlCharacterThrough) {
  EXPECT_THAT(describe(good(kServers + "queues: { \"a\\e[31m\": {} }\n")), HasSubstr("  a\\x1b[31m  "));
}

}  // namespace
}  // namespace rung
