// /healthz, /readyz, /metrics, /openapi.json.
#include <csignal>
#include <set>

#include "src/core/base/url.h"
#include "tests/integration/http/fixture.h"
#include "tests/support/proxy.h"

namespace rung::test {
namespace {

class HttpService : public HttpTest {
 protected:
  // The value of a line of /metrics; -1 if there is none.
  double metric(const std::string& line) {
    const std::string text = get("/metrics").body;
    const std::size_t at = text.find("\n" + line + " ");
    return at == std::string::npos ? -1 : std::stod(text.substr(at + line.size() + 2));
  }
};

TEST_F(HttpService, HealthAndReadiness) {
  up();
  EXPECT_EQ(get("/healthz").json(), (json{{"status", "ok"}}));
  const json ready = get("/readyz").json();
  EXPECT_EQ(ready.at("status"), "ready");
  EXPECT_EQ(ready.at("checks"),
            (json{{"broker", true}, {"database", true}, {"shards", true}, {"taking", true}}));
  EXPECT_EQ(client().call("HEAD", "/healthz").body, "");
  EXPECT_EQ(get("/openapi.json").body, http::openapi_document());
}

TEST_F(HttpService, NotReadyWithoutItsBroker) {
  auto url = parse_url(amqp_url());
  url->port = 1;  // no server listens there
  config.broker_url = format_url(*url);
  sidecar_ = std::make_unique<Sidecar>(config);
  rung().start();
  ASSERT_TRUE(eventually([&] { return client().call("GET", "/healthz").status == 200; }));
  json problem;
  ASSERT_TRUE(eventually([&] {
    const HttpAnswer answer = get("/readyz");
    problem = answer.json();
    return answer.status == 503 && problem.at("checks").at("database") == true;
  }));
  // It takes no shards before it can publish, so it takes no tasks either.
  EXPECT_EQ(problem.at("detail"), "not ready: broker, shards");
  EXPECT_EQ(post("/v1/tasks", {{"queue", "q"}, {"delay", "1h"}}).status, 503);
}

// A hanging database sends nothing, and no connection breaks.
TEST_F(HttpService, AHungDatabaseHoldsUpNobody) {
  auto url = parse_url(config.store_url);
  TcpProxy proxy(url->host, url->port);
  url->port = proxy.port();
  config.store_url = format_url(*url);
  listen(", timeout: 2s");
  up();
  // On a busy machine an answer may take longer than these two seconds.
  HttpAnswer made;
  const auto is_submitted = [&] {
    made = post("/v1/tasks", {{"queue", "q"}, {"delay", "1h"}, {"message_id", "m"}});
    return made.status == 200 || made.status == 201;
  };
  ASSERT_TRUE(eventually(is_submitted));
  const std::string id = made.json().at("retry_id");
  ASSERT_TRUE(eventually([&] { return get("/v1/tasks").status == 200; }));
  const auto answers = [&](const std::string& path) {
    return eventually([&] { return get(path).status == 200; });
  };
  ASSERT_TRUE(answers("/metrics"));
  proxy.stall();
  refused(get("/v1/tasks"), 503);
  EXPECT_TRUE(answers("/healthz"));
  EXPECT_TRUE(answers("/metrics"));
  ASSERT_TRUE(eventually([&] { return metric("rung_up{service=\"database\"}") == 0; }));
  EXPECT_TRUE(eventually([&] { return metric("rung_up{service=\"broker\"}") == 1; }));
  proxy.stall(false);
  proxy.cut();
  ASSERT_TRUE(ready(client()));
  ASSERT_TRUE(eventually([&] { return metric("rung_up{service=\"database\"}") == 1; }));
  ASSERT_TRUE(eventually(is_submitted));
  EXPECT_EQ(made.json().at("retry_id"), id);
}

TEST_F(HttpService, Metrics) {
  up();
  submit({{"queue", "q"}, {"delay", "1h"}, {"message_id", "m"}});
  post("/v1/tasks", {{"queue", "q"}, {"delay", "1h"}, {"message_id", "m"}});
  post("/v1/tasks", {{"queue", "other"}, {"delay", "1h"}, {"message_id", "m"}});
  post("/v1/tasks", {{"quee", "q"}});
  const std::string id = submit({{"queue", "q"}, {"delay", "1h"}});
  post("/v1/tasks/" + id + "/cancel");
  post("/v1/tasks/" + id + "/cancel");
  post("/v1/tasks/" + id + "/fire");
  get("/v1/nothing/at/all");
  EXPECT_EQ(metric("rung_submitted_tasks_total{result=\"created\"}"), 2);
  EXPECT_EQ(metric("rung_submitted_tasks_total{result=\"same\"}"), 1);
  EXPECT_EQ(metric("rung_submitted_tasks_total{result=\"conflict\"}"), 1);
  EXPECT_EQ(metric("rung_submitted_tasks_total{result=\"invalid\"}"), 1);
  EXPECT_EQ(metric("rung_changes_total{action=\"cancel\",result=\"applied\"}"), 1);
  EXPECT_EQ(metric("rung_changes_total{action=\"cancel\",result=\"unchanged\"}"), 1);
  EXPECT_EQ(metric("rung_changes_total{action=\"fire\",result=\"refused\"}"), 1);
  EXPECT_EQ(metric("rung_http_requests_total{method=\"POST\",route=\"/v1/tasks\",status=\"201\"}"), 2);
  EXPECT_EQ(metric("rung_http_requests_total{method=\"GET\",route=\"none\",status=\"404\"}"), 1);
  EXPECT_EQ(metric("rung_shards_held"), 64);
  EXPECT_EQ(metric("rung_up{service=\"broker\"}"), 1);
  EXPECT_EQ(metric("rung_up{service=\"database\"}"), 1);
  // Counted at the first scrape; what it says holds for some seconds.
  EXPECT_EQ(metric("rung_tasks{queue=\"(other)\",state=\"scheduled\"}"), 1);
  EXPECT_EQ(metric("rung_tasks{queue=\"(other)\",state=\"cancelled\"}"), 1);
  // One prefix for all names, base units, no label whose value comes from a message.
  const std::string text = get("/metrics").body;
  std::istringstream lines(text);
  const std::set<std::string> labels = {"method", "route",   "status",  "result", "action",
                                        "state",  "service", "version", "what",   "le",
                                        "queue",  "problem", "inlet",   "kind",   "outcome"};
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.starts_with("#")) continue;
    EXPECT_TRUE(line.starts_with("rung_")) << line;
    for (std::size_t at = line.find("=\""); at != std::string::npos; at = line.find("=\"", at + 1)) {
      const std::size_t from = line.find_last_of("{,", at) + 1;
      EXPECT_TRUE(labels.contains(line.substr(from, at - from))) << line;
    }
  }
  EXPECT_EQ(metric("rung_nodes"), 1);
  EXPECT_EQ(get("/metrics").header("content-type").substr(0, 10), "text/plain");
}

}  // namespace
}  // namespace rung::test
