#include "src/core/base/url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/config/config.h"
#include "tests/unit/levels/seed.h"

namespace rung {
namespace {

using testing::HasSubstr;
using testing::Not;

Url parsed(std::string_view text) {
  auto url = parse_url(text);
  EXPECT_TRUE(url.has_value()) << text << ": " << url.error().message;
  return url.value_or(Url{});
}

std::string refused(std::string_view text) {
  const auto url = parse_url(text);
  EXPECT_FALSE(url.has_value()) << text;
  return url ? "" : url.error().message;
}

TEST(Url, TakesItsParts) {
  const Url url =
      parsed("AMQPS://us%65r:p%40ss%2Fw%C3%B6rd@rabbit-1.example.com:5671/my%2fhost?a=1&b=x%26y&c");
  EXPECT_EQ(url.scheme, "amqps");
  EXPECT_EQ(url.user, "user");
  EXPECT_EQ(url.password, "p@ss/wörd");
  EXPECT_EQ(url.host, "rabbit-1.example.com");
  EXPECT_EQ(url.port, 5671);
  EXPECT_EQ(url.path, "my/host");
  EXPECT_EQ(url.query, (std::map<std::string, std::string>{{"a", "1"}, {"b", "x&y"}, {"c", ""}}));
}

TEST(Url, LeavesOutWhatIsLeftOut) {
  const Url url = parsed("mysql://db");
  EXPECT_EQ(url.user, "");
  EXPECT_EQ(url.password, "");
  EXPECT_EQ(url.host, "db");
  EXPECT_EQ(url.port, 0);
  EXPECT_EQ(url.path, "");
  EXPECT_EQ(url.host_port(3306), "db:3306");
  EXPECT_EQ(parsed("mysql://me@db:7/s").host_port(3306), "db:7");
  EXPECT_EQ(parsed("mysql://me:@db/s").password, "");
  // RFC 3986 wants the @ encoded; clients everywhere take the last one.
  EXPECT_EQ(parsed("mysql://me:a@b@db/s").password, "a@b");
  EXPECT_EQ(parsed("mysql://me:a:b@db/s").password, "a:b");
}

TEST(Url, KnowsIpv6) {
  const Url url = parsed("amqp://u:p@[::1]:5672/x");
  EXPECT_EQ(url.host, "::1");
  EXPECT_EQ(url.port, 5672);
  EXPECT_EQ(url.host_port(1), "[::1]:5672");
  EXPECT_EQ(parsed("amqp://[fe80::2]").host_port(5672), "[fe80::2]:5672");
  EXPECT_THAT(refused("amqp://[::1"), HasSubstr("IPv6 address in []"));
  EXPECT_THAT(refused("amqp://[localhost]"), HasSubstr("IPv6 address in []"));
  EXPECT_THAT(refused("amqp://[::1]5672"), HasSubstr("IPv6 address in []"));
  EXPECT_THAT(refused("amqp://::1"), HasSubstr("no host"));
}

TEST(Url, VirtualHosts) {
  EXPECT_EQ(parsed("amqp://h").vhost(), "/");
  EXPECT_EQ(parsed("amqp://h/").vhost(), "/");
  EXPECT_EQ(parsed("amqp://h/%2f").vhost(), "/");
  EXPECT_EQ(parsed("amqp://h/%2F").vhost(), "/");
  EXPECT_EQ(parsed("amqp://h//").vhost(), "/");
  EXPECT_EQ(parsed("amqp://h/shop").vhost(), "shop");
}

TEST(Url, SaysWhatIsWrong) {
  EXPECT_THAT(refused(""), HasSubstr("empty"));
  EXPECT_THAT(refused("localhost:5672"), HasSubstr("scheme://"));
  EXPECT_THAT(refused("://h"), HasSubstr("scheme://"));
  EXPECT_THAT(refused("am qp://h"), HasSubstr("space"));
  EXPECT_THAT(refused("1mqp://h"), HasSubstr("scheme"));
  EXPECT_THAT(refused("amqp://"), HasSubstr("no host"));
  EXPECT_THAT(refused("amqp:///vhost"), HasSubstr("no host"));
  EXPECT_THAT(refused("amqp://h:0"), HasSubstr("port"));
  EXPECT_THAT(refused("amqp://h:65536"), HasSubstr("port"));
  EXPECT_THAT(refused("amqp://h:"), HasSubstr("port"));
  EXPECT_THAT(refused("amqp://h:99999999999999999999"), HasSubstr("port"));
  EXPECT_THAT(refused("amqp://h,i/"), HasSubstr("host"));
  EXPECT_THAT(refused("amqp://u:p%@h"), HasSubstr("write %25"));
  EXPECT_THAT(refused("amqp://u:p%4@h"), HasSubstr("write %25"));
  EXPECT_THAT(refused("amqp://u:p@h/%zz"), HasSubstr("path"));
  EXPECT_THAT(refused("amqp://u:p%00@h"), HasSubstr("NUL"));
  EXPECT_THAT(refused("amqp://u:p@h/x#y"), HasSubstr("%23"));
}

TEST(Url, NoErrorHoldsAPieceOfAPassword) {
  // However the secret breaks the URL.
  for (const auto* url :
       {"amqp://user:hunter/2secret@host", "amqp://user:hunter?2secret@host/x",
        "amqp://user:hunter#2secret@host", "amqp://user:hunter%2secret@host%",
        "amqp://user:hunter%zsecret@host", "amqp://user:hunter secret@host", "amqp://user:hunter2secret",
        "amqp://user:hunter@secret:x@host:y", "amqp://user:12/hunter2secret@host"}) {
    const auto what = refused(url);
    EXPECT_THAT(what, Not(HasSubstr("hunter"))) << url;
    EXPECT_THAT(what, Not(HasSubstr("secret"))) << url;
    const auto hidden = hide_password(url);
    EXPECT_THAT(hidden, Not(HasSubstr("hunter"))) << url;
    EXPECT_THAT(hidden, Not(HasSubstr("secret"))) << url;
  }
}

TEST(Url, WithoutPassword) {
  EXPECT_EQ(hide_password("amqp://u:p@h:5672/%2f"), "amqp://u:***@h:5672/%2f");
  EXPECT_EQ(hide_password("amqp://u:p@ss@h"), "amqp://u:***@h");
  EXPECT_EQ(hide_password("amqp://u@h/x"), "amqp://u@h/x");
  EXPECT_EQ(hide_password("amqp://h:5672/x"), "amqp://h:5672/x");
  EXPECT_EQ(hide_password("amqp://[::1]:5672/x"), "amqp://[::1]:5672/x");
  EXPECT_EQ(hide_password("https://h/a:b"), "https://h/a:b");
  EXPECT_EQ(hide_password("amqp://h/x?a=1&password=geheim&b=2"), "amqp://h/x?a=1&password=***&b=2");
  EXPECT_EQ(hide_password("u:p@h/s"), "u:***@h/s");
  EXPECT_EQ(hide_password(""), "");
}

TEST(UrlProperty, WhatIsFormattedIsReadBackAndHidden) {
  auto random = seeded();
  const auto any = [&](std::int64_t least) {
    std::string text;
    for (auto n = between(random, least, 12); n > 0; --n) text += static_cast<char>(between(random, 1, 255));
    return text;
  };
  for (int i = 0; i < 5000; ++i) {
    Url url{.scheme = "mysql",
            .user = any(1),
            .password = any(0),
            .host = i % 2 == 0 ? "db.example.com" : "::1",
            .port = static_cast<int>(between(random, 0, 65535)),
            .path = any(0),
            .query = {}};
    const std::string text = format_url(url);
    const auto back = parse_url(text);
    ASSERT_TRUE(back.has_value()) << text << ": " << back.error().message;
    ASSERT_EQ(*back, url) << text;
    if (url.password.empty()) continue;
    url.password = "***";
    std::string hidden = format_url(url);
    hidden.replace(hidden.find(":%2A%2A%2A@"), 11, ":***@");
    ASSERT_EQ(hide_password(text), hidden);
  }
}

}  // namespace
}  // namespace rung
