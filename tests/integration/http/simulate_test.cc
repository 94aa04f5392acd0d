// /v1/simulate: what the rules would decide (Explain in tests/unit/api); the same as by `rung check
// --explain`.
#include "tests/integration/http/fixture.h"

namespace rung::test {
namespace {

class HttpSimulate : public HttpTest {
 protected:
  HttpSimulate() {
    config.ladder = "[5s, 1h]";
    config.queue("orders", "{ rules: web, gate: { rate: 200/s } }");
    other_keys =
        "rules:\n"
        "  web:\n"
        "    - { when: { error: \"/HTTP 429/\", header: { tenant: acme } }, then: { snooze: 1m } }\n"
        "    - { when: { type: HttpError }, then: park }\n";
    listen("");
  }
  json simulate(const json& failure) {
    const HttpAnswer answer = post("/v1/simulate", failure);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.json();
  }
};

TEST_F(HttpSimulate, WhatTheRulesDecideAndTheGateOfTheQueue) {
  up();
  const json climbs = simulate({{"queue", "orders"}, {"error", "boom"}, {"attempt", 1}});
  EXPECT_EQ(climbs.at("level"), 2);
  EXPECT_EQ(climbs.at("gate"), nullptr);
  EXPECT_EQ(climbs.at("limits"), "rate 200/s");
  ASSERT_EQ(post("/v1/queues/orders/pause", {{"reason", "the shop is down"}}).status, 200);
  const json held = simulate({{"queue", "orders"}});
  EXPECT_EQ(held.at("gate").at("state"), "paused");
  EXPECT_EQ(held.at("gate").at("reason"), "the shop is down");
  EXPECT_TRUE(get("/v1/tasks").json().at("tasks").empty()) << "nothing was changed";

  const Ran ran = run_shell("(" + rung_program() +
                            " check --explain --queue orders --type HttpError --error 'HTTP 500' --json -c " +
                            rung().config_path() + " 2>/dev/null)");
  json by_http = simulate({{"queue", "orders"}, {"error_type", "HttpError"}, {"error", "HTTP 500"}});
  by_http.erase("gate");
  by_http.erase("limits");
  EXPECT_EQ(json::parse(ran.out, nullptr, false), by_http);
}

}  // namespace
}  // namespace rung::test
