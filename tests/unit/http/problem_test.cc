#include "src/http/request/problem.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace rung::http {
namespace {

TEST(Problem, Titles) {
  EXPECT_EQ(title_of(431), "Request Header Fields Too Large");
  EXPECT_EQ(title_of(799), "Error");
}

TEST(Problem, AnswersHoldNoControlOrFormatCharacter) {
  const Response response = answer(200, {{"message_id", "\x1b[2J\x7f\u009b\u202e\U000e0041"}});
  EXPECT_EQ(response.body, R"({"message_id":"\u001b[2J\u007f\u009b\u202e\udb40\udc41"})"
                           "\n");
}

TEST(Problem, Rfc9457) {
  const Response r = problem({{"delay", "it is a duration"}, {"x", "no such"}}, "/v1/tasks");
  EXPECT_EQ(r.status, 400);
  EXPECT_EQ(r.type, "application/problem+json");
  const Json json = Json::parse(r.body);
  EXPECT_EQ(json.at("title"), "Bad Request");
  EXPECT_EQ(json.at("status"), 400);
  EXPECT_EQ(json.at("detail"), "delay: it is a duration (and 1 more, see errors)");
  EXPECT_EQ(json.at("instance"), "/v1/tasks");
  EXPECT_EQ(json.at("errors")[1].at("field"), "x");
  const Response away = problem(Error{Error::Kind::transient, "away"}, "/x");
  EXPECT_EQ(away.status, 503);
  EXPECT_EQ(away.headers, (Pairs{{"Retry-After", "1"}}));
  EXPECT_EQ(problem(Error{Error::Kind::not_found, "x"}, "/x").status, 404);
  EXPECT_EQ(problem(Error{Error::Kind::permanent, "\xff"}, "/x").status, 500) << "also with broken UTF-8";
}

}  // namespace
}  // namespace rung::http
