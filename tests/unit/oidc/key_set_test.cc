#include "src/oidc/key_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/oidc/jwt_maker.h"

namespace rung::oidc {
namespace {

using test::base64url;
using test::Json;
using test::SigningKey;
using testing::HasSubstr;

// Making an RSA key takes a while.
const SigningKey& rsa() {
  static const SigningKey key = SigningKey::rsa();
  return key;
}
const SigningKey& ec() {
  static const SigningKey key = SigningKey::ec();
  return key;
}

KeySetPtr keys(const std::vector<Json>& all) {
  const auto read = read_keys(Json{{"keys", all}}.dump());
  EXPECT_TRUE(read) << read.error().message;
  return read.value_or(nullptr);
}
KeySetPtr both() { return keys({rsa().jwk("r"), ec().jwk("e")}); }

Json header(const std::string& alg, const std::string& kid) { return {{"alg", alg}, {"kid", kid}}; }

std::string read(const KeySetPtr& set, const std::string& token) {
  const auto payload = payload_of(token, *set);
  return payload ? "ok " + *payload : payload.error().what;
}

TEST(KeySet, EachAlgorithmOfItsKey) {
  const KeySetPtr set = both();
  EXPECT_EQ(size_of(*set), 2U);
  for (const auto* alg : {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
    EXPECT_EQ(read(set, rsa().sign(header(alg, "r"), "payload")), "ok payload") << alg;
  EXPECT_EQ(read(set, ec().sign(header("ES256", "e"), "payload")), "ok payload");
  for (const auto& [curve, alg] : {std::pair{"P-384", "ES384"}, std::pair{"P-521", "ES512"}}) {
    const SigningKey key = SigningKey::ec(curve);
    EXPECT_EQ(read(keys({key.jwk("k")}), key.sign(header(alg, "k"), "payload")), "ok payload") << alg;
  }
}

TEST(KeySet, WithoutASignatureNothingIsAccepted) {
  const KeySetPtr set = both();
  for (const auto* alg : {"none", "None", "NONE", "HS256", "HS384", "HS512", "EdDSA", "ES256K", "", "RS1"}) {
    const std::string token = base64url(header(alg, "r").dump()) + "." + base64url("payload") + ".";
    EXPECT_THAT(read(set, token), testing::AnyOf(HasSubstr("not signed"), HasSubstr("is not accepted")))
        << alg;
  }
  EXPECT_THAT(read(set, base64url(header("RS256", "r").dump()) + "." + base64url("payload") + "."),
              HasSubstr("the signature of the token is wrong"));
}

// The public key is known to everybody: it must never serve as a secret.
TEST(KeySet, APublicKeyIsNoSecret) {
  const KeySetPtr set = both();
  const Json jwk = rsa().jwk("r");
  for (const std::string& secret :
       {rsa().public_pem(), jwk.dump(), jwk.at("n").get<std::string>(), std::string()})
    EXPECT_THAT(read(set, test::sign_by_secret(header("HS256", "r"), "payload", secret)),
                HasSubstr("algorithm is not accepted"));
  // Two values of alg, for two parsers.
  const std::string two = R"({"alg":"HS256","kid":"r","alg":"RS256"})";
  EXPECT_THAT(read(set, base64url(two) + "." + base64url("p") + "." + base64url(std::string(256, 'x'))),
              HasSubstr("signature of the token is wrong"));
}

TEST(KeySet, AnythingChangedIsRefused) {
  const KeySetPtr set = both();
  for (const std::string& token :
       {rsa().sign(header("RS256", "r"), "payload"), ec().sign(header("ES256", "e"), "payload"),
        rsa().sign(header("PS256", "r"), "payload")}) {
    const auto first = token.find('.'), last = token.rfind('.');
    const std::string other = token.substr(0, first + 1) + base64url("another") + token.substr(last);
    EXPECT_THAT(read(set, other), HasSubstr("signature of the token is wrong"));
    for (const std::size_t at : {last + 5, token.size() - 10}) {
      std::string flipped = token;
      flipped[at] = flipped[at] == 'A' ? 'B' : 'A';
      EXPECT_THAT(read(set, flipped), HasSubstr("signature of the token is wrong"));
    }
    EXPECT_THAT(read(set, token.substr(0, token.size() - 4)), HasSubstr("signature of the token is wrong"));
    EXPECT_THAT(read(set, token + "AAAA"), HasSubstr("signature of the token is wrong"));
  }
  // The same numbers with zeros before them: the library takes half of whatever comes as each number.
  EXPECT_THAT(read(set, ec().sign(header("ES256", "e"), "payload", 1)),
              HasSubstr("signature of the token is wrong"));
  const std::string token = ec().sign(header("ES256", "e"), "payload");
  const std::string zeros = token.substr(0, token.rfind('.') + 1) + base64url(std::string(64, '\0'));
  EXPECT_THAT(read(set, zeros), HasSubstr("signature of the token is wrong"));
}

TEST(KeySet, TheKeyIsTheOneThatIsNamed) {
  const SigningKey stranger = SigningKey::ec();
  const KeySetPtr set = keys({rsa().jwk("r"), ec().jwk("e"), stranger.jwk("s")});
  EXPECT_THAT(read(set, stranger.sign(header("ES256", "e"), "payload")),
              HasSubstr("signature of the token is wrong"));
  const auto unknown = payload_of(ec().sign(header("ES256", "f"), "payload"), *set);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().kind, Refusal::Kind::unknown_key);
  EXPECT_THAT(read(set, ec().sign({{"alg", "ES256"}}, "payload")), HasSubstr("does not name its key"));
  EXPECT_EQ(read(keys({ec().jwk("e")}), ec().sign({{"alg", "ES256"}}, "payload")), "ok payload")
      << "the only one";
  EXPECT_THAT(read(set, ec().sign({{"alg", "ES256"}, {"kid", 7}}, "payload")),
              HasSubstr("kid is not a string"));
}

TEST(KeySet, TheAlgorithmFitsTheKey) {
  const KeySetPtr set = both();
  EXPECT_THAT(read(set, ec().sign(header("ES256", "r"), "payload")), HasSubstr("does not fit its key"));
  EXPECT_THAT(read(set, rsa().sign(header("RS256", "e"), "payload")), HasSubstr("does not fit its key"));
  EXPECT_THAT(read(set, ec().sign(header("ES384", "e"), "payload")), HasSubstr("does not fit its key"))
      << "a curve";
  Json only = rsa().jwk("r");
  only["alg"] = "PS256";
  const KeySetPtr named = keys({only});
  EXPECT_EQ(read(named, rsa().sign(header("PS256", "r"), "payload")), "ok payload");
  EXPECT_THAT(read(named, rsa().sign(header("RS256", "r"), "payload")), HasSubstr("does not fit its key"));
}

TEST(KeySet, HeadersThatDemandMoreAreRefused) {
  const KeySetPtr set = both();
  const auto with = [&](const Json& more) {
    Json all = header("ES256", "e");
    all.update(more);
    return read(set, ec().sign(all, "payload"));
  };
  EXPECT_EQ(with({{"typ", "JWT"}}), "ok payload");
  EXPECT_EQ(with({{"typ", "application/AT+jwt"}, {"x5t", "any"}, {"jku", "https://elsewhere"}}),
            "ok payload");
  EXPECT_THAT(with({{"crit", {"exp"}}, {"exp", 1}}), HasSubstr("crit"));
  EXPECT_THAT(with({{"crit", Json::array()}}), HasSubstr("crit"));
  EXPECT_THAT(with({{"b64", false}, {"crit", {"b64"}}}), HasSubstr("crit"));
  EXPECT_THAT(with({{"enc", "A128GCM"}}), HasSubstr("encrypted"));
  EXPECT_THAT(with({{"typ", "logout+jwt"}}), HasSubstr("neither an ID token nor an access token"));
  EXPECT_THAT(with({{"typ", 1}}), HasSubstr("neither an ID token nor an access token"));
  // A key that the token brings along is nobody's.
  const SigningKey stranger = SigningKey::ec();
  EXPECT_THAT(
      read(set, stranger.sign({{"alg", "ES256"}, {"kid", "e"}, {"jwk", stranger.jwk("e")}}, "payload")),
      HasSubstr("signature of the token is wrong"));
}

TEST(KeySet, MalformedTokens) {
  const KeySetPtr set = both();
  const std::string good = ec().sign(header("ES256", "e"), "payload");
  for (const std::string& token :
       {std::string(), std::string("."), std::string(".."), std::string("a.b"), "x" + good, good + ".x",
        good + "=", " " + good, std::string("e30.e30.e30"), base64url("[]") + ".e30.e30",
        base64url("{\"alg\":7}") + ".e30.e30", base64url("\xff") + ".e30.e30", "\xc3\xa4" + good,
        std::string("\0.\0.\0", 5)})
    EXPECT_FALSE(payload_of(token, *set)) << token;
  EXPECT_THAT(read(set, "a.b.c.d.e"), HasSubstr("encrypted"));
  const std::string large = ec().sign(header("ES256", "e"), std::string(kLongestToken, 'x'));
  EXPECT_THAT(read(set, large), HasSubstr("longer than 12 KB"));
  const std::string nested = base64url(std::string(9000, '[')) + ".e30.e30";
  EXPECT_THAT(read(set, nested), HasSubstr("malformed"));
}

TEST(KeySet, KeysThatAreOfNoUseAreLeftOut) {
  const auto size = [](std::vector<Json> all) {
    all.push_back(ec().jwk("good"));
    return size_of(*keys(all)) - 1;
  };
  const auto with = [](Json jwk, const Json& more) {
    jwk.update(more);
    return jwk;
  };
  EXPECT_EQ(size({with(rsa().jwk("r"), {{"use", "enc"}})}), 0U);
  EXPECT_EQ(size({with(rsa().jwk("r"), {{"use", 1}})}), 0U);
  Json ops = with(rsa().jwk("r"), {{"key_ops", {"encrypt"}}});
  ops.erase("use");
  EXPECT_EQ(size({ops}), 0U);
  ops["key_ops"] = {"verify"};
  EXPECT_EQ(size({ops}), 1U);
  EXPECT_EQ(size({{{"kty", "oct"}, {"kid", "o"}, {"k", "c2VjcmV0"}}}), 0U) << "a shared secret";
  EXPECT_EQ(size({{{"kty", "OKP"}, {"crv", "Ed25519"}, {"x", "AAAA"}}}), 0U);
  EXPECT_EQ(size({SigningKey::rsa(1024).jwk("weak")}), 0U);
  EXPECT_EQ(size({with(rsa().jwk("r"), {{"n", base64url(std::string(2048, 'x'))}})}), 0U) << "16384 bits";
  EXPECT_EQ(size({with(ec().jwk("e"), {{"y", ec().jwk("e")["x"]}})}), 0U) << "not on the curve";
  EXPECT_EQ(size({with(ec().jwk("e"), {{"crv", "P-192"}})}), 0U);
  EXPECT_EQ(size({with(ec().jwk("e"), {{"x", 7}})}), 0U);
  // Padding ends the process, where the library is Debian 12's.
  EXPECT_EQ(size({with(ec().jwk("e"), {{"x", ec().jwk("e")["x"].get<std::string>().replace(13, 1, "=")}})}),
            0U);
  EXPECT_EQ(size({with(rsa().jwk("r"), {{"e", "AQAB="}})}), 0U);
  EXPECT_EQ(size({Json("text"), Json(), Json::object()}), 0U);
  EXPECT_EQ(size_of(*keys(std::vector<Json>(1000, ec().jwk("many")))), 64U);
}

TEST(KeySet, WhatIsNoKeyDocument) {
  for (const auto* text : {"", "{", "[]", "{}", R"({"keys":{}})", "<html>"})
    EXPECT_THAT(read_keys(text).error().message, HasSubstr("not a JWKS document")) << text;
  EXPECT_THAT(read_keys(R"({"keys":[{"kty":"oct"}]})").error().message,
              HasSubstr("none of its 1 keys can be used"));
}

}  // namespace
}  // namespace rung::oidc
