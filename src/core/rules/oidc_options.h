// Signing in by OpenID Connect: http.oidc of the config. Thread: values.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "src/core/rules/people.h"

namespace rung {

// What a value of the roles claim (a group, a role) grants.
struct OidcGrant {
  Role role = Role::reads;
  QueueScopePtr queues;
};

struct OidcOptions {
  using Map = std::map<std::string, OidcGrant, std::less<>>;

  std::string issuer;     // "" = nobody signs in
  std::string client_id;  // the audience of the tokens
  // Other clients whose tokens for this audience are accepted (azp).
  std::vector<std::string> clients;
  std::string roles_claim;  // "groups"; "realm_access.roles" = a claim within a claim
  Map map;                  // by value of that claim
  std::string ca;           // PEM file; "" = the system's
  // Of the login in a browser (src/oidc/code_flow.h).
  std::string client_secret_file, client_secret;  // "" = a public client: PKCE alone. Secret
  std::string scope = "openid profile email";
};

}  // namespace rung
