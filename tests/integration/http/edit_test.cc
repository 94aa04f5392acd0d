// POST /v1/tasks/{id}/edit and GET /v1/tasks/{id}/body.
#include "tests/integration/http/fixture.h"

namespace rung::test {
namespace {

using testing::AllOf;
using testing::Not;

class HttpEdit : public HttpTest {
 protected:
  HttpAnswer edit(const std::string& id, const json& body, const HttpClient::Headers& headers = {}) {
    return call("POST", "/v1/tasks/" + id + "/edit", body.dump(), headers);
  }
};

TEST_F(HttpEdit, TheEditedMessageIsDeliveredInPlaceOfTheParkedOne) {
  config.ladder = "[1h]";
  up();
  const std::string queue = attached();
  Message message;
  message.body = R"({"order":17})";
  message.properties.content_type = "application/json";
  message.headers = Table{{"tenant", "acme"}, {"debug", true}, {"retry-never", true}};
  fail(queue, message);
  const std::string id = wait_state(queue, "parked").at("retry_id");
  const json before = task(id);
  EXPECT_TRUE(before.at("replaced_by").is_null());
  const json wish = {{"version", before.at("version")},
                     {"body", {{"order", 17}, {"city", "Ulm"}}},
                     {"set_headers", {{"tenant", "beta"}, {"n", {{"!i32", 5}}}}},
                     {"unset_headers", {"debug"}},
                     {"reason", "the city was missing"}};
  const HttpAnswer made = edit(id, wish);
  ASSERT_EQ(made.status, 201) << made.body;
  const std::string child = made.json().at("retry_id");
  EXPECT_EQ(made.header("location"), "/v1/tasks/" + child);
  EXPECT_EQ(made.json().at("parent_id"), id);
  EXPECT_EQ(made.json().at("state"), "scheduled");
  const Received got = delivery(queue);
  EXPECT_EQ(retry_id(got), child);
  EXPECT_EQ(got.message.body, R"({"city":"Ulm","order":17})");
  EXPECT_EQ(text_header(got.message, "tenant"), "beta");
  EXPECT_EQ(int_header(got.message, "n"), 5);
  EXPECT_FALSE(has_header(got.message, "debug"));
  EXPECT_EQ(int_header(got.message, "retry-attempt"), 1);

  const json after = task(id);
  EXPECT_EQ(after.at("state"), "discarded");
  EXPECT_EQ(after.at("replaced_by"), child);
  const json change = get("/v1/tasks/" + id + "/audit").json().at("audit").at(0);
  EXPECT_EQ(change.at("what"), "edit");
  EXPECT_EQ(change.at("reason"), "the city was missing");
  EXPECT_EQ(change.at("after").at("headers"),
            (json{{"tenant", "changed"}, {"debug", "removed"}, {"n", "added"}}));
  EXPECT_EQ(change.at("before").at("body_sha256").get<std::string>().size(), 64U);
  EXPECT_THAT(change.dump(), AllOf(Not(HasSubstr("Ulm")), Not(HasSubstr("acme")), Not(HasSubstr("beta"))))
      << "a reader may not see messages";

  const HttpAnswer again = edit(id, wish);  // the version has changed by it
  EXPECT_EQ(again.status, 200) << again.body;
  EXPECT_EQ(again.json().at("retry_id"), child);
  json now = wish;
  now["version"] = after.at("version");
  EXPECT_EQ(edit(id, now).json().at("retry_id"), child);
  now["body"] = json{{"order", 18}};
  const HttpAnswer other = edit(id, now);
  EXPECT_THAT(refused(other, 409), HasSubstr("replaced by task " + child + " already, with another message"));
  EXPECT_EQ(other.json().at("replaced_by"), child);
  expect_nothing(queue);  // never two messages
  EXPECT_EQ(current(queue).size(), 2U);

  EXPECT_THAT(refused(post("/v1/tasks/" + id + "/redrive"), 409), HasSubstr(child));
  EXPECT_EQ(post("/v1/tasks/" + id + "/redrive", {{"include_replaced", true}}).status, 200);
  EXPECT_EQ(retry_id(delivery(queue)), id);
}

TEST_F(HttpEdit, TheBodyIsADownloadAndNeedsTheRight) {
  listen(", token_file: " + yaml(file("full", "full-token-1\n")) +
         ", read_token_file: " + yaml(file("read", "read-token-2\n")));
  up();
  const HttpClient::Headers full = {{"Authorization", "Bearer full-token-1"}};
  const HttpClient::Headers read = {{"Authorization", "Bearer read-token-2"}};
  const json page = {
      {"queue", "q"}, {"delay", "1h"}, {"body", "<script>1</script>"}, {"content_type", "text/html"}};
  const std::string id = call("POST", "/v1/tasks", page.dump(), full).json().at("retry_id");
  const HttpAnswer body = call("GET", "/v1/tasks/" + id + "/body", {}, full);
  EXPECT_EQ(body.status, 200);
  EXPECT_EQ(body.body, "<script>1</script>");
  EXPECT_EQ(body.header("content-type"), "application/octet-stream");
  EXPECT_EQ(body.header("x-content-type-options"), "nosniff");
  EXPECT_EQ(body.header("content-disposition"), "attachment; filename=\"" + id + ".body\"");
  EXPECT_EQ(body.header("message-content-type"), "text/html");
  EXPECT_EQ(body.header("cache-control"), "no-store");
  EXPECT_EQ(body.header("etag"), "\"1\"");
  const json odd = {
      {"queue", "q"}, {"delay", "1h"}, {"body_base64", "AP8K"}, {"content_type", "a\r\nSet-Cookie: x"}};
  const std::string other = call("POST", "/v1/tasks", odd.dump(), full).json().at("retry_id");
  const HttpAnswer bytes = call("GET", "/v1/tasks/" + other + "/body", {}, full);
  EXPECT_EQ(bytes.body, std::string("\0\xff\n", 3));
  EXPECT_EQ(bytes.header("message-content-type"), "");
  EXPECT_EQ(bytes.header("set-cookie"), "");
  EXPECT_EQ(call("GET", "/v1/tasks/" + id + "/body", {}, read).status, 403);
  EXPECT_EQ(call("GET", "/v1/tasks/" + id + "/body").status, 401);
  EXPECT_EQ(call("POST", "/v1/tasks/" + id + "/edit", "{}", read).status, 403);
  EXPECT_EQ(call("GET", "/v1/tasks/77/body", {}, full).status, 404);
}

// ---- What only HTTP has of the changes of tasks: If-Match, and what a repeated request is told. The rest:
// the CLI's tests by the API.

class HttpChanges : public HttpTest {
 protected:
  HttpAnswer change(const std::string& id, const std::string& what, const json& body = json::object(),
                    const HttpClient::Headers& headers = {}) {
    return call("POST", "/v1/tasks/" + id + "/" + what, body.dump(), headers);
  }
  std::string in_an_hour(const std::string& queue = "q") {
    return submit({{"queue", queue}, {"delay", "1h"}});
  }
};

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
