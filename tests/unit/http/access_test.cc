#include "src/http/access.h"

#include <gtest/gtest.h>

namespace rung::http {
namespace {

Request request(const std::string& authorization, const std::string& host = "127.0.0.1:8025") {
  Request r;
  r.method = "GET";
  r.path = "/v1/tasks";
  r.host = host;
  r.authorization = authorization;
  r.peer = "10.0.0.3";
  return r;
}
int status(const Access& access, const Request& r, bool writes) {
  const auto no = access.refuse(r, writes);
  return no ? no->status : 200;
}

TEST(Access, TokensSayWhoMayWhat) {
  const Access access(Tokens{{"full"}, {"read"}});
  EXPECT_EQ(status(access, request("Bearer full"), true), 200);
  EXPECT_EQ(status(access, request("Bearer read"), false), 200);
  EXPECT_EQ(status(access, request("Bearer read"), true), 403);
  for (const auto* wrong : {"", "Bearer ", "Bearer", "Bearer x", "full", "Bearer full ", "Basic full"})
    EXPECT_EQ(status(access, request(wrong), false), 401) << wrong;
  EXPECT_EQ(status(access, request("bEARER full"), true), 200) << "the scheme, not the token";
  EXPECT_EQ(access.who(request("Bearer full")), "token full, 10.0.0.3 (http)");
  EXPECT_EQ(access.who(request("Bearer read")), "token read, 10.0.0.3 (http)");
  // With a token the host may be any: it is no browser of somebody else's that knows one.
  EXPECT_EQ(status(access, request("Bearer full", "rung.example.com"), true), 200);
}

TEST(Access, WithoutAReadTokenAnEmptyOneIsNone) {
  const Access access(Tokens{{"full"}, {}});
  EXPECT_EQ(status(access, request("Bearer "), false), 401);
  EXPECT_EQ(status(access, request("Bearer full"), false), 200);
}

TEST(Access, WithoutTokensOnlyThisMachinesNames) {
  const Access access(Tokens{});
  EXPECT_EQ(status(access, request(""), true), 200);
  EXPECT_EQ(access.who(request("")), "no token, 10.0.0.3 (http)");
  EXPECT_EQ(status(access, request("", "evil.example"), false), 403);
  Request r = request("");
  r.origin = "http://127.0.0.1:8025";
  EXPECT_EQ(status(access, r, true), 200);
  r.origin = "http://127.0.0.1:9999";
  EXPECT_EQ(status(access, r, true), 403);
  r.origin = "null";
  EXPECT_EQ(status(access, r, true), 403);
}

TEST(Access, LoopbackHosts) {
  for (const auto* host : {"localhost", "localhost:1", "127.0.0.1", "127.1.2.3:80", "[::1]", "[::1]:80"})
    EXPECT_TRUE(is_loopback_host(host)) << host;
  for (const auto* host : {"", "127", "evil.com", "127.0.0.1.evil.com", "127.evil:1", "localhost.evil",
                           "[::2]", "[::1]x", "[::1", "::1", "10.0.0.1"})
    EXPECT_FALSE(is_loopback_host(host)) << host;
}

TEST(Access, SameSecret) {
  EXPECT_TRUE(same_secret("abc", "abc"));
  EXPECT_FALSE(same_secret("abc", "abd"));
  EXPECT_FALSE(same_secret("abc", "abcd"));
  EXPECT_FALSE(same_secret("", "a"));
}

}  // namespace
}  // namespace rung::http
