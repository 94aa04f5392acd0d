// A browser's login, with a provider that only records what it is asked.
#include "src/oidc/code_flow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/virtual_time.h"
#include "tests/unit/oidc/jwt_maker.h"

namespace rung::oidc {
namespace {

using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;

class CodeFlowTest : public testing::Test {
 protected:
  CodeFlowTest() {
    options.issuer = "https://id.example.com";
    options.client_id = "rung";
  }
  CodeFlow flow() {
    return {options, clock, [this] { return discovered; },
            [this](const std::string& url, const std::string& form) {
              asked.push_back(url + "?" + form);
              return reply;
            }};
  }
  static net::HttpReply answer(int status, const std::string& body) {
    net::HttpReply reply;
    reply.status = status;
    reply.body = body;
    return reply;
  }
  static std::string parameter(const std::string& url, const std::string& name) {
    const std::size_t at = url.find(name + "=") + name.size() + 1;
    return url.substr(at, url.find('&', at) - at);
  }

  test::VirtualClock clock;
  OidcOptions options;
  Discovered discovered{*read_keys(Json{{"keys", {test::SigningKey::ec().jwk("one")}}}.dump()),
                        "https://id.example.com/auth", "https://id.example.com/token"};
  net::HttpReply reply = answer(200, R"({"id_token": "a.b.c"})");
  std::vector<std::string> asked;
};

constexpr const char* kBack = "https://rung.example/v1/session/callback";

TEST_F(CodeFlowTest, TheCodeIsExchangedForAToken) {
  CodeFlow logins = flow();
  const auto begun = logins.begin(kBack, "/console/causes");
  ASSERT_TRUE(begun) << begun.error().message;
  EXPECT_THAT(begun->url, HasSubstr("https://id.example.com/auth?response_type=code&client_id=rung"));
  EXPECT_EQ(parameter(begun->url, "redirect_uri"), "https%3A%2F%2Frung.example%2Fv1%2Fsession%2Fcallback");
  EXPECT_EQ(parameter(begun->url, "scope"), "openid%20profile%20email");
  EXPECT_EQ(parameter(begun->url, "state"), begun->state);
  EXPECT_EQ(parameter(begun->url, "code_challenge").size(), 43U) << "32 bytes in base64url";
  const auto ended = logins.end(begun->state, "the code");
  ASSERT_TRUE(ended) << ended.error().message;
  EXPECT_EQ(ended->token, "a.b.c");
  EXPECT_EQ(ended->to, "/console/causes");
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_THAT(asked[0],
              HasSubstr("https://id.example.com/token?grant_type=authorization_code&code=the%20code"));
  EXPECT_THAT(asked[0], HasSubstr("code_verifier="));
  EXPECT_THAT(begun->url, Not(HasSubstr(parameter(asked[0], "code_verifier")))) << "only its digest";
}

TEST_F(CodeFlowTest, ALoginEndsOnceAndWithinTenMinutes) {
  CodeFlow logins = flow();
  const std::string state = logins.begin(kBack, "/")->state;
  EXPECT_EQ(logins.end("another", "c").error().kind, Error::Kind::not_found);
  EXPECT_TRUE(logins.end(state, "c"));
  EXPECT_EQ(logins.end(state, "c").error().kind, Error::Kind::not_found);
  const std::string late = logins.begin(kBack, "/")->state;
  clock.set(clock.boot() + CodeFlow::kLongest + Ms{1});
  EXPECT_EQ(logins.end(late, "c").error().kind, Error::Kind::not_found);
  EXPECT_EQ(asked.size(), 1U) << "the provider is not asked for what nobody began";
}

TEST_F(CodeFlowTest, StrangersCannotFillTheMemory) {
  CodeFlow logins = flow();
  const std::string first = logins.begin(kBack, "/")->state;
  clock.set(clock.boot() + Ms{1});
  std::string last;
  for (std::size_t i = 0; i < CodeFlow::kMost; ++i) last = logins.begin(kBack, "/")->state;
  EXPECT_FALSE(logins.end(first, "c")) << "it made room";
  EXPECT_TRUE(logins.end(last, "c"));
}

TEST_F(CodeFlowTest, SaysWhatTheProviderRefuses) {
  CodeFlow logins = flow();
  reply = answer(400, R"({"error": "invalid_grant", "error_description": "too \u001b late"})");
  const auto refused = logins.end(logins.begin(kBack, "/")->state, "c");
  EXPECT_THAT(refused.error().message, HasSubstr("invalid_grant"));
  EXPECT_THAT(refused.error().message, Not(HasSubstr("\x1b")));
  reply = answer(200, R"({"access_token": "x"})");
  EXPECT_THAT(logins.end(logins.begin(kBack, "/")->state, "c").error().message, HasSubstr("id_token"));
  EXPECT_FALSE(logins.end(logins.begin(kBack, "/")->state, "")) << "without a code";
}

TEST_F(CodeFlowTest, BeginsOnlyWhereTheProviderSaysWhere) {
  discovered.authorization_endpoint = "";
  EXPECT_THAT(flow().begin(kBack, "/").error().message, HasSubstr("authorization_endpoint"));
  discovered = {};
  EXPECT_TRUE(flow().begin(kBack, "/").error().is_transient()) << "it has not answered yet";
}

}  // namespace
}  // namespace rung::oidc
