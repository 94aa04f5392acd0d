#include "src/http/access/sign_ins.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "src/http/access/access.h"

namespace rung::http {
namespace {

class HandClock final : public Clock {
 public:
  BootUs boot_us() const override { return {now_.ms * 1000}; }
  EpochMs wall() const override { return {now_.ms}; }
  void advance(Ms by) { now_ = now_ + by; }

 private:
  BootMs now_{1'000'000};
};

class SignInsTest : public testing::Test {
 protected:
  static Request request(const std::string& method, const std::string& cookie, const std::string& csrf = "") {
    Request r;
    r.method = method;
    r.path = "/v1/tasks/1/cancel";
    r.host = "127.0.0.1:8025";
    r.cookie = cookie;
    r.csrf = csrf;
    r.peer = "10.0.0.3";
    return r;
  }
  int status(const Request& r, Action action) const {
    const auto person = access.admit(r, action);
    return person ? 200 : person.error().status;
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

TEST_F(SignInsTest, TheCookieIsForThisSiteAndNotForScripts) {
  EXPECT_EQ(SignIns::set_cookie("abc", false), "rung_session=abc; Path=/; HttpOnly; SameSite=Strict");
  EXPECT_EQ(SignIns::set_cookie("abc", true), "rung_session=abc; Path=/; HttpOnly; SameSite=Strict; Secure");
  EXPECT_EQ(SignIns::set_cookie("", false), "rung_session=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0");
}

}  // namespace
}  // namespace rung::http
