#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "src/oidc/provider.h"

namespace rung::oidc {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::int64_t kNow = 1'800'000'000;  // s

QueueScopePtr queues(const std::vector<std::string>& texts) {
  return std::make_shared<const QueueScope>(std::vector<QueuePattern>(texts.begin(), texts.end()));
}

OidcOptions options() {
  OidcOptions o;
  o.issuer = "https://id.example.com/realms/main";
  o.client_id = "rung";
  o.clients = {"ci"};
  o.roles_claim = "groups";
  o.map = {{"admins", {Role::administers, nullptr}},
           {"sre", {Role::acts, nullptr}},
           {"billing", {Role::acts, queues({"billing.*", "pay"})}},
           {"shop", {Role::acts, queues({"shop", "pay"})}},
           {"everyone", {Role::reads, nullptr}}};
  return o;
}

Json claims(const Json& more = Json::object()) {
  Json all{{"iss", options().issuer}, {"aud", "rung"},     {"sub", "f:17"},
           {"iat", kNow - 10},        {"exp", kNow + 300}, {"preferred_username", "alice"},
           {"groups", {"everyone"}}};
  for (const auto& [name, value] : more.items()) {
    if (value.is_null()) {
      all.erase(name);
    } else {
      all[name] = value;
    }
  }
  return all;
}

tl::expected<Person, Refusal> bearer(const Json& more, const OidcOptions& o = options()) {
  return bearer_of(claims(more).dump(), o, EpochMs{kNow * 1000});
}
std::string refusal(const Json& more) {
  const auto found = bearer(more);
  if (found) return "accepted";
  EXPECT_EQ(found.error().kind, Refusal::Kind::invalid);
  return found.error().what;
}
Person person(const Json& more, const OidcOptions& o = options()) {
  const auto found = bearer(more, o);
  EXPECT_TRUE(found) << found.error().what;
  return found.value_or(Person{});
}

TEST(Claims, APersonOfTheProvider) {
  const Person alice = person(Json::object());
  EXPECT_EQ(alice.name, "alice");
  EXPECT_EQ(alice.role, Role::reads);
  EXPECT_EQ(alice.queues, nullptr);
  EXPECT_TRUE(alice.signed_in);
}

TEST(Claims, TheSubjectIsInTheFormOfANameAndCut) {
  EXPECT_EQ(person({{"sub", "7f3c-0a"}, {"preferred_username", "alice"}}).subject, "7f3c-0a");
  EXPECT_EQ(person({{"sub", "a), root (http"}}).subject, "a___root__http");
  EXPECT_EQ(person({{"sub", std::string(255, 'x')}}).subject.size(), 40U);
}

TEST(Claims, Times) {
  EXPECT_EQ(refusal({{"exp", kNow - 59}}), "accepted") << "clocks differ";
  EXPECT_THAT(refusal({{"exp", kNow - 60}}), HasSubstr("expired"));
  EXPECT_THAT(refusal({{"exp", kNow - 100.5}}), HasSubstr("expired"));
  EXPECT_EQ(refusal({{"nbf", kNow + 60}, {"iat", kNow + 60}}), "accepted");
  EXPECT_THAT(refusal({{"nbf", kNow + 61}}), HasSubstr("not valid yet"));
  EXPECT_THAT(refusal({{"iat", kNow + 61}}), HasSubstr("not valid yet"));
  EXPECT_THAT(refusal({{"exp", nullptr}}), HasSubstr("no claim exp"));
  EXPECT_THAT(refusal({{"iat", nullptr}}), HasSubstr("no claim iat"));
  for (const Json& odd : {Json("1900000000"), Json(-1), Json(1e300), Json(true), Json::array()})
    EXPECT_THAT(refusal({{"exp", odd}}), HasSubstr("no claim exp")) << odd;
  EXPECT_THAT(refusal({{"nbf", "soon"}}), HasSubstr("no claim nbf"));
}

TEST(Claims, IssuerAndAudience) {
  EXPECT_THAT(refusal({{"iss", options().issuer + "/"}}), HasSubstr("another issuer"));
  EXPECT_THAT(refusal({{"iss", nullptr}}), HasSubstr("no claim iss"));
  EXPECT_THAT(refusal({{"iss", {options().issuer}}}), HasSubstr("no claim iss"));
  EXPECT_THAT(refusal({{"aud", "account"}}), HasSubstr("another audience"));
  EXPECT_THAT(refusal({{"aud", "RUNG"}}), HasSubstr("another audience"));
  EXPECT_THAT(refusal({{"aud", nullptr}}), HasSubstr("no claim aud"));
  EXPECT_THAT(refusal({{"aud", {"rung", 7}}}), HasSubstr("no claim aud"));
  EXPECT_EQ(refusal({{"aud", {"rung"}}}), "accepted");
  EXPECT_THAT(refusal({{"sub", nullptr}}), HasSubstr("no claim sub"));
}

TEST(Claims, TheClientThatHasTheToken) {
  EXPECT_EQ(refusal({{"azp", "rung"}}), "accepted");
  EXPECT_EQ(refusal({{"azp", "ci"}}), "accepted") << "http.oidc.clients";
  EXPECT_THAT(refusal({{"azp", "wiki"}}), HasSubstr("(azp) that is neither"));
  EXPECT_THAT(refusal({{"azp", 7}}), HasSubstr("(azp) that is neither"));
  EXPECT_THAT(refusal({{"client_id", "wiki"}}), HasSubstr("(client_id) that is neither"));
  EXPECT_EQ(refusal({{"client_id", "ci"}}), "accepted");
  EXPECT_THAT(refusal({{"azp", "wiki"}, {"client_id", "ci"}}), HasSubstr("(azp) that is neither"));
  EXPECT_THAT(refusal({{"aud", {"rung", "account"}}}), HasSubstr("several audiences"));
  EXPECT_EQ(refusal({{"aud", {"account", "rung"}}, {"azp", "rung"}}), "accepted");
}

TEST(Claims, TheHighestRoleThatMatches) {
  EXPECT_EQ(person({{"groups", {"x", "everyone", "admins", "sre"}}}).role, Role::administers);
  EXPECT_EQ(person({{"groups", {"sre", "everyone"}}}).role, Role::acts);
  EXPECT_EQ(person({{"groups", "admins"}}).role, Role::administers) << "a single value";
  const Json in_zitadel{{"sre", {{"295", "acme.zitadel.cloud"}}},
                        {"everyone", {{"295", "acme.zitadel.cloud"}}}};
  EXPECT_EQ(person({{"groups", in_zitadel}}).role, Role::acts);
  EXPECT_EQ(person({{"groups", {7, nullptr, "everyone"}}}).role, Role::reads);
  const Person billing = person({{"groups", {"billing", "everyone"}}});
  EXPECT_EQ(billing.role, Role::acts);
  ASSERT_NE(billing.queues, nullptr);
  EXPECT_THAT(billing.queues->texts(), ElementsAre("billing.*", "pay"));
  const Person two = person({{"groups", {"billing", "shop"}}});
  ASSERT_NE(two.queues, nullptr);
  EXPECT_THAT(two.queues->texts(), ElementsAre("billing.*", "pay", "shop")) << "the queues of both";
  EXPECT_EQ(person({{"groups", {"billing", "sre", "shop"}}}).queues, nullptr) << "one is for all";
  EXPECT_EQ(person({{"groups", {"billing", "admins"}}}).queues, nullptr) << "those of the highest role";
}

TEST(Claims, WithoutARoleTheReasonNamesNoGroup) {
  const auto no = [](const Json& more) {
    const auto found = bearer(more);
    EXPECT_FALSE(found);
    if (found) return std::string();
    EXPECT_EQ(found.error().kind, Refusal::Kind::no_role);
    for (const auto& [group, grant] : options().map)
      EXPECT_EQ(found.error().what.find(group), std::string::npos) << found.error().what;
    return found.error().what;
  };
  EXPECT_THAT(no({{"groups", {"Admins", "admins ", "secret-project"}}}),
              HasSubstr("no value of the claim groups"));
  EXPECT_THAT(no({{"groups", Json::array()}}), HasSubstr("no value of the claim groups"));
  EXPECT_THAT(no({{"groups", {{"admins", true}}}}), HasSubstr("no value of the claim groups"));
  EXPECT_THAT(no({{"groups", {{"admins", Json::object()}}}}), HasSubstr("no value of the claim groups"));
  EXPECT_THAT(no({{"groups", nullptr}}), HasSubstr("has no claim groups"));
  EXPECT_THAT(no({{"groups", nullptr}, {"_claim_names", {{"groups", "src1"}}}}),
              HasSubstr("too many groups"));
}

TEST(Claims, AClaimWithinAClaim) {
  OidcOptions o = options();
  o.roles_claim = "resource_access.rung.roles";
  const Json nested{{"resource_access", {{"rung", {{"roles", {"sre"}}}}, {"wiki", {{"roles", {"admins"}}}}}}};
  EXPECT_EQ(person(nested, o).role, Role::acts);
  EXPECT_FALSE(bearer({{"resource_access", "rung"}}, o));
  EXPECT_FALSE(bearer({{"resource_access", {{"rung", {"sre"}}}}}, o));
  o.roles_claim = "https://example.com/roles";  // as Auth0 names them
  EXPECT_EQ(person({{"https://example.com/roles", {"sre"}}}, o).role, Role::acts);
}

TEST(Claims, TheNameIsFitForTheAudit) {
  const auto name = [](Json more) {
    if (!more.contains("email_verified")) more["email_verified"] = true;
    return person(more).name;
  };
  EXPECT_EQ(name({{"preferred_username", nullptr}, {"email", "a@example.com"}}), "a@example.com");
  EXPECT_EQ(name({{"preferred_username", nullptr}}), "f_17") << "sub";
  EXPECT_EQ(name({{"preferred_username", nullptr}, {"email", "a@example.com"}, {"email_verified", false}}),
            "f_17");
  // Not cleaned to somebody else's name: the next is taken.
  for (const auto* odd : {"", "al ice", "alice, 10.0.0.3 (http)", "al\nice", "al\xe2\x80\xaeice",
                          "m\xc3\xbcller", "token full"}) {
    EXPECT_EQ(name({{"preferred_username", odd}, {"email", "a@example.com"}}), "a@example.com") << odd;
    EXPECT_EQ(name({{"preferred_username", odd}, {"email", odd}}), "f_17") << odd;
  }
  EXPECT_EQ(name({{"preferred_username", std::string(65, 'a')}}), "f_17");
  EXPECT_EQ(name({{"preferred_username", 7}, {"sub", std::string(300, 'b')}}), std::string(64, 'b'));
}

TEST(Claims, AnAddressGivesARoleOnlyIfItIsVerified) {
  OidcOptions o = options();
  o.roles_claim = "email";
  o.map = {{"a@example.com", {Role::administers, nullptr}}};
  EXPECT_EQ(person({{"email", "a@example.com"}, {"email_verified", true}}, o).role, Role::administers);
  for (const Json& no : {Json(), Json(false), Json("false"), Json(1)}) {
    const auto found = bearer({{"email", "a@example.com"}, {"email_verified", no}}, o);
    ASSERT_FALSE(found) << no;
    EXPECT_EQ(found.error().kind, Refusal::Kind::no_role);
    EXPECT_THAT(found.error().what, HasSubstr("has not verified"));
  }
}

TEST(Claims, WhatIsNoObject) {
  for (const auto* text : {"", "x", "[]", "7", "{", "\xff"})
    EXPECT_THAT(bearer_of(text, options(), EpochMs{kNow * 1000}).error().what, HasSubstr("malformed"))
        << text;
}

}  // namespace
}  // namespace rung::oidc
