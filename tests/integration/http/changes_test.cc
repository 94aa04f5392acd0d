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
