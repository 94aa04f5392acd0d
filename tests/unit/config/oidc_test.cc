// http.oidc.
#include "tests/unit/config/fixture.h"

namespace rung {
namespace {

using testing::ElementsAre;
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

TEST_F(ConfigOidc, TheIssuerIsReachedByTls) {
  for (const auto* loopback : {"http://127.0.0.1:3000", "http://localhost/realms/a", "http://[::1]:3000"})
    EXPECT_EQ(good(kServers + "http: { oidc: { issuer: \"" + loopback +
                   "\", client_id: a, roles_claim: b, map: { c: reader } } }\n")
                  .http.oidc.issuer,
              loopback);
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
