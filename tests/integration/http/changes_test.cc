// What only HTTP has of the changes of tasks: If-Match, and what a repeated request is told. The rest: the
// CLI's tests by the API.
#include "tests/integration/http/fixture.h"

namespace rung::test {
namespace {

class HttpChanges : public HttpTest {
 protected:
  HttpAnswer change(const std::string& id, const std::string& what, const json& body = json::object(),
                    const HttpClient::Headers& headers = {}) {
    return call("POST", "/v1/tasks/" + id + "/" + what, body.dump(), headers);
  }
  std::string in_an_hour(const std::string& queue = "q") {
    return submit({{"queue", queue}, {"delay", "1h"}});
  }
  // A task whose first attempt is with its consumer.
  std::string delivered(const std::string& queue) {
    amqp.declare(queue);
    const std::string id = submit({{"queue", queue}, {"delay", 0}, {"success", {{"reported_within", "1h"}}}});
    amqp.ack(delivery(queue));
    wait_for(id, "awaiting");
    return id;
  }
};

TEST_F(HttpChanges, CancelIsKeptAndTwiceIsOnce) {
  up();
  const std::string id = in_an_hour();
  HttpAnswer answer = change(id, "cancel", {{"reason", "paid"}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.json().at("state"), "cancelled");
  EXPECT_TRUE(answer.json().at("last_error").is_null()) << "the reason is in the audit";
  EXPECT_EQ(answer.header("etag"), "\"2\"");
  EXPECT_FALSE(answer.json().contains("unchanged_because")) << answer.body;
  answer = call("POST", "/v1/tasks/" + id + "/cancel");  // without a body, too
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_NE(answer.json().value("unchanged_because", ""), "");
  EXPECT_EQ(answer.json().at("version"), 2);
  const HttpAnswer wrong = change(id, "fire");
  EXPECT_THAT(refused(wrong, 409), HasSubstr("cancelled"));
  EXPECT_EQ(wrong.json().at("state"), "cancelled");
  EXPECT_THAT(refused(change(id, "reschedule", {{"delay", 1}}), 409), HasSubstr("cancelled"));
  EXPECT_THAT(refused(change(id, "finish", {{"result", "succeeded"}}), 409), HasSubstr("cancelled"));
  EXPECT_THAT(refused(change(id, "redrive"), 409), HasSubstr("cancelled"));
}

TEST_F(HttpChanges, AFailureOfANamedAttemptFailsNoLaterOne) {
  config.ladder = "[200ms, 1h]";
  up();
  const std::string queue = new_name();
  const std::string id = delivered(queue);
  const int first = task(id).at("attempt");
  const json failed = {{"result", "failed"}, {"attempt", first}, {"error", "no"}};
  ASSERT_EQ(change(id, "finish", failed).status, 200);
  amqp.ack(delivery(queue));
  json now = wait_for(id, "awaiting");
  EXPECT_EQ(now.at("attempt"), first + 1);
  // Repeated because the answer was lost: the attempt under way continues.
  const HttpAnswer again = change(id, "finish", failed);
  EXPECT_EQ(again.status, 200) << again.body;
  EXPECT_EQ(again.json().at("version"), now.at("version"));
  EXPECT_EQ(again.json().at("state"), "awaiting");
  EXPECT_EQ(change(id, "finish", {{"result", "failed"}, {"attempt", first + 2}}).status, 409);
  for (const json& wrong : {json(0), json(-1), json("1"), json(1.5)})
    EXPECT_THAT(refused(change(id, "finish", {{"result", "failed"}, {"attempt", wrong}}), 400),
                HasSubstr("attempt: must be an integer"));
  // The same of what is under way already.
  EXPECT_EQ(change(id, "fire").status, 200);
  EXPECT_EQ(task(id).at("version"), now.at("version"));
}

TEST_F(HttpChanges, IfMatchGuardsAgainstAStaleView) {
  up();
  const std::string id = in_an_hour();
  const std::string seen = get("/v1/tasks/" + id).header("etag");
  EXPECT_EQ(seen, "\"1\"");
  ASSERT_EQ(change(id, "reschedule", {{"delay", "2h"}}, {{"If-Match", seen}}).status, 200);
  const HttpAnswer stale = change(id, "cancel", json::object(), {{"If-Match", seen}});
  EXPECT_THAT(refused(stale, 412), HasSubstr("its version is now 2"));
  EXPECT_EQ(stale.json().at("version"), 2);
  EXPECT_EQ(task(id).at("state"), "scheduled");
  EXPECT_EQ(change(id, "cancel", json::object(), {{"If-Match", "*"}}).status, 200);
  for (const auto* wrong : {"2", "\"1", "\"1\" \"2\"", "w/\"1\"", "\"1\", *", ","})
    EXPECT_THAT(refused(change(id, "cancel", json::object(), {{"If-Match", wrong}}), 400), HasSubstr("ETag"))
        << wrong;
  // A tag that is weak, or none of ours, matches nothing.
  for (const auto* other :
       {"W/\"3\"", "\"x\"", "\"\"", "\"-1\"", "\"99999999999\"", "\"1\", W/\"3\"", "\"1\", \"2\""})
    EXPECT_THAT(refused(change(id, "redrive", json::object(), {{"If-Match", other}}), 412),
                HasSubstr("its version is now 3"))
        << other;
  EXPECT_EQ(change(id, "cancel", json::object(), {{"If-Match", "\"x\",W/\"3\" , \"2\",\"3\""}}).status, 200);
}

}  // namespace
}  // namespace rung::test
