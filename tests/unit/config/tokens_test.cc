// Who may use the API: http.tokens_file and http.oidc.
#include "src/core/message/identity.h"
#include "tests/unit/config/fixture.h"

namespace rung {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const std::string kToken = "0123456789abcdef";
const std::string kKey = "http: { tokens_file: tokens }\n";

class ConfigTokens : public ConfigTest {
 protected:
  // What is wrong with a file with this text: "tokens:1:3: ...", without the folder.
  std::vector<std::string> wrong(const std::string& text) const {
    write("tokens", text);
    return problems(kServers + kKey);
  }
  std::vector<PersonToken> people(const std::string& text) const {
    write("tokens", text);
    return good(kServers + kKey).http.people;
  }
};

std::string entry(const std::string& more) { return "- { token: " + kToken + ", " + more + " }\n"; }

TEST_F(ConfigTokens, NameRoleAndQueues) {
  const auto all = people("# people\n- { name: alice@example.org, token: \"" + kToken +
                          "\", role: operator, queues: [\"orders*\", pay] }\n"
                          "- name: bob\n  role: admin\n  token_sha256: "
                          "9F86D081884C7D659A2FEAA0C55AD015A3BF4F1B2B0B822CD15D6C15B0F00A08\n");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].person.name, "alice@example.org");
  EXPECT_EQ(all[0].person.role, Role::acts);
  EXPECT_EQ(all[0].digest, sha256(kToken));
  ASSERT_NE(all[0].person.queues, nullptr);
  EXPECT_THAT(all[0].person.queues->texts(), ElementsAre("orders*", "pay"));
  EXPECT_EQ(all[1].person.role, Role::administers);
  EXPECT_EQ(all[1].person.queues, nullptr);
  EXPECT_EQ(all[1].digest, sha256("test")) << "as sha256sum prints it";
}

TEST_F(ConfigTokens, TwoTokensOfOneNameAreForOnePerson) {
  const std::string first = "- { name: a, role: editor, token: aaaaaaaaaaaaaaaa, queues: [q] }\n";
  EXPECT_EQ(people(first + "- { name: a, role: editor, token: bbbbbbbbbbbbbbbb, queues: [q] }\n").size(), 2U);
  EXPECT_THAT(wrong(first + "- { name: a, role: reader, token: bbbbbbbbbbbbbbbb, queues: [q] }\n"),
              ElementsAre(AllOf(HasSubstr("tokens:2:3: a has another role or other queues in line 1"))));
  EXPECT_THAT(wrong(first + "- { name: a, role: editor, token: bbbbbbbbbbbbbbbb }\n"),
              ElementsAre(HasSubstr("other queues in line 1")));
  EXPECT_THAT(wrong(first + "- { name: b, role: editor, token: aaaaaaaaaaaaaaaa }\n"),
              ElementsAre("tokens:2:3: the same token as in line 1: use different tokens"));
  EXPECT_THAT(
      wrong(
          "- { name: a, role: reader, token: test-test-test-te }\n- { name: b, role: reader, token_sha256: " +
          to_hex(sha256("test-test-test-te")) + " }\n"),
      ElementsAre(HasSubstr("the same token as in line 1")));
}

TEST_F(ConfigTokens, WhatIsWrongAndWhere) {
  EXPECT_THAT(wrong(entry("name: a, role: boss")),
              ElementsAre("tokens:1:45: role: \"boss\" is not reader, redriver, operator, editor or admin"));
  EXPECT_THAT(wrong(entry("name: a, role: operater")), ElementsAre(HasSubstr("did you mean operator?")));
  EXPECT_THAT(wrong(entry("name: a")), ElementsAre(HasSubstr("role is missing")));
  EXPECT_THAT(wrong(entry("role: admin")), ElementsAre(HasSubstr("name is missing")));
  for (const auto* name : {"\"a b\"", "a/b", "ä"})
    EXPECT_THAT(wrong(entry("role: admin, name: " + std::string(name))),
                ElementsAre(HasSubstr("name: expected 1 to 64 letters, digits")))
        << name;
  for (const std::string& name : {std::string("\"\""), std::string("[a]"), std::string(65, 'a')})
    EXPECT_THAT(wrong(entry("role: admin, name: " + name)), ElementsAre(HasSubstr("name: "))) << name;
  EXPECT_THAT(wrong(entry("name: a, role: admin, queue: [q]")),
              ElementsAre(HasSubstr("unknown key \"queue\": did you mean queues?")));
  EXPECT_THAT(
      wrong(entry("name: a, role: admin, zzz: 1")),
      ElementsAre(HasSubstr("unknown key \"zzz\": known keys: name, role, queues, token, token_sha256")));
  EXPECT_THAT(wrong(entry("name: a, name: b, role: admin")), ElementsAre(HasSubstr("name: duplicate key")));
  EXPECT_THAT(wrong("- { name: a, role: admin }\n"), ElementsAre(HasSubstr("token is missing")));
  EXPECT_THAT(wrong(entry("name: a, role: admin, token_sha256: " + std::string(64, '0'))),
              ElementsAre(HasSubstr("not both")));
  EXPECT_THAT(wrong("- { name: a, role: admin, token_sha256: \"${RUNG_NO_SUCH}\" }\n"),
              ElementsAre(HasSubstr("environment variable RUNG_NO_SUCH is not set")));
  EXPECT_THAT(wrong("- { name: a, role: admin, token_sha256: abc }\n"),
              ElementsAre(HasSubstr("expected 64 hexadecimal digits: printf %s \"$TOKEN\" | sha256sum")));
}

TEST_F(ConfigTokens, NoMessageQuotesAToken) {
  const std::string secret = "geheim-geheim";
  const std::string long_one = "geheim-geheim-geheim";
  for (const std::string& text :
       {"- { name: a, role: admin, token: " + secret + " }\n",
        "- { name: a, role: admin, token: \"" + long_one + " x\" }\n",
        "- { name: a, role: " + long_one + ", token: " + kToken + " }\n", "- { " + long_one + ": a }\n",
        long_one + "\n", secret + "\n" + long_one + "\n", "- " + long_one + "\n", "- [" + long_one + "]\n",
        long_one + ": x\n"}) {
    const auto lines = wrong(text);
    EXPECT_THAT(lines, Not(IsEmpty())) << text;
    EXPECT_THAT(testing::PrintToString(lines), Not(HasSubstr("geheim"))) << text;
  }
  EXPECT_THAT(
      wrong("- { name: a, role: admin, token: short }\n"),
      ElementsAre("tokens:1:34: token: expected 16 to 255 characters: openssl rand -hex 32 makes one"));
  EXPECT_THAT(wrong("- { name: a, role: admin, token: \"two words of a token\" }\n"),
              ElementsAre(HasSubstr("only visible ASCII characters")));
}

TEST_F(ConfigTokens, BadQueues) {
  const auto queues = [&](const std::string& list) {
    return wrong(entry("name: a, role: admin, queues: " + list));
  };
  for (const auto* list : {"[]", "orders", "{ a: b }"})
    EXPECT_THAT(queues(list), ElementsAre(HasSubstr("queues: expected a list of names"))) << list;
  for (const auto* list : {"[\"\"]", "[[a]]", "[\"a\\0b\"]"})
    EXPECT_THAT(queues(list), ElementsAre(HasSubstr("queues: "))) << list;
  for (const auto* list : {"[\"a[b\"]", "[\"[\"]", "[\"[]\"]", "[\"[!]\"]", "[\"[a]*[\"]"})
    EXPECT_THAT(queues(list), ElementsAre(HasSubstr("queues: a [ without its ]"))) << list;
  for (const auto* list : {"[\"[[]\"]", "[\"[]]\"]", "[\"[!a]*\"]", "[\"a]\", \"[a-z]?\"]"})
    EXPECT_THAT(queues(list), IsEmpty()) << list;
}

TEST_F(ConfigTokens, Bounds) {
  std::string thousand;
  for (int i = 0; i < 1000; ++i)
    thousand += "- { name: n" + std::to_string(i) + ", role: reader, token: token-token-token-" +
                std::to_string(i) + " }\n";
  EXPECT_EQ(people(thousand).size(), 1000U);
  EXPECT_THAT(wrong(thousand + entry("name: a, role: admin")),
              ElementsAre("tokens:1001:3: at most 1000 are allowed"));
  std::string queues = "q";
  for (int i = 0; i < 100; ++i) queues += ", q";
  EXPECT_THAT(wrong(entry("name: a, role: admin, queues: [" + queues + "]")),
              ElementsAre(HasSubstr("at most 100")));
  EXPECT_THAT(wrong(std::string(1024UL * 1024 + 1, ' ')), ElementsAre(HasSubstr("larger than 1 MB")));
}

TEST_F(ConfigTokens, FilesThatAreNone) {
  for (const auto* text : {"", "[]\n", "{}\n", "a: b\n"})
    EXPECT_THAT(wrong(text), ElementsAre(HasSubstr("expected a list of tokens: - { name: alice"))) << text;
  EXPECT_THAT(wrong("- {\n"), ElementsAre(AllOf(HasSubstr("tokens:"), HasSubstr("not YAML"))));
  EXPECT_THAT(problem("http: { tokens_file: nowhere }\n"), HasSubstr("rung.yaml:3:22: http.tokens_file: "));
}

TEST_F(ConfigTokens, BesideTheOtherFilesOrInsteadOfThem) {
  write("tokens", entry("name: a, role: admin"));
  write("old", "another\n");
  write("same", kToken + "\n");
  EXPECT_EQ(good(kServers + "http: { listen: \"0.0.0.0:1\", tokens_file: tokens }\n").http.people.size(), 1U);
  EXPECT_EQ(good(kServers + "http: { tokens_file: tokens, read_token_file: old }\n").http.read_tokens.size(),
            1U);
  EXPECT_THAT(good(kServers + "http: { tokens_file: tokens, token_file: old }\n").http.tokens,
              ElementsAre("another"));
  EXPECT_THAT(problem("http: { tokens_file: tokens, token_file: same }\n"),
              HasSubstr("http.tokens_file: a has the same token as http.token_file"));
}

TEST_F(ConfigTokens, AVariable) {
  env("RUNG_TEST_TOKEN", kToken);
  EXPECT_EQ(people("- { name: a, role: admin, token: \"${RUNG_TEST_TOKEN}\" }\n")[0].digest, sha256(kToken));
  EXPECT_THAT(wrong("- { name: a, role: admin, token: \"${RUNG_NO_TOKEN}\" }\n"),
              ElementsAre(HasSubstr("environment variable RUNG_NO_TOKEN is not set")));
}

// ---- http.oidc

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
  EXPECT_EQ(describe_changes(one, with("rung", "a: reader")), "~http.oidc.map");
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
