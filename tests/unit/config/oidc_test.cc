// http.oidc.
#include "tests/unit/config/fixture.h"

namespace rung {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string kOidc =
    "http: { listen: \"0.0.0.0:8025\", oidc: { issuer: \"https://id.example.com/realms/main\", client_id: "
    "rung, "
    "roles_claim: groups, ";

class ConfigOidc : public ConfigTest {
 protected:
  OidcOptions oidc(const std::string& more) const {
    return good(kServers + kOidc + more + " } }\n").http.oidc;
  }
  std::string wrong(const std::string& more) const { return problem(kOidc + more + " } }\n"); }
  std::string wrong_issuer(const std::string& issuer) const {
    return problem("http: { oidc: { issuer: \"" + issuer +
                   "\", client_id: rung, roles_claim: groups, map: { a: admin } } }\n");
  }
};

TEST_F(ConfigOidc, WhoMaySignIn) {
  EXPECT_EQ(good(kServers).http.oidc.issuer, "");
  const OidcOptions o = oidc(
      "clients: [ci, \"https://x\"], map: { admins: admin, \"/sre\": operator, \"Shop staff\": reader, "
      "billing: { role: editor, queues: [\"billing.*\", pay] } }");
  EXPECT_EQ(o.issuer, "https://id.example.com/realms/main");
  EXPECT_EQ(o.client_id, "rung");
  EXPECT_EQ(o.roles_claim, "groups");
  EXPECT_THAT(o.clients, ElementsAre("ci", "https://x"));
  ASSERT_EQ(o.map.size(), 4U);
  EXPECT_EQ(o.map.at("admins").role, Role::administers);
  EXPECT_EQ(o.map.at("/sre").role, Role::acts);
  EXPECT_EQ(o.map.at("Shop staff").role, Role::reads);
  EXPECT_EQ(o.map.at("admins").queues, nullptr);
  EXPECT_EQ(o.map.at("billing").role, Role::edits);
  ASSERT_NE(o.map.at("billing").queues, nullptr);
  EXPECT_THAT(o.map.at("billing").queues->texts(), ElementsAre("billing.*", "pay"));
}

TEST_F(ConfigOidc, EachPartIsNeeded) {
  EXPECT_THAT(problems(kServers + "http: { oidc: { issuer: \"https://id\" } }\n"),
              ElementsAre(HasSubstr("http.oidc: client_id is missing: write client_id: rung"),
                          HasSubstr("http.oidc: roles_claim is missing"),
                          HasSubstr("http.oidc: map is missing: write map: {")));
  EXPECT_THAT(wrong("map: {}"), HasSubstr("http.oidc.map: expected groups and their roles"));
}

TEST_F(ConfigOidc, TheIssuerIsReachedByTls) {
  EXPECT_THAT(wrong_issuer("http://id.example.com"), HasSubstr("http.oidc.issuer: must be an https:// URL"));
  EXPECT_THAT(wrong_issuer("http://127.0.0.1.example.com"), HasSubstr("must be an https:// URL"));
  EXPECT_THAT(wrong_issuer("ftp://id"), HasSubstr("must begin with https or http"));
  EXPECT_THAT(wrong_issuer("https://u:secret@id"),
              testing::AllOf(HasSubstr("no user"), testing::Not(HasSubstr("secret"))));
  EXPECT_THAT(wrong_issuer("https://id/.well-known/openid-configuration"), HasSubstr("remove /.well-known"));
  for (const auto* loopback : {"http://127.0.0.1:3000", "http://localhost/realms/a", "http://[::1]:3000"})
    EXPECT_EQ(good(kServers + "http: { oidc: { issuer: \"" + loopback +
                   "\", client_id: a, roles_claim: b, map: { c: reader } } }\n")
                  .http.oidc.issuer,
              loopback);
}

TEST_F(ConfigOidc, MistakesAreNamed) {
  EXPECT_THAT(
      wrong("map: { a: amdin }"),
      HasSubstr("http.oidc.map.a: \"amdin\" is not reader, operator, editor or admin: did you mean admin?"));
  EXPECT_THAT(wrong("map: { a: { queues: [b] } }"), HasSubstr("http.oidc.map.a: role is missing"));
  EXPECT_THAT(wrong("map: { a: { role: admin, queue: [b] } }"),
              HasSubstr("unknown key: write { role: operator"));
  EXPECT_THAT(wrong("map: { a: { role: admin, queues: b } }"),
              HasSubstr("http.oidc.map.a.queues: expected a list of names"));
  EXPECT_THAT(wrong("map: { a: { role: admin, queues: [\"b[\"] } }"), HasSubstr("a [ without its ]"));
  EXPECT_THAT(wrong("map: { a: [admin] }"),
              HasSubstr("http.oidc.map.a: expected reader, operator, editor or admin"));
  EXPECT_THAT(wrong("map: { a: admin, a: reader }"), HasSubstr("\"a\" is there twice"));
  EXPECT_THAT(wrong("map: { a: admin }, clients: ci"), HasSubstr("expected a list of client ids"));
  EXPECT_THAT(wrong("map: { a: admin }, ca: nowhere.pem"), HasSubstr("http.oidc.ca: "));
  EXPECT_THAT(wrong("map: { a: admin }, client: ci"), HasSubstr("did you mean client_id?"));
}

TEST_F(ConfigOidc, TheMapReloadsAndTheProviderDoesNot) {
  const auto with = [&](const std::string& client, const std::string& map) {
    return good(kServers + "http: { oidc: { issuer: \"https://id\", client_id: " + client +
                ", roles_claim: groups, map: { " + map + " } } }\n");
  };
  const Config one = with("rung", "a: admin");
  EXPECT_THAT(keys_for_restart(one, with("rung", "a: reader, b: admin")), IsEmpty());
  EXPECT_EQ(describe_changes(one, with("rung", "a: reader")), "http: ~oidc.map");
  EXPECT_THAT(keys_for_restart(one, with("other", "a: admin")), ElementsAre("http.oidc.client_id"));
}

TEST_F(ConfigOidc, TheReadTokenMayStandBesideIt) {
  write("read", "0123456789abcdef\n");
  EXPECT_EQ(good(kServers + "http: { read_token_file: read, oidc: { issuer: \"https://id\", client_id: rung, "
                            "roles_claim: g, map: "
                            "{ a: admin } } }\n")
                .http.read_tokens.size(),
            1U);
}

}  // namespace
}  // namespace rung
