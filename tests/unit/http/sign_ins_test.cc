#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "src/http/access/access.h"
#include "tests/support/clock.h"

namespace rung::http {
namespace {

class SignInsTest : public testing::Test {
 protected:
  static Request request(const std::string& method, const std::string& cookie, const std::string& csrf = "") {
    Request r;
    r.method = method;
    r.path = "/v1/tasks/1/cancel";
    r.host = "127.0.0.1:8025";
    const std::string set = Cookies().set(Cookies::kSession, cookie, r);
    r.cookies = set.substr(0, set.find(';'));
    r.csrf = csrf;
    r.peer = "10.0.0.3";
    return r;
  }
  int status(const Request& r, Action action) const {
    try {
      (void)access.admit(r, action);
      return 200;
    } catch (const Problem& no) {
      return no.status;
    }
  }

  HandClock clock;
  SignIns sign_ins{clock};
  Access access{Tokens{{"full"}, {"read"}, {}}, {}, &sign_ins};
};

TEST_F(SignInsTest, ACookieStandsForItsToken) {
  const std::string cookie = sign_ins.open("read");
  EXPECT_EQ(status(request("GET", cookie), Action::read), 200);
  EXPECT_EQ(status(request("GET", "somebody else's"), Action::read), 401);
  EXPECT_EQ(status(request("GET", ""), Action::read), 401);
  const std::string csrf = sign_ins.find(cookie)->csrf;
  EXPECT_EQ(status(request("POST", cookie, csrf), Action::cancel), 403) << "the role of the token";
  sign_ins.close(cookie);
  EXPECT_EQ(status(request("GET", cookie), Action::read), 401);
}

TEST_F(SignInsTest, AChangeNeedsTheSecretThatOnlyOurPagesKnow) {
  const std::string cookie = sign_ins.open("full");
  const std::string csrf = sign_ins.find(cookie)->csrf;
  EXPECT_EQ(status(request("POST", cookie, csrf), Action::cancel), 200);
  EXPECT_EQ(status(request("POST", cookie), Action::cancel), 403);
  EXPECT_EQ(status(request("POST", cookie, csrf + "0"), Action::cancel), 403);
  EXPECT_EQ(status(request("POST", cookie, sign_ins.find(sign_ins.open("full"))->csrf), Action::cancel), 403)
      << "that of another sign-in";
  Request foreign = request("POST", cookie, csrf);
  for (const char* site : {"cross-site", "same-site"}) {
    foreign.fetch_site = site;
    EXPECT_EQ(status(foreign, Action::cancel), 403) << site;
  }
  foreign.fetch_site = "same-origin";
  EXPECT_EQ(status(foreign, Action::cancel), 200);
  foreign.fetch_site = "";
  foreign.origin = "http://evil.example";
  EXPECT_EQ(status(foreign, Action::cancel), 403) << "a browser that sends no Sec-Fetch-Site";
}

TEST_F(SignInsTest, AHeaderWithATokenIsTakenInsteadOfTheCookie) {
  Request both = request("POST", sign_ins.open("full"));
  both.authorization = "Bearer read";
  EXPECT_EQ(status(both, Action::cancel), 403);
  both.authorization = "Bearer full";
  EXPECT_EQ(status(both, Action::cancel), 200) << "no page of another site can set this header";
}

TEST_F(SignInsTest, AWithdrawnTokenEndsTheSignIn) {
  const std::string cookie = sign_ins.open("full");
  access.replace(Tokens{{"other"}, {}, {}});
  EXPECT_EQ(status(request("GET", cookie), Action::read), 401);
}

TEST_F(SignInsTest, ASignInEndsUnusedAndAtTheLatestAfterADay) {
  const std::string idle = sign_ins.open("full"), used = sign_ins.open("full");
  for (Ms waited{0}; waited < SignIns::kLongest; waited += std::chrono::hours{4}) {
    EXPECT_TRUE(sign_ins.find(used)) << waited.count();
    clock.advance(std::chrono::hours{4});
  }
  EXPECT_FALSE(sign_ins.find(idle));
  clock.advance(Ms{1});
  EXPECT_FALSE(sign_ins.find(used)) << "a day after it began";
}

TEST_F(SignInsTest, TheOneUnusedForTheLongestTimeMakesRoom) {
  const std::string first = sign_ins.open("full"), second = sign_ins.open("full");
  clock.advance(Ms{1});
  EXPECT_TRUE(sign_ins.find(first));
  for (std::size_t i = 2; i < SignIns::kMost + 1; ++i) sign_ins.open("token " + std::to_string(i));
  EXPECT_TRUE(sign_ins.find(first));
  EXPECT_FALSE(sign_ins.find(second));
}

TEST_F(SignInsTest, OneTokenCannotSignOthersOut) {
  const std::string other = sign_ins.open("read"), first = sign_ins.open("full");
  clock.advance(Ms{1});
  for (std::size_t i = 0; i < 2 * SignIns::kMost; ++i) sign_ins.open("full");
  EXPECT_TRUE(sign_ins.find(other));
  EXPECT_FALSE(sign_ins.find(first));
}

Request request_to(const std::string& host, const std::string& origin = "") {
  Request request;
  request.host = host;
  request.origin = origin;
  return request;
}

TEST(CookiesTest, AttributesFollowTheWayOfTheBrowser) {
  const std::string usual = "; HttpOnly; SameSite=Strict";
  struct Way {
    std::string url;
    bool tls = false;
    std::string host, origin, prefix, scope;
  };
  for (const Way& way : std::vector<Way>{
           {"", false, "10.0.0.1:8025", "http://10.0.0.1:8025", "", "/"},
           {"", true, "127.0.0.1:8025", "https://127.0.0.1:8025", "__Host-", "/; Secure"},
           {"", false, "rung.example", "https://rung.example", "", "/; Secure"},  // a proxy hides TLS
           {"https://rung.example", false, "sidecar:8025", "", "__Host-", "/; Secure"},
           {"https://example.com/rung", false, "example.com", "", "__Secure-", "/rung; Secure"},
           {"http://example.com/rung", false, "example.com", "", "", "/rung"},
           {"https://rung.example", false, "localhost:8025", "http://localhost:8025", "", "/"}}) {
    const Cookies cookies(way.url, way.tls);
    const Request request = request_to(way.host, way.origin);
    EXPECT_THAT(cookies.set(Cookies::kSession, "abc", request),
                testing::MatchesRegex(way.prefix + "rung_session_[0-9a-f]{8}=abc; Path=" + way.scope + usual))
        << way.url << way.host;
    EXPECT_THAT(cookies.set(Cookies::kSession, "", request), testing::EndsWith(usual + "; Max-Age=0"));
    EXPECT_THAT(cookies.set(Cookies::kLogin, "abc", request),
                testing::MatchesRegex(way.prefix + "rung_login_[0-9a-f]{8}=abc; Path=" + way.scope +
                                      "; HttpOnly; SameSite=Lax; Max-Age=600"));
  }
}

TEST(CookiesTest, TwoApisOnOneHostHaveTwo) {
  const auto pair = [](const Cookies& cookies, const std::string& host) {
    const std::string set = cookies.set(Cookies::kSession, "of " + host, request_to(host));
    return set.substr(0, set.find(';'));
  };
  Request other = request_to("a");
  other.cookies = pair(Cookies(), "a") + "\xff";
  EXPECT_EQ(Cookies().get(Cookies::kSession, other), "of a\xff") << "not a part of it";
  Request both = request_to("localhost:8025");
  both.cookies = pair(Cookies(), "localhost:8026") + "; " + pair(Cookies(), "localhost:8025");
  EXPECT_EQ(Cookies().get(Cookies::kSession, both), "of localhost:8025");
  both.host = "localhost:8027";
  EXPECT_EQ(Cookies().get(Cookies::kSession, both), "");
  const Cookies eu("https://example.com/eu"), us("https://example.com/us");
  EXPECT_NE(pair(eu, "example.com"), pair(us, "example.com"));
}

TEST(CookiesTest, OriginIsLookedAtWhereTheBrowserSaysNoMore) {
  const Cookies plain, proxied("https://example.com/rung");
  for (const auto* own : {"", "http://h:8025", "https://h:8025"})
    EXPECT_FALSE(plain.from_other_site(request_to("h:8025", own))) << own;
  for (const auto* other : {"http://h", "http://h:8026", "http://evil.example", "null"})
    EXPECT_TRUE(plain.from_other_site(request_to("h:8025", other))) << other;
  EXPECT_FALSE(plain.from_other_site(request_to("h:443", "https://h")));
  EXPECT_FALSE(proxied.from_other_site(request_to("sidecar:8025", "https://example.com")));
  EXPECT_TRUE(proxied.from_other_site(request_to("sidecar:8025", "http://example.com")));
  Request said = request_to("sidecar:8025", "https://behind-a-proxy.example");
  said.fetch_site = "same-origin";
  EXPECT_FALSE(plain.from_other_site(said)) << "the proxy did not pass on Host";
}

}  // namespace
}  // namespace rung::http
