#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "src/otel/exporter.h"

namespace rung::otel {
namespace {

using Kind = ExportResult::Kind;

std::string partial(const nlohmann::json& rejected, const std::string& message) {
  return nlohmann::json{{"partialSuccess", {{"rejectedSpans", rejected}, {"errorMessage", message}}}}.dump();
}

ExportResult reply(int status, std::string body = {}) {
  net::HttpReply answer;
  answer.status = status;
  answer.body = std::move(body);
  return read_reply(answer, 10);
}

TEST(Reply, AFullSuccess) {
  for (const std::string body :
       {"", "{}", "\xFF\xFF", "[]", "7", R"({"partialSuccess": null})",
        R"({"partialSuccess": [1]})"}) {  // the status decides, whatever the body holds
    EXPECT_EQ(reply(200, body).kind, Kind::accepted);
    EXPECT_EQ(reply(200, body).rejected, 0);
  }
  EXPECT_EQ(reply(202).kind, Kind::accepted);
}

// OTLP's JSON writes 64 bits as text; some collectors write a number.
TEST(Reply, APartialSuccess) {
  for (const nlohmann::json& rejected : {nlohmann::json("3"), nlohmann::json(3)}) {
    const ExportResult result = reply(200, partial(rejected, "too old"));
    EXPECT_EQ(result.kind, Kind::accepted);
    EXPECT_EQ(result.rejected, 3);
    EXPECT_EQ(result.reason, "answers 200: too old");
  }
  for (const nlohmann::json& unreadable :
       {nlohmann::json("three"), nlohmann::json(nullptr), nlohmann::json(true)})
    EXPECT_EQ(reply(200, partial(unreadable, "too old")).rejected, 0);
}

// As large as the client lets an answer be: reading it must not need a stack as deep.
TEST(Reply, ADeeplyNestedBodyIsRead) {
  const std::size_t depth = net::HttpClientOptions{}.max_answer / 2;
  const std::string nested = std::string(depth, '[') + std::string(depth, ']');
  EXPECT_EQ(reply(200, nested).kind, Kind::accepted);
  EXPECT_EQ(reply(200, R"({"partialSuccess":)" + nested + "}").rejected, 0);
  EXPECT_EQ(reply(400, R"({"message":)" + nested + "}").reason, "answers 400");
}

TEST(Reply, RejectedIsNeverMoreThanWasSentNorLessThanNothing) {
  EXPECT_EQ(reply(200, partial(11, "")).rejected, 10);
  EXPECT_EQ(reply(200, partial(-1, "")).rejected, 0);
}

// A google.rpc.Status.
TEST(Reply, AFailuresTextIsTheReason) {
  const std::string status = R"({"code": 3, "message": "bad\nid", "details": [{}]})";
  EXPECT_EQ(reply(400, status).reason, "answers 400: bad\\nid");
  EXPECT_EQ(reply(503, status).reason, "answers 503: bad\\nid");
  EXPECT_EQ(reply(404, "<html>not here</html>").reason, "answers 404");
}

TEST(Reply, AFailuresTextIsCut) {
  const ExportResult result = reply(200, partial(1, std::string(5000, 'x')));
  EXPECT_EQ(result.reason, "answers 200: " + std::string(200, 'x'));
}

}  // namespace
}  // namespace rung::otel
