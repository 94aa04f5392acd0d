// What a browser needs: signing in by a cookie, and the events of what changes.
#include <csignal>

#include "tests/integration/http/fixture.h"
#include "tests/integration/http/slow_client.h"

namespace rung::test {
namespace {

class Console : public HttpTest {
 protected:
  void up_with_tokens(const std::string& more = "") {
    tokens(
        "- { name: ann, token: anns-token-of-the-test, role: operator }\n- { name: ron, token: "
        "rons-token-of-the-test, role: reader }\n");
    listen(", tokens_file: " + file_path("tokens.yaml") + more);
    start();
    ASSERT_TRUE(ready(client()));
    rows("SELECT 1");
  }
  void tokens(const std::string& text) { file("tokens.yaml", text); }
  // The cookie of the response, as a browser sends it back.
  static HttpClient::Headers cookie_of(const HttpAnswer& answer) {
    const std::string header = answer.header("set-cookie");
    return {{"Cookie", "theme=dark; " + header.substr(0, header.find(';'))}};
  }
  HttpAnswer sign_in(const std::string& token) {
    return call("POST", "/v1/session", json{{"token", token}}.dump());
  }
};

// The events that have arrived; reads on until `done` of them holds.
class Events {
 public:
  Events(int port, const std::string& query = "", const std::string& headers = "") : client_(port) {
    client_.send("GET /v1/events" + query + " HTTP/1.1\r\nHost: 127.0.0.1\r\n" + headers + "\r\n");
    head_ = client_.rest("\r\n\r\n");
    text_ = head_.substr(head_.find("\r\n\r\n") + 4);
  }
  const std::string& head() const { return head_; }
  // The data of the next event of this kind that `fits`.
  json next(const std::string& kind, const std::function<bool(const json&)>& fits = {}) {
    while (true) {
      const std::size_t end = text_.find("\n\n");
      if (end == std::string::npos) {
        const std::string more = client_.rest("\n\n");
        if (more.empty()) return nullptr;  // it has ended
        text_ += more;
        continue;
      }
      const std::string event = text_.substr(0, end);
      text_.erase(0, end + 2);
      if (event.find("event: " + kind + "\n") == std::string::npos) continue;
      const std::size_t id = event.find("id: ");
      last_id_ = event.substr(id + 4, event.find('\n', id) - id - 4);
      json data = json::parse(event.substr(event.find("data: ") + 6));
      if (!fits || fits(data)) return data;
    }
  }
  std::string last_id() const { return last_id_; }
  std::string rest() { return client_.rest(); }

 private:
  SlowClient client_;
  std::string head_, text_, last_id_;
};

TEST_F(Console, ABrowserSignsInWithATokenAndChangesThingsByItsCookie) {
  up_with_tokens();
  const json before = get("/v1/session").json();
  EXPECT_EQ(before.at("signed_in"), false);
  EXPECT_EQ(before.at("sign_in"), json({{"token", true}, {"oidc", false}}));
  EXPECT_THAT(refused(sign_in("nobody's"), 401), HasSubstr("unknown token"));

  const HttpAnswer answer = sign_in("anns-token-of-the-test");
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.json().at("name"), "ann");
  EXPECT_EQ(answer.json().at("role"), "operator");
  EXPECT_THAT(answer.header("set-cookie"), HasSubstr("HttpOnly; SameSite=Strict"));
  EXPECT_EQ(answer.body.find("anns-token"), std::string::npos) << "the token is not said again";
  const HttpClient::Headers cookie = cookie_of(answer);
  EXPECT_EQ(call("GET", "/v1/session", {}, cookie).json().at("way"), "token");

  const std::string queue = new_name();
  const std::string task = json{{"queue", queue}, {"delay", "1h"}}.dump();
  HttpClient::Headers change = cookie;
  EXPECT_THAT(refused(call("POST", "/v1/tasks", task, change), 403), HasSubstr("X-Rung-CSRF"));
  change["X-Rung-CSRF"] = answer.json().at("csrf").get<std::string>();
  const HttpAnswer made = call("POST", "/v1/tasks", task, change);
  EXPECT_EQ(made.status, 201) << made.body;
  const std::string id = made.json().at("retry_id");
  EXPECT_EQ(call("POST", "/v1/tasks/" + id + "/cancel", "{}", change).status, 200);
  EXPECT_THAT(rows("SELECT who FROM retry_audit WHERE retry_id = " + id)[0].at("who"), HasSubstr("ann, "));
  change["Sec-Fetch-Site"] = "cross-site";
  EXPECT_THAT(refused(call("POST", "/v1/tasks", task, change), 403), HasSubstr("another site"));

  HttpClient::Headers out = cookie;
  out["X-Rung-CSRF"] = answer.json().at("csrf").get<std::string>();
  const HttpAnswer ended = call("DELETE", "/v1/session", {}, out);
  EXPECT_EQ(ended.json().at("signed_in"), false);
  EXPECT_THAT(ended.header("set-cookie"), HasSubstr("Max-Age=0"));
  EXPECT_THAT(refused(call("GET", "/v1/tasks", {}, cookie), 401), HasSubstr("sign in again"));
}

TEST_F(Console, EventsTellWhatChanges) {
  up();
  const std::string queue = new_name();
  const std::string id = submit({{"queue", queue}, {"delay", "1h"}});
  Events events(port, "?watch=" + id);
  EXPECT_THAT(events.head(), HasSubstr("200 OK"));
  EXPECT_THAT(events.head(), HasSubstr("text/event-stream"));
  EXPECT_FALSE(events.next("ping").is_null());
  EXPECT_EQ(post("/v1/tasks/" + id + "/reschedule", {{"delay", "2h"}}).status, 200);
  const auto names_it = [&](const json& data) { return std::ranges::count(data.at("tasks"), json(id)) == 1; };
  EXPECT_FALSE(events.next("changes", names_it).is_null());
  EXPECT_EQ(post("/v1/queues/" + queue + "/pause").status, 200);
  EXPECT_FALSE(events.next("changes", [](const json& data) { return data.at("queues") == true; }).is_null());
  // At most a second later.
  EXPECT_TRUE(eventually([&] {
    const json overview = get("/v1/overview").json();
    return overview.at("totals").value("scheduled", 0) == 1 &&
           std::ranges::any_of(overview.at("queues"), [&](const json& one) {
             return one.at("queue") == queue && one.at("state") == "paused";
           });
  }));
}

TEST_F(Console, WhoComesBackReadsAnewWhatItShows) {
  up();
  std::string last;
  {
    Events events(port);
    events.next("ping");
    last = events.last_id();
    EXPECT_NE(last, "");
  }
  Events events(port, "", "Last-Event-ID: " + last + "\r\n");
  EXPECT_EQ(events.next("changes").at("more"), true);
}

TEST_F(Console, OneViewerLeavesStreamsToOthers) {
  up_with_tokens(", connections: 16");
  std::vector<std::unique_ptr<Events>> own;
  const auto open = [&](const std::string& token) {
    own.push_back(
        std::make_unique<Events>(port, "", "Authorization: Bearer " + token + "-token-of-the-test\r\n"));
    return own.back()->head();
  };
  for (int i = 0; i < 3; ++i) EXPECT_THAT(open("rons"), HasSubstr("200 OK"));
  EXPECT_THAT(open("rons"), HasSubstr("503 Service Unavailable"));
  EXPECT_THAT(open("anns"), HasSubstr("200 OK"));
}

TEST_F(Console, EventsEndWithTheSidecar) {
  up();
  Events events(port);
  events.next("ping");
  rung().signal(SIGTERM);
  events.rest();  // until the other side closes
}

TEST_F(Console, TheConfigIsShownWithoutSecrets) {
  config.queues = "  orders: { ladder: slow, late_by: 30s, gate: { rate: 20/s } }\n";
  config.ladders = "  slow: [1h, 2h]\n";
  config.more += "index_headers: [tenant, region]\n";
  up();
  const json shown = get("/v1/config").json();
  const auto slow =
      std::ranges::find_if(shown.at("ladders"), [](const json& one) { return one.at("name") == "slow"; });
  ASSERT_NE(slow, shown.at("ladders").end());
  EXPECT_EQ(*slow, json({{"name", "slow"}, {"delays_ms", {3'600'000, 7'200'000}}, {"jitter", 0.0}}));
  const json& orders = shown.at("queues")[0];
  EXPECT_EQ(orders.at("name"), "orders");
  EXPECT_EQ(orders.at("late_by_ms"), 30'000);
  EXPECT_THAT(orders.at("gates").at("limits").get<std::string>(), HasSubstr("20/s"));
  EXPECT_EQ(shown.at("index_headers"), (json{"tenant", "region"}));
  EXPECT_EQ(shown.dump().find("mysql://"), std::string::npos);
  EXPECT_EQ(shown.at("fingerprint"), get("/v1/nodes").json().at("nodes")[0].at("config"));
}

TEST_F(Console, ItsFilesLoadNothingFromElsewhere) {
  up();
  const HttpAnswer page = client().call("GET", "/");
  if (page.status == 404) GTEST_SKIP() << page.body;
  EXPECT_EQ(page.header("content-type"), "text/html; charset=utf-8");
  EXPECT_THAT(page.header("content-security-policy"), HasSubstr("default-src 'none'; script-src 'self'"));
  EXPECT_EQ(page.header("x-content-type-options"), "nosniff");
  EXPECT_THAT(page.body, HasSubstr("src=\"./app.js\""));
  EXPECT_THAT(client().call("GET", "/console/tasks/4711").body, HasSubstr("src=\"./../../app.js\""))
      << "a path of the console's own, and a proxy may have it below another";
  const HttpAnswer script = client().call("GET", "/app.js");
  EXPECT_EQ(script.header("content-type"), "text/javascript; charset=utf-8");
  const HttpAnswer again = client().call("GET", "/app.js", {}, {{"If-None-Match", script.header("etag")}});
  EXPECT_EQ(again.status, 304);
  EXPECT_EQ(again.body, "");
}

}  // namespace
}  // namespace rung::test
