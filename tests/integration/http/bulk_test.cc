// /v1/bulks: dry run, progress, rate, pause, abort; and another instance continues it when its runner dies.

#include "tests/integration/http/fixture.h"

namespace rung::test {
namespace {

class HttpBulk : public HttpTest {
 protected:
  void submit_many(int count, const std::string& queue = "q", const std::string& tag = "many") {
    json tasks = json::array();
    for (int i = 0; i < count; ++i) tasks.push_back({{"queue", queue}, {"delay", "1h"}, {"tag", tag}});
    ASSERT_EQ(post("/v1/tasks", tasks).status, 201);
  }
  // How much of a bulk is done, when another has taken so many steps from its begin to its end.
  json done_after_another(const std::string& id) {
    const std::string queue = unique_name("marker");
    submit_many(20, queue, "marker");
    wait_done(create({{"action", "cancel"}, {"filter", {{"queue", queue}}}, {"rate", 20}}));
    return bulk(id).at("done");
  }
  json bulk(const std::string& id) { return get("/v1/bulks/" + id).json(); }
  std::string create(const json& wish) {
    const HttpAnswer answer = post("/v1/bulks", wish);
    EXPECT_EQ(answer.status, 202) << answer.body;
    if (answer.status != 202) return "";
    const std::string id = answer.json().at("id");
    EXPECT_EQ(answer.header("location"), "/v1/bulks/" + id);
    return id;
  }
  json wait_done(const std::string& id, const std::string& state = "done", Ms within = kBound) {
    json last;
    EXPECT_TRUE(eventually([&] { return (last = bulk(id)).value("state", "") == state; }, within))
        << last.dump();
    return last;
  }
  std::string in_state(const std::string& state) {
    return db.value("SELECT COUNT(*) FROM retry_current WHERE state = '" + state + "'");
  }
};

TEST_F(HttpBulk, ADryRunOnlyCounts) {
  up();
  submit_many(7);
  submit_many(2, "other");
  const HttpAnswer answer =
      post("/v1/bulks", {{"action", "cancel"}, {"filter", {{"queue", "q"}}}, {"dry_run", true}});
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.json(), (json{{"dry_run", true}, {"count", 7}, {"or_more", false}}));
  // A redrive applies to parked tasks: none of these.
  EXPECT_EQ(post("/v1/bulks", {{"action", "redrive"}, {"filter", {{"queue", "q"}}}, {"dry_run", true}})
                .json()
                .at("count"),
            0);
  EXPECT_EQ(in_state("scheduled"), "9");
  EXPECT_EQ(get("/v1/bulks").json().at("bulks"), json::array());
}

TEST_F(HttpBulk, AChangeCanWaitForItsConfirmation) {
  up();
  submit_many(3);
  const std::string id = create({{"action", "cancel"}, {"filter", {{"queue", "q"}}}, {"paused", true}});
  EXPECT_EQ(bulk(id).at("total"), 3);
  EXPECT_EQ(bulk(id).at("state"), "paused");
  // A later one is done meanwhile: a runner has passed this one over.
  submit_many(1, "other");
  wait_done(create({{"action", "cancel"}, {"filter", {{"queue", "other"}}}}));
  EXPECT_EQ(in_state("scheduled"), "3");
  EXPECT_EQ(post("/v1/bulks/" + id + "/resume").status, 200);
  EXPECT_EQ(wait_done(id).at("applied"), 3);
}

TEST_F(HttpBulk, ALimitTakesTheOldestAndTheReasonIsInEachAudit) {
  up();
  submit_many(4);
  submit_many(2, "other");
  const json dry = post("/v1/bulks", {{"action", "fire"},
                                      {"filter", {{"kind", "delay"}}},
                                      {"dry_run", true},
                                      {"by", "queue"},
                                      {"limit", 5}})
                       .json();
  EXPECT_EQ(dry.at("count"), 5);
  EXPECT_EQ(dry.at("or_more"), false);
  EXPECT_EQ(dry.at("groups").size(), 2U);
  const std::string id =
      create({{"action", "cancel"}, {"filter", {{"kind", "delay"}}}, {"limit", 3}, {"reason", "too many"}});
  EXPECT_EQ(wait_done(id).at("applied"), 3);
  EXPECT_EQ(
      db.value("SELECT COUNT(*) FROM retry_audit WHERE retry_id > 0 AND reason = 'too many' AND bulk_id = " +
               id),
      "3");
  EXPECT_EQ(db.value("SELECT COUNT(*) FROM retry_current WHERE state = 'scheduled' AND retry_id > (SELECT "
                     "MAX(retry_id) FROM retry_current WHERE state = 'cancelled')"),
            "3");
}

TEST_F(HttpBulk, CancelsAFrozenSetAndSaysSo) {
  up();
  submit_many(40);
  const std::string id =
      create({{"action", "cancel"}, {"filter", {{"queue", "q"}}}, {"reason", "shop closed"}});
  submit_many(3);  // submitted afterwards: not included
  const json done = wait_done(id);
  EXPECT_EQ(done.at("total"), 40);
  EXPECT_EQ(done.at("done"), 40);
  EXPECT_EQ(done.at("applied"), 40);
  EXPECT_EQ(done.at("refused"), 0);
  EXPECT_EQ(done.at("filter"), (json{{"queue", "q"}}));
  EXPECT_EQ(done.at("who"), "no token, 127.0.0.1 (http)");
  EXPECT_EQ(in_state("cancelled"), "40");
  EXPECT_EQ(in_state("scheduled"), "3");
  EXPECT_EQ(db.value("SELECT COUNT(*) FROM retry_audit WHERE retry_id > 0 AND what = 'cancel'"), "40");
  EXPECT_EQ(get("/v1/bulks").json().at("bulks")[0].at("id"), id);
  const HttpAnswer late = post("/v1/bulks/" + id + "/pause");
  EXPECT_THAT(refused(late, 409), HasSubstr("the bulk is done"));
}

TEST_F(HttpBulk, FiresAndRedrives) {
  config.ladder = "[1h]";
  up();
  const std::string queue = new_name(), other = new_name();
  amqp.declare(queue);
  amqp.declare(other);
  submit_many(3, queue);
  wait_done(create({{"action", "fire"}, {"filter", {{"queue", queue}}}}));
  for (const Received& got : amqp.take(queue, 3)) {
    const std::string id = retry_id(got);
    wait_for(id, "awaiting");
    ASSERT_EQ(post("/v1/tasks/" + id + "/finish", {{"result", "failed"}}).status, 200);
    wait_for(id, "scheduled");
  }
  wait_done(create({{"action", "fire"}, {"filter", {{"queue", queue}}}}));
  for (const Received& got : amqp.take(queue, 3)) {
    const std::string id = retry_id(got);
    wait_for(id, "awaiting");
    ASSERT_EQ(post("/v1/tasks/" + id + "/finish", {{"result", "failed"}}).status, 200);
    wait_for(id, "parked");
  }
  const json done = wait_done(
      create({{"action", "redrive"}, {"filter", {{"queue", queue}}}, {"elsewhere", {{"queue", other}}}}));
  EXPECT_EQ(done.at("applied"), 3);
  EXPECT_EQ(done.at("elsewhere"), (json{{"queue", other}}));
  EXPECT_EQ(amqp.take(other, 3).size(), 3U);
}

TEST_F(HttpBulk, RatePauseResumeAbort) {
  up();
  submit_many(400);  // 40 s of work: it is not done before we are
  const std::string id = create({{"action", "cancel"}, {"filter", {{"tag", "many"}}}, {"rate", 10}});
  const std::string path = "/v1/bulks/" + id;
  ASSERT_TRUE(eventually([&] { return bulk(id).at("done") > 0; }, kBound));
  HttpAnswer answer = post(path + "/pause", {{"reason", "the shop is down"}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.json().at("state"), "paused");
  EXPECT_EQ(post(path + "/pause").status, 200) << "idempotent";
  EXPECT_EQ(db.value("SELECT COUNT(*) FROM retry_events WHERE kind = 'bulk_paused' AND detail LIKE "
                     "'by no token, 127.0.0.1 (http) at %: the shop is down'"),
            "1");
  // The step under way may still end.
  const json held = done_after_another(id);
  EXPECT_EQ(done_after_another(id), held) << "goes on while it is paused";
  EXPECT_LT(held, 400);
  answer = post(path + "/resume", {{"rate", 20}});
  EXPECT_EQ(answer.json().at("rate"), 20.0);
  ASSERT_TRUE(eventually([&] { return bulk(id).at("done") > held; }, kBound));
  answer = post(path + "/abort");
  EXPECT_EQ(answer.json().at("state"), "aborted");
  EXPECT_THAT(refused(post(path + "/resume"), 409), HasSubstr("aborted"));
  const json ended = done_after_another(id);
  EXPECT_EQ(done_after_another(id), ended);
  EXPECT_EQ(db.value("SELECT COUNT(*) FROM retry_current WHERE state = 'cancelled' AND queue = 'q'"),
            bulk(id).at("applied").dump());
}

TEST_F(HttpBulk, ASlowOneHoldsUpNoOther) {
  up();
  submit_many(4, "slow");
  submit_many(60, "quick");
  const std::string slow = create({{"action", "cancel"}, {"filter", {{"queue", "slow"}}}, {"rate", 0.02}});
  ASSERT_TRUE(eventually([&] { return bulk(slow).at("done") == 1; }, kBound));
  const std::string quick = create({{"action", "cancel"}, {"filter", {{"queue", "quick"}}}, {"rate", 200}});
  EXPECT_EQ(wait_done(quick).at("applied"), 60);
  EXPECT_EQ(bulk(slow).at("done"), 1) << "faster than it may be";
  // A new rate applies at once, not after the 50 seconds of the old one.
  ASSERT_EQ(post("/v1/bulks/" + slow + "/resume", {{"rate", 1000}}).status, 200);
  EXPECT_EQ(wait_done(slow).at("applied"), 4);
}

TEST_F(HttpBulk, GoesOnAfterAKillOfItsInstance) {
  other_keys = "lease: 2s\n";
  listen("");
  up();
  submit_many(300);
  const std::string id = create({{"action", "cancel"}, {"filter", {{"tag", "many"}}}, {"rate", 60}});
  ASSERT_TRUE(eventually([&] { return bulk(id).at("done") > 20; }, kBound));
  rung().kill9();
  const int killed_at = std::stoi(rows("SELECT done FROM retry_bulks")[0].at("done"));
  EXPECT_LT(killed_at, 300);
  up();
  const json done = wait_done(id, "done", Ms{60'000});
  EXPECT_EQ(done.at("done"), 300);
  EXPECT_EQ(done.at("applied"), 300);
  EXPECT_EQ(in_state("cancelled"), "300");
  EXPECT_EQ(db.value("SELECT COUNT(*) FROM retry_audit WHERE retry_id > 0 AND what = 'cancel'"), "300")
      << "each once";
}

TEST_F(HttpBulk, BadInput) {
  up();
  const auto detail = [&](const json& body) { return refused(post("/v1/bulks", body), 400); };
  EXPECT_THAT(
      detail({{"filter", {{"queue", "q"}}}}),
      HasSubstr("action: must be \"cancel\", \"discard\", \"fire\", \"redrive\", \"succeed\" or \"fail\""));
  EXPECT_THAT(detail({{"action", "delete"}, {"filter", {{"queue", "q"}}}}), HasSubstr("action: must be"));
  EXPECT_THAT(detail({{"action", "cancel"}}), HasSubstr("filter: say which tasks"));
  EXPECT_THAT(detail({{"action", "cancel"}, {"filter", json::object()}}),
              HasSubstr("an empty filter means every task"));
  EXPECT_THAT(detail({{"action", "cancel"}, {"filter", {{"queeu", "q"}}}}),
              HasSubstr("filter.queeu: unknown condition"));
  EXPECT_THAT(detail({{"action", "cancel"}, {"filter", {{"queue", 5}}}}), HasSubstr("filter.queue: must be"));
  EXPECT_THAT(detail({{"action", "cancel"}, {"filter", "all"}}), HasSubstr("filter: must be an object"));
  EXPECT_THAT(detail({{"action", "cancel"}, {"filter", {{"queue", "q"}}}, {"rate", -1}}),
              HasSubstr("rate: must be a number"));
  EXPECT_THAT(detail({{"action", "cancel"}, {"filter", {{"queue", "q"}}}, {"rate", 1e-7}}),
              HasSubstr("rate: must be a number of tasks per second, at least 0.01"));
  EXPECT_THAT(refused(call("POST", "/v1/bulks",
                           R"({"action": "cancel", "action": "fire", "filter": {"queue": "q"}})"),
                      400),
              HasSubstr("duplicate key 'action' in one object"));
  EXPECT_THAT(detail({{"action", "fire"}, {"filter", {{"state", "succeeded"}}}}),
              HasSubstr("filter.state: fire changes only tasks that are scheduled, none that is succeeded"));
  EXPECT_THAT(detail({{"action", "fire"}, {"filter", {{"queue", "q"}}}, {"by", "queue"}}),
              HasSubstr("by: only valid with \"dry_run\": true"));
  EXPECT_THAT(detail({{"action", "fire"}, {"filter", {{"queue", "q"}}}, {"elsewhere", {{"queue", "x"}}}}),
              HasSubstr("elsewhere: only valid with the action redrive"));
  EXPECT_THAT(
      detail({{"action", "redrive"}, {"filter", {{"queue", "q"}}}, {"elsewhere", {{"queue", failed()}}}}),
      HasSubstr("elsewhere.queue: '" + failed() + "' begins with " + config.prefix + "."));
  EXPECT_THAT(detail({{"action", "fire"}, {"filter", {{"queue", "q"}}}, {"limit", 0}}),
              HasSubstr("limit: must be an integer"));
  EXPECT_THAT(detail(json::array()), HasSubstr("an object"));
  for (const auto* id : {"1", "x", "-1", "99999999999999999999"}) {
    EXPECT_EQ(get("/v1/bulks/" + std::string(id)).status, 404);
    EXPECT_THAT(refused(post("/v1/bulks/" + std::string(id) + "/abort"), 404), HasSubstr("there is no bulk"));
  }
}

}  // namespace
}  // namespace rung::test
