// The part of the key table about signing in by OpenID Connect.
#include <algorithm>
#include <utility>

#include "src/config/draft.h"
#include "src/core/base/url.h"
#include "src/core/base/utf8.h"

namespace rung::confile {
namespace {

constexpr std::size_t kLongestOidcText = 255;
constexpr std::size_t kMostGrants = 1000, kMostClients = 100;
constexpr std::string_view kMapForm = "{ rung-admins: admin, sre: operator }";
constexpr std::string_view kGrantForm = "{ role: operator, queues: [\"billing.*\"] }";
constexpr std::string_view kRoleNames = "reader, operator, editor or admin";

OidcOptions& oidc(Value& v) { return v.draft.config.http.oidc; }

bool set_issuer(Value& v) {
  std::string text;
  if (!v.url(text, {"https", "http"})) return false;
  const auto url = parse_url(text);
  if (!url->user.empty() || !url->password.empty()) return v.add_error("the URL must have no user");
  if (url->scheme == "http" && !is_loopback(url->host))
    return v.add_error("must be an https:// URL: whoever changes the provider's answers would be let in");
  if (text.find('#') != std::string::npos) return v.add_error("the URL must have no #fragment");
  if (text.ends_with("/.well-known/openid-configuration"))
    return v.add_error("remove /.well-known/openid-configuration from the end: Rung appends it");
  oidc(v).issuer = std::move(text);
  return true;
}

// A text that is compared with one in a token.
bool oidc_text(Value& v, std::string& out) {
  std::string text;
  if (!v.text(text)) return false;
  if (text.size() > kLongestOidcText) return v.add_error("at most 255 bytes are allowed");
  if (!is_utf8(text) || escape_controls(text) != text)
    return v.add_error("must be UTF-8 without control characters");
  out = std::move(text);
  return true;
}

bool set_clients(Value& v) {
  if (v.node.invalid) return false;
  if (v.node.kind != Node::Kind::list) return v.add_error("expected a list of client ids: [ci, grafana]");
  if (v.node.items.size() > kMostClients) return v.add_error("at most 100 are allowed");
  bool ok = true;
  for (const Node& item : v.node.items) {
    Value one{v.draft, v.problems, item, v.path};
    std::string text;
    if (oidc_text(one, text)) {
      oidc(v).clients.push_back(std::move(text));
    } else {
      ok = false;
    }
  }
  return ok;
}

bool set_roles_claim(Value& v) {
  std::string text;
  if (!oidc_text(v, text)) return false;
  // It is shown to clients, in a header too.
  if (std::ranges::any_of(text, [](char c) { return c <= ' ' || c >= 0x7f || c == '"' || c == '\\'; }))
    return v.add_error("only visible ASCII characters without \" and \\ are allowed");
  oidc(v).roles_claim = std::move(text);
  return true;
}

bool oidc_role(Value& v, Role& out) {
  std::string word;
  if (!v.expect_scalar(kRoleNames)) return false;
  if (!v.choice(word, {kRoleWords.begin(), kRoleWords.end()})) return false;
  out = *role_from(word);
  return true;
}

// A role, or a role with queues.
bool oidc_grant(Value& v, OidcGrant& out) {
  if (v.node.kind != Node::Kind::map) return oidc_role(v, out.role);
  bool ok = true, has_role = false, has_queues = false;
  for (const auto& [key, value] : v.node.entries) {
    Value one{v.draft, v.problems, value, v.path + "." + key.text};
    bool& seen = key.text == "role" ? has_role : has_queues;
    if (key.text != "role" && key.text != "queues") {
      ok = v.add_error_at(key.mark, "unknown key: write " + std::string(kGrantForm));
    } else if (std::exchange(seen, true)) {
      ok = v.add_error_at(key.mark, key.text + ": duplicate key");
    } else if (&seen == &has_role) {
      ok = oidc_role(one, out.role) && ok;
    } else {
      const auto before = v.problems.count();
      out.queues = read_queue_scope(value, one.path, v.problems);
      ok = v.problems.count() == before && !value.invalid && ok;
    }
  }
  return has_role ? ok : v.add_error("role is missing: write " + std::string(kGrantForm));
}

bool set_oidc_map(Value& v) {
  if (v.node.invalid) return false;
  if (v.node.kind != Node::Kind::map || v.node.entries.empty())
    return v.add_error("expected groups and their roles: write " + std::string(kMapForm));
  if (v.node.entries.size() > kMostGrants) return v.add_error("at most 1000 are allowed");
  bool ok = true;
  for (const auto& [key, value] : v.node.entries) {
    Value name{v.draft, v.problems, key, v.path};
    Value one{v.draft, v.problems, value, v.path + "." + key.text};
    std::string group;
    OidcGrant grant;
    if (!oidc_text(name, group) || !oidc_grant(one, grant)) {
      ok = false;
    } else if (!oidc(v).map.emplace(group, std::move(grant)).second) {
      ok = v.add_error_at(key.mark, in_quotes(group) + " is there twice");
    }
  }
  return ok;
}

}  // namespace

// clang-format off
std::vector<Key> oidc_keys() {
  return {
    {{"http.oidc.issuer", "URL", "", false, false,
      "OpenID Connect: the identity provider, exactly as the iss of its tokens; https:// unless it is on a loopback address; see docs/http.md"},
     set_issuer},
    {{"http.oidc.client_id", "text", "", false, false,
      "OpenID Connect: the aud that a token must have: the provider's name for Rung"},
     [](Value& v) { return oidc_text(v, oidc(v).client_id); }},
    {{"http.oidc.clients", "list of names", "", true, false,
      "OpenID Connect: other clients (azp) whose tokens for client_id are accepted; default: only client_id itself"},
     set_clients},
    {{"http.oidc.roles_claim", "text", "", false, false,
      "OpenID Connect: the claim with the groups or roles of a person; realm_access.roles is a claim within a claim"},
     set_roles_claim},
    {{"http.oidc.map", "map of names to roles", "", true, false,
      "OpenID Connect: which values of roles_claim give which role, also with queues: { role: operator, queues: [\"billing.*\"] }; the highest role counts, without one the answer is 403"},
     set_oidc_map},
    {{"http.oidc.client_secret_file", "file", "", false, false,
      "OpenID Connect: file with the client's secret, for signing in to the console; default: none, a public client with PKCE"},
     [](Value& v) { return v.file(oidc(v).client_secret_file); }},
    {{"http.oidc.scope", "text", "", false, false,
      "OpenID Connect: what the console asks for when somebody signs in, default: openid profile email; add groups if the provider needs it for roles_claim"},
     [](Value& v) { return oidc_text(v, oidc(v).scope); }},
    {{"http.oidc.ca", "file", "", false, false,
      "OpenID Connect: CA certificates (PEM) that the provider's certificate is verified against; default: those of the system"},
     [](Value& v) { return v.file(oidc(v).ca); }},
  };
}
// clang-format on

}  // namespace rung::confile
