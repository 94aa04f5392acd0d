#include "src/api/base/message.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace rung::api {
namespace {

TEST(Target, Queries) {
  EXPECT_EQ(
      parse_query("message_id=a=b&queue=q1?x&&tag=a+b%26%3d&empty=&alone"),
      (Pairs{{"message_id", "a=b"}, {"queue", "q1?x"}, {"tag", "a b&="}, {"empty", ""}, {"alone", ""}}));
  EXPECT_EQ(parse_query(""), Pairs{});
  for (const auto* text : {"a=%", "a=%4", "a=%4g", "%zz=1"}) EXPECT_FALSE(parse_query(text)) << text;
}

TEST(Target, Paths) {
  EXPECT_EQ(decode_path("/v1/tasks/%35+"), "/v1/tasks/5+");
  EXPECT_EQ(decode_path("/%zz"), "/%zz");
  EXPECT_EQ(decode_path("/v1%2ftasks"), "/v1%2ftasks") << "not a path separator";
  EXPECT_EQ(decode_path("/v1%2Ftasks/%35"), "/v1%2Ftasks/%35");
  // So a segment is decoded if the path is not, and only then.
  Request request;
  EXPECT_EQ(decode_segment("a%2Fb", request), "a%2Fb");
  request.has_encoded_slash = has_encoded_slash("/v1/queues/a%2fb%20c/pause");
  EXPECT_EQ(decode_segment("a%2fb%20c", request), "a/b c");
}

TEST(Target, Cookies) {
  EXPECT_EQ(cookie_named("a", "a=1"), "1");
  EXPECT_EQ(cookie_named("a", "b=2; a=1; c=3"), "1");
  EXPECT_EQ(cookie_named("a", "b=2;a=1=1"), "1=1");
  for (const auto* without : {"", ";", "; ", "b=a=1", "aa=1", "a", "A=1"})
    EXPECT_EQ(cookie_named("a", without), "") << without;
}

TEST(Target, HostIsANameOrAnAddress) {
  for (const auto* good : {"localhost", "localhost:80", "127.0.0.1:8025", "[::1]", "[::1]:8025",
                           "rung.example.", "my_host-1", "localhost:"})
    EXPECT_TRUE(is_host(good)) << good;
  for (const auto* bad :
       {"", "localhost:80@evil", "user@localhost", "localhost/x", "localhost:x", "localhost:123456", "[::1",
        "[::1]x", "[]", "a b", "a,b", ":80", "localhost?x", "local%68ost", "\xC3\xA4"})
    EXPECT_FALSE(is_host(bad)) << bad;
}

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
  const Response r =
      problem(Problem(FieldErrors{{"delay", "it is a duration"}, {"x", "no such"}}), "/v1/tasks");
  EXPECT_EQ(r.status, 400);
  EXPECT_EQ(r.type, "application/problem+json");
  const Json json = Json::parse(r.body);
  EXPECT_EQ(json.at("title"), "Bad Request");
  EXPECT_EQ(json.at("status"), 400);
  EXPECT_EQ(json.at("detail"), "delay: it is a duration (and 1 more, see errors)");
  EXPECT_EQ(json.at("instance"), "/v1/tasks");
  EXPECT_EQ(json.at("errors")[1].at("field"), "x");
  const Response away = problem(Problem(Error{Error::Kind::transient, "away"}), "/x");
  EXPECT_EQ(away.status, 503);
  EXPECT_EQ(away.headers, (Pairs{{"Retry-After", "1"}}));
  EXPECT_EQ(Problem(Error{Error::Kind::not_found, "x"}).status, 404);
  EXPECT_EQ(problem(Problem(Error{Error::Kind::permanent, "\xff"}), "/x").status, 500)
      << "also with broken UTF-8";
}

}  // namespace
}  // namespace rung::api
