// POST /v1/bulks with a canary: a bad fix is stopped after the canary, a good one goes through, also when its
// instance is killed in the middle.
#include <map>

#include "tests/integration/http/fixture.h"

namespace rung::test {
namespace {

using testing::AllOf;

class HttpCarefulRedrive : public HttpTest {
 protected:
  HttpCarefulRedrive() {
    config.ladder = "[1h]";
    other_keys = "lease: 2s\n";
    listen("");
  }
  // A queue with so many parked tasks.
  std::string parked_queue(std::size_t count) {
    const std::string queue = attached();
    std::vector<Message> failures;
    for (std::size_t i = 0; i < count; ++i) {
      Message message;
      message.body = "order " + std::to_string(i);
      message.properties.message_id = "m-" + std::to_string(i);
      message.headers = Table{{"retry-queue", queue}, {"retry-error", "HTTP 503"}, {"retry-never", true}};
      failures.push_back(message);
    }
    amqp.publish_all(failed(), "", failures);
    const std::string all = std::to_string(count);
    EXPECT_TRUE(eventually([&] { return parked_in(queue) == all; }, kBound)) << parked_in(queue);
    return queue;
  }
  std::string parked_in(const std::string& queue) {
    return db.value("SELECT COUNT(*) FROM retry_current WHERE state = 'parked' AND queue = '" + queue + "'");
  }
  std::string create(const std::string& queue, json more) {
    more["action"] = "redrive";
    more["filter"] = {{"queue", queue}};
    const HttpAnswer answer = post("/v1/bulks", more);
    EXPECT_EQ(answer.status, 202) << answer.body;
    return answer.status == 202 ? answer.json().at("id").get<std::string>() : "0";
  }
  json bulk(const std::string& id) { return get("/v1/bulks/" + id).json(); }
  json wait_for_bulk(const std::string& id, const std::string& key, const std::string& value,
                     Ms within = kBound) {
    json last;
    EXPECT_TRUE(eventually([&] { return (last = bulk(id)).value(key, "") == value; }, within)) << last.dump();
    return last;
  }
};

TEST_F(HttpCarefulRedrive, ABadFixIsStoppedAfterTheCanary) {
  up();
  const std::string queue = parked_queue(30);
  const std::string id = create(queue, {{"canary", 5}, {"reason", "fixed in 2.3"}});
  std::vector<Received> canary;
  for (int i = 0; i < 5; ++i) canary.push_back(delivery(queue));
  wait_for_bulk(id, "stage", "watching");
  expect_nothing(queue);  // no more than the canary
  const json all_open{{"sent", 5},         {"succeeded", 0},        {"failed", 0},      {"open", 5},
                      {"not_yet_sent", 0}, {"held", json::array()}, {"unread", nullptr}};
  EXPECT_TRUE(eventually([&] { return bulk(id).at("outcomes") == all_open; }, kBound)) << bulk(id).dump();
  for (int i = 0; i < 4; ++i) report(canary[static_cast<std::size_t>(i)], "succeeded");
  report(canary[4], "failed", "no such column: total");
  const json end = wait_for_bulk(id, "state", "stopped");
  EXPECT_EQ(end.at("done"), 5);
  EXPECT_EQ(end.at("total"), 30);
  EXPECT_THAT(end.at("stopped_because").get<std::string>(),
              AllOf(HasSubstr("1 of the canary's 5 failed"), HasSubstr(retry_id(canary[4])),
                    HasSubstr("no such column: total")));
  EXPECT_EQ(end.at("outcomes").at("failed"), 1);
  expect_nothing(queue);  // the others stay
  EXPECT_EQ(parked_in(queue), "26") << "and the one that failed again: the ladder has one level";
  EXPECT_EQ(rows("SELECT subject FROM retry_events WHERE kind = 'bulk_stopped'").at(0).at("subject"), id);
  EXPECT_TRUE(rung().logged("bulk stopped"));
  EXPECT_THAT(refused(post("/v1/bulks/" + id + "/resume"), 409), HasSubstr("stopped"));
}

TEST_F(HttpCarefulRedrive, AGoodFixGoesThroughAlsoWhenItsInstanceIsKilled) {
  up();
  const std::string queue = parked_queue(30);
  const std::string id = create(queue, {{"canary", 4}, {"rate", 5}});
  std::map<std::string, int> seen;
  const auto take = [&] {
    const auto got = amqp.get_within(queue, Ms{500});
    if (!got) return;
    ++seen[retry_id(*got)];
    amqp.ack(*got);
    report(*got, "succeeded");
  };
  ASSERT_TRUE(eventually([&] { return take(), bulk(id).value("stage", "") == "all"; }, kBound));
  ASSERT_TRUE(eventually([&] { return take(), bulk(id).at("done") > 8; }, kBound));
  rung().kill9();
  up();
  json end;
  ASSERT_TRUE(eventually([&] { return take(), (end = bulk(id)).at("state") == "done" && seen.size() == 30; },
                         Ms{90'000}))
      << end.dump() << seen.size();
  EXPECT_EQ(end.at("applied"), 30);
  EXPECT_EQ(end.at("refused"), 0);
  EXPECT_EQ(db.value("SELECT COUNT(*) FROM retry_audit WHERE retry_id > 0 AND what = 'redrive'"), "30")
      << "each once";
  ASSERT_TRUE(eventually([&] { return bulk(id).at("outcomes").at("succeeded") == 30; }, kBound))
      << bulk(id).dump();
}

TEST_F(HttpCarefulRedrive, WhatHasExpiredIsSaidBefore) {
  other_keys = "lease: 2s\ndefaults: { give_up: { after: 1s } }\n";
  listen("");
  up();
  const std::string queue = parked_queue(3);
  const json wish = {{"action", "redrive"}, {"filter", {{"queue", queue}}}, {"dry_run", true}};
  const json expired = json::array({{{"queue", queue}, {"after_ms", 1000}, {"tasks", 3}}});
  json counted;
  EXPECT_TRUE(eventually(
      [&] { return (counted = post("/v1/bulks", wish).json()).value("expired", json()) == expired; }, kBound))
      << counted.dump();
  EXPECT_EQ(counted.at("count"), 3);
}

}  // namespace
}  // namespace rung::test
