// Discovery, the thread that fetches keys, and who a token is, with a provider that answers as the test says.
#include "src/oidc/provider.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "tests/support/clock.h"
#include "tests/support/http_script.h"
#include "tests/unit/oidc/jwt_maker.h"

namespace rung::oidc {
namespace {

using test::HttpScript;
using test::Json;
using test::SigningKey;
using testing::HasSubstr;

// An identity provider. Its answers can be changed while it runs.
class FakeProvider {
 public:
  FakeProvider()
      : server_([this](const HttpScript::Request& request, std::size_t) {
          const std::lock_guard lock(mutex_);
          auto answer = request.target == "/keys" ? keys_ : request.target == "/token" ? token_ : discovery_;
          answer.headers["Connection"] = "close";  // it serves one connection at a time
          return answer;
        }) {
    discovery_.body = Json{{"issuer", issuer()},
                           {"jwks_uri", issuer() + "/keys"},
                           {"authorization_endpoint", issuer() + "/auth"},
                           {"token_endpoint", issuer() + "/token"}}
                          .dump();
  }
  std::string issuer() const { return server_.url(); }
  std::size_t requests() const { return server_.requests().size(); }
  // The form of the last request.
  std::string form() const { return server_.requests().back().body; }
  bool wait_for(std::size_t requests) const { return server_.wait_for(requests); }
  void set_keys(const std::vector<Json>& all) { set(keys_, {.body = Json{{"keys", all}}.dump()}); }
  void answer_keys(HttpScript::Answer answer) { set(keys_, std::move(answer)); }
  void set_token(int status, const std::string& body) { set(token_, {.status = status, .body = body}); }
  void set_discovery(HttpScript::Answer answer) { set(discovery_, std::move(answer)); }

 private:
  void set(HttpScript::Answer& which, HttpScript::Answer answer) {
    const std::lock_guard lock(mutex_);
    which = std::move(answer);
  }
  std::mutex mutex_;
  HttpScript::Answer discovery_, keys_, token_{.body = R"({"id_token": "a.b.c"})"};
  HttpScript server_;
};

// What a Provider reports.
class Reports {
 public:
  Provider::OnProblem take() {
    return [this](const std::string& problem) {
      const std::lock_guard lock(mutex_);
      all_.push_back(problem);
      more_.notify_all();
    };
  }
  std::string wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    more_.wait_for(lock, std::chrono::minutes{2}, [&] { return all_.size() >= count; });
    return all_.size() < count ? "nothing reported" : all_[count - 1];
  }

 private:
  std::mutex mutex_;
  std::condition_variable more_;
  std::vector<std::string> all_;
};

OidcOptions options_for(const FakeProvider& provider) {
  OidcOptions o;
  o.issuer = provider.issuer();
  o.client_id = "rung";
  o.roles_claim = "groups";
  o.map = {{"sre", {Role::acts, nullptr}}};
  return o;
}
// Nothing happens by itself.
ProviderLimits by_hand() {
  constexpr Ms kNever = std::chrono::hours{1};
  return {.refresh = kNever, .retry = kNever};
}

Json claims_of(const FakeProvider& provider) {
  return {{"iss", provider.issuer()}, {"aud", "rung"},        {"sub", "alice"},
          {"iat", 1'800'000'000},     {"exp", 1'800'000'300}, {"groups", {"sre"}}};
}

// The keys are taken after the report: waits for the counts.
void wait_for_fetches(const Provider& provider, std::int64_t fetches) {
  while (provider.counts().fetched + provider.counts().failed < fetches)
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
}

Result<Discovered> fetch(const OidcOptions& o) {
  net::HttpClient client(client_options(""));
  return discover(o, client);
}

TEST(Discovery, TheIssuerNamesItsKeys) {
  FakeProvider provider;
  provider.set_keys({SigningKey::ec().jwk("one")});
  const std::string page = provider.issuer() + "/auth", plain = "http://id.example.com/token";
  provider.set_discovery({.body = Json{
                              {"issuer", provider.issuer()},
                              {"jwks_uri", provider.issuer() + "/keys"},
                              {"authorization_endpoint", page},
                              {"token_endpoint",
                               plain}}.dump()});
  const auto found = fetch(options_for(provider));
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(size_of(*found->keys), 1U);
  EXPECT_EQ(found->authorization_endpoint, page);
  EXPECT_EQ(found->token_endpoint, "") << "not https";
  EXPECT_EQ(discovery_url("https://id/realms/a"), "https://id/realms/a/.well-known/openid-configuration");
  EXPECT_EQ(discovery_url("https://id/"), "https://id/.well-known/openid-configuration");
}

TEST(Discovery, WhatIsWrongWithTheDocuments) {
  FakeProvider provider;
  const OidcOptions o = options_for(provider);
  const auto wrong = [&](const Json& document) {
    provider.set_discovery({.body = document.dump()});
    const auto keys = fetch(o);
    return keys ? "fetched" : keys.error().message;
  };
  EXPECT_THAT(wrong({{"issuer", o.issuer + "/"}, {"jwks_uri", o.issuer + "/keys"}}),
              HasSubstr("of another issuer"));
  EXPECT_THAT(wrong({{"jwks_uri", o.issuer + "/keys"}}), HasSubstr("names no issuer"));
  EXPECT_THAT(wrong("text"), HasSubstr("names no issuer"));
  for (const std::string& uri :
       {std::string("http://keys.example.com/"), std::string("file:///etc/passwd"), std::string(),
        std::string("https://u:p@h/"), "https://h/" + std::string(3000, 'x')})
    EXPECT_THAT(wrong({{"issuer", o.issuer}, {"jwks_uri", uri}}), HasSubstr("no jwks_uri that may be used"))
        << uri;
  provider.set_discovery({.body = Json{{"issuer", o.issuer}, {"jwks_uri", o.issuer + "/keys"}}.dump()});
  provider.answer_keys({.status = 500});
  EXPECT_THAT(fetch(o).error().message, HasSubstr("/keys answers with status 500"));
  provider.answer_keys({.body = "{}"});
  EXPECT_THAT(fetch(o).error().message, HasSubstr("/keys: not a JWKS document"));
  provider.answer_keys({.status = HttpScript::kEndlessBody});
  EXPECT_THAT(fetch(o).error().message, HasSubstr("answers with more than 512 KB"));
}

// A redirect is not followed: it could lead anywhere.
TEST(Discovery, ARedirectIsAnError) {
  FakeProvider provider;
  provider.set_discovery({.status = 302, .headers = {{"Location", provider.issuer() + "/keys"}}});
  EXPECT_THAT(fetch(options_for(provider)).error().message, HasSubstr("status 302"));
}

// The provider's key is known, and a moment has passed since it was fetched.
class KnownKey : public testing::Test {
 protected:
  KnownKey() {
    fake.set_keys({key.jwk("one")});
    provider.emplace(
        options_for(fake), clock, [](const std::string&) {}, by_hand());
    wait_for_fetches(*provider, 1);
  }
  std::string token(const SigningKey& of, const std::string& kid) const {
    return of.sign({{"alg", "ES256"}, {"kid", kid}}, claims_of(fake).dump());
  }
  void fetch_again() {
    clock.advance(by_hand().between_asked);
    EXPECT_TRUE(provider->ask_for_refresh());
    wait_for_fetches(*provider, ++fetches_);
  }

  FakeProvider fake;
  const SigningKey key = SigningKey::ec(), fresh = SigningKey::ec();
  HandClock clock;
  std::optional<Provider> provider;

 private:
  std::int64_t fetches_ = 1;
};

// The provider has a new key, under a kid of its own or that of the old one. The first token of it makes the
// keys be fetched; strangers can not do that often.
class AnotherKey : public KnownKey, public testing::WithParamInterface<const char*> {};

TEST_P(AnotherKey, MakesItAskAtMostOnceInAWhile) {
  fake.set_keys({fresh.jwk(GetParam())});
  const std::string other = token(fresh, GetParam());
  EXPECT_EQ(provider->person_of(other).error().kind, Refusal::Kind::unknown_key) << "just fetched";
  EXPECT_EQ(fake.requests(), 2U);
  clock.advance(by_hand().between_asked);
  EXPECT_EQ(provider->person_of(other).error().kind, Refusal::Kind::later);
  wait_for_fetches(*provider, 2);
  EXPECT_TRUE(provider->person_of(other));
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(provider->person_of(token(key, "one")).error().kind, Refusal::Kind::unknown_key);
  EXPECT_EQ(fake.requests(), 4U);
}

INSTANTIATE_TEST_SUITE_P(Kids, AnotherKey, testing::Values("new", "one"));

// A key that the provider has withdrawn is not valid any more.
TEST_F(KnownKey, ThatIsGoneIsGone) {
  fake.set_keys({fresh.jwk("new")});
  fetch_again();
  EXPECT_EQ(provider->person_of(token(key, "one")).error().kind, Refusal::Kind::unknown_key);
}

// All of them, too; an answer that is no list of keys withdraws none.
TEST_F(KnownKey, IsGoneWhenAllAreWithdrawn) {
  fake.answer_keys({.body = "<html>"});
  fetch_again();
  EXPECT_TRUE(provider->person_of(token(key, "one")));
  fake.set_keys({});
  fetch_again();
  EXPECT_EQ(provider->person_of(token(key, "one")).error().kind, Refusal::Kind::later);
  EXPECT_EQ(provider->counts().valid, 0U);
}

TEST(Provider, WhileTheProviderIsAwayItsKeysAreValidForADay) {
  FakeProvider fake;
  const SigningKey key = SigningKey::ec();
  fake.set_keys({key.jwk("one")});
  HandClock clock;
  Reports reports;
  Provider provider(options_for(fake), clock, reports.take(), by_hand());
  EXPECT_EQ(reports.wait_for(1), "");
  wait_for_fetches(provider, 1);
  fake.set_discovery({.status = HttpScript::kCut});
  clock.advance(by_hand().oldest);
  EXPECT_TRUE(provider.ask_for_refresh());
  EXPECT_THAT(reports.wait_for(2), HasSubstr("openid-configuration cannot be used"));
  wait_for_fetches(provider, 2);
  const std::string token = key.sign({{"alg", "ES256"}, {"kid", "one"}}, claims_of(fake).dump());
  EXPECT_TRUE(provider.person_of(token));
  EXPECT_EQ(provider.counts().failed, 1);
  clock.advance(Ms{1});
  EXPECT_EQ(provider.person_of(token).error().kind, Refusal::Kind::later) << "too old";
  EXPECT_EQ(provider.counts().valid, 0U);
  fake.set_discovery({.body = Json{{"issuer", fake.issuer()}, {"jwks_uri", fake.issuer() + "/keys"}}.dump()});
  clock.advance(by_hand().between_asked);
  EXPECT_TRUE(provider.ask_for_refresh());
  EXPECT_EQ(reports.wait_for(3), "");
}

TEST(Provider, ItTriesAgainAndRefreshesByItself) {
  FakeProvider fake;
  fake.answer_keys({.status = 503});
  const HandClock clock;
  Reports reports;
  Provider provider(options_for(fake), clock, reports.take(), {.refresh = Ms{1}, .retry = Ms{1}});
  EXPECT_THAT(reports.wait_for(1), HasSubstr("status 503"));
  fake.set_keys({SigningKey::ec().jwk("one")});
  EXPECT_EQ(reports.wait_for(2), "");
  wait_for_fetches(provider, provider.counts().fetched + provider.counts().failed + 3);
}

TEST(Provider, EndsWhileTheProviderIsSilent) {
  FakeProvider fake;
  fake.set_discovery({.status = HttpScript::kSilent});
  const HandClock clock;
  Provider provider(
      options_for(fake), clock, [](const std::string&) { ADD_FAILURE(); }, by_hand());
  ASSERT_TRUE(fake.wait_for(1));
  EXPECT_EQ(provider.discovered().keys, nullptr);
}

TEST_F(KnownKey, AReloadChangesWhoMayWhat) {
  const std::string alice = token(key, "one");
  EXPECT_EQ(provider->person_of(alice)->role, Role::acts);
  OidcOptions other = options_for(fake);
  other.map = {{"sre", {Role::administers, nullptr}}};
  other.roles_claim = "roles";  // whose `sre` may be others
  EXPECT_FALSE(provider->replace_grants(other));
  EXPECT_EQ(provider->person_of(alice)->role, Role::acts);
  other.roles_claim = "groups";
  EXPECT_TRUE(provider->replace_grants(other));
  EXPECT_EQ(provider->person_of(alice)->role, Role::administers);
  EXPECT_TRUE(provider->replace_grants({})) << "http.oidc was removed";
  EXPECT_EQ(provider->person_of(alice).error().kind, Refusal::Kind::invalid);
  EXPECT_TRUE(provider->replace_grants(other));
  EXPECT_EQ(provider->person_of(alice)->role, Role::administers);
}

// ---- A browser's login.

using testing::Not;

constexpr const char* kBack = "https://rung.example/v1/session/callback";

class Login : public KnownKey {
 protected:
  std::string begin() { return provider->begin_login(kBack, "/")->state; }
  static std::string parameter(const std::string& url, const std::string& name) {
    const std::size_t at = url.find(name + "=") + name.size() + 1;
    return url.substr(at, url.find('&', at) - at);
  }
};

TEST_F(Login, ExchangesTheCodeForAToken) {
  const auto begun = provider->begin_login(kBack, "/console/causes");
  ASSERT_TRUE(begun) << begun.error().message;
  EXPECT_THAT(begun->url, HasSubstr(fake.issuer() + "/auth?response_type=code&client_id=rung"));
  EXPECT_EQ(parameter(begun->url, "redirect_uri"), "https%3A%2F%2Frung.example%2Fv1%2Fsession%2Fcallback");
  EXPECT_EQ(parameter(begun->url, "scope"), "openid%20profile%20email");
  EXPECT_EQ(parameter(begun->url, "state"), begun->state);
  EXPECT_EQ(parameter(begun->url, "code_challenge").size(), 43U) << "32 bytes in base64url";
  const auto ended = provider->end_login(begun->state, "the code");
  ASSERT_TRUE(ended) << ended.error().message;
  EXPECT_EQ(ended->token, "a.b.c");
  EXPECT_EQ(ended->to, "/console/causes");
  EXPECT_THAT(fake.form(), HasSubstr("grant_type=authorization_code&code=the%20code"));
  EXPECT_THAT(fake.form(), HasSubstr("code_verifier="));
  EXPECT_THAT(begun->url, Not(HasSubstr(parameter(fake.form(), "code_verifier")))) << "only its digest";
}

TEST_F(Login, EndsOnceAndWithinTenMinutes) {
  const std::string state = begin();
  EXPECT_EQ(provider->end_login("another", "c").error().kind, Error::Kind::not_found);
  EXPECT_TRUE(provider->end_login(state, "c"));
  EXPECT_EQ(provider->end_login(state, "c").error().kind, Error::Kind::not_found);
  const std::string late = begin();
  clock.advance(Provider::kLongestLogin + Ms{1});
  EXPECT_EQ(provider->end_login(late, "c").error().kind, Error::Kind::not_found);
  EXPECT_EQ(fake.requests(), 3U) << "the provider is not asked for what nobody began";
}

TEST_F(Login, OfStrangersCannotFillTheMemory) {
  const std::string first = begin();
  clock.advance(Ms{1});
  std::string last;
  for (std::size_t i = 0; i < Provider::kMostLogins; ++i) last = begin();
  EXPECT_FALSE(provider->end_login(first, "c")) << "it made room";
  EXPECT_TRUE(provider->end_login(last, "c"));
}

TEST_F(Login, SaysWhatTheProviderRefuses) {
  fake.set_token(400, R"({"error": "invalid_grant", "error_description": "too \u001b late"})");
  const auto refused = provider->end_login(begin(), "c");
  EXPECT_THAT(refused.error().message, HasSubstr("invalid_grant"));
  EXPECT_THAT(refused.error().message, Not(HasSubstr("\x1b")));
  fake.set_token(200, R"({"access_token": "x"})");
  EXPECT_THAT(provider->end_login(begin(), "c").error().message, HasSubstr("id_token"));
  EXPECT_FALSE(provider->end_login(begin(), "")) << "without a code";
}

TEST_F(Login, BeginsOnlyWhereTheProviderSaysWhere) {
  fake.set_discovery({.body = Json{{"issuer", fake.issuer()}, {"jwks_uri", fake.issuer() + "/keys"}}.dump()});
  fetch_again();
  EXPECT_THAT(provider->begin_login(kBack, "/").error().message, HasSubstr("authorization_endpoint"));
  clock.advance(by_hand().oldest + Ms{1});
  EXPECT_TRUE(provider->begin_login(kBack, "/").error().is_transient()) << "its keys are too old";
}

}  // namespace
}  // namespace rung::oidc
