#include <gtest/gtest.h>

#include "src/http/request/message.h"

namespace rung::http {
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

}  // namespace
}  // namespace rung::http
