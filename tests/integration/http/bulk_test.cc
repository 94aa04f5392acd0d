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
  submit_many(400);  // minutes of work: it is not done before we are
  const std::string id = create({{"action", "cancel"}, {"filter", {{"tag", "many"}}}, {"rate", 1}});
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
  answer = post(path + "/resume", {{"rate", 2}});
  EXPECT_EQ(answer.json().at("rate"), 2.0);
  ASSERT_TRUE(eventually([&] { return bulk(id).at("done") > held; }, kBound));
  answer = post(path + "/abort");
  EXPECT_EQ(answer.json().at("state"), "aborted");
  EXPECT_THAT(refused(post(path + "/resume"), 409), HasSubstr("aborted"));
  const json ended = done_after_another(id);
  EXPECT_EQ(done_after_another(id), ended);
  EXPECT_EQ(db.value("SELECT COUNT(*) FROM retry_current WHERE state = 'cancelled' AND queue = 'q'"),
            bulk(id).at("applied").dump());
}

}  // namespace
}  // namespace rung::test
