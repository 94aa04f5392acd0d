// A sidecar that listens for HTTP, and a client. Every response is validated against the OpenAPI document.
// Thread: one at a time.
#pragma once

#include <gmock/gmock.h>

#include <string>

#include "src/http/api.h"
#include "tests/integration/http/schema.h"
#include "tests/support/http_client.h"
#include "tests/support/sidecar.h"

namespace rung::test {

using testing::HasSubstr;

class HttpTest : public SidecarTest {
 protected:
  HttpTest() : port(free_port()), api(json::parse(http::openapi_document())) { listen(""); }

  // http: of the config; `more` with a comma before it. Without a time-out of its own no answer is cut off.
  void listen(const std::string& more) {
    const bool has_timeout = more.find("timeout:") != std::string::npos;
    config.more = "http: { listen: \"127.0.0.1:" + std::to_string(port) + "\"" + more +
                  (has_timeout ? "" : ", timeout: 10m") + " }\n" + other_keys;
  }
  // A temporary file, for tokens. Removed after the test.
  std::string file(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  std::string file_path(const std::string& name) const { return folder_ / name; }
  ~HttpTest() override { std::filesystem::remove_all(folder_); }

  // Starts it and waits until it can write: it consumes, and holds shards.
  void up() {
    start();
    ASSERT_TRUE(ready(client()));
    rows("SELECT 1");  // into the schema
  }
  static bool ready(HttpClient& http) {
    return eventually([&] { return http.call("GET", "/readyz").status == 200; });
  }
  HttpClient& client() {
    if (!client_) client_.emplace(port);
    return *client_;
  }

  HttpAnswer call(const std::string& method, const std::string& path,
                  const std::optional<std::string>& body = {}, const HttpClient::Headers& headers = {}) {
    return checked(method, path, client().call(method, path, body, headers));
  }
  HttpAnswer checked(const std::string& method, const std::string& path, HttpAnswer answer) const {
    EXPECT_NE(answer.status, 0) << method << " " << path << ": no answer";
    if (answer.status == 0) return answer;
    EXPECT_EQ(api.check(method, path, answer.status, answer.header("content-type"), answer.json()), "")
        << answer.body;
    return answer;
  }
  HttpAnswer get(const std::string& path) { return call("GET", path); }
  HttpAnswer post(const std::string& path, const json& body) { return call("POST", path, body.dump()); }
  HttpAnswer post(const std::string& path) { return call("POST", path); }

  // Submits a task and returns its id.
  std::string submit(const json& task) {
    const HttpAnswer answer = post("/v1/tasks", task);
    EXPECT_EQ(answer.status, 201) << answer.body;
    return answer.status == 201 ? answer.json().at("retry_id").get<std::string>() : "0";
  }
  json task(const std::string& id) { return get("/v1/tasks/" + id).json(); }
  // Waits for a state; returns the last state seen, reached or not.
  json wait_for(const std::string& id, const std::string& state) {
    json last;
    EXPECT_TRUE(eventually([&] { return (last = task(id)).value("state", "") == state; }))
        << id << " is " << last.dump();
    return last;
  }
  // The detail of a problem with this status.
  std::string refused(const HttpAnswer& answer, int status) const {
    EXPECT_EQ(answer.status, status) << answer.body;
    EXPECT_EQ(answer.header("content-type"), "application/problem+json");
    const json problem = answer.json();
    if (!problem.is_object()) return "";
    EXPECT_EQ(problem.value("status", 0), status);
    EXPECT_NE(problem.value("code", ""), "");
    return problem.value("detail", "");
  }

  const int port;
  const OpenApi api;
  std::string other_keys;

 private:
  std::optional<HttpClient> client_;
  const std::filesystem::path folder_ = [] {
    std::string name = (std::filesystem::temp_directory_path() / "rung-http.XXXXXX").string();
    return std::string(mkdtemp(name.data()));
  }();
};

}  // namespace rung::test
