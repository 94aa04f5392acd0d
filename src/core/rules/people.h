// Who may do what over HTTP: a person's (or program's) token, role, and the queues that it may act on.
// http.tokens_file of the config names them, or an identity provider (OidcOptions);
// src/api/base/context.h says which role an action needs. Thread: values; pure functions.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/core/base/queue_pattern.h"
#include "src/core/base/words.h"
#include "src/core/message/identity.h"

namespace rung {

// Each may do what the ones before it may. In the order of their rights.
enum class Role : std::uint8_t {
  reads = 1,   // "reader": no bodies of messages
  redrives,    // "redriver": of changes the redrive alone
  acts,        // "operator"
  edits,       // "editor": sees and edits bodies
  administers  // "admin"
};
template <>
inline constexpr std::array<std::string_view, 5> kWords<Role>{"reader", "redriver", "operator", "editor",
                                                              "admin"};

// The queues that a person may act on.
class QueueScope {
 public:
  explicit QueueScope(std::vector<QueuePattern> patterns) : patterns_(std::move(patterns)) {}
  // "" (a target that is an exchange) is only in the scope of "*": an exchange may reach any queue.
  bool holds(std::string_view queue) const {
    return std::ranges::any_of(patterns_, [&](const QueuePattern& one) { return one.matches(queue); });
  }
  std::vector<std::string> texts() const {
    std::vector<std::string> all;
    for (const QueuePattern& one : patterns_) all.push_back(one.text());
    return all;
  }

 private:
  std::vector<QueuePattern> patterns_;
};
using QueueScopePtr = std::shared_ptr<const QueueScope>;  // nullptr: every queue

inline bool holds(const QueueScopePtr& scope, std::string_view queue) {
  return scope == nullptr || scope->holds(queue);
}

// A person's name, for the audit: 1 to 64 letters, digits and . _ @ + -
inline constexpr std::size_t kLongestPersonName = 64;
inline bool is_person_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("._@+-").find(c) != std::string_view::npos;
}

struct Person {
  std::string name;
  Role role = Role::reads;
  QueueScopePtr queues;
  bool signed_in = false;    // by OpenID Connect: the identity provider says who it is
  std::string subject = {};  // then: its `sub`, in the characters of a name, cut to a length for the audit
};

// An entry of http.tokens_file. The token itself is not kept.
struct PersonToken {
  Person person;
  Sha256 digest{};  // of the token
};

// --- signing in by OpenID Connect: http.oidc of the config

// What a value of the roles claim (a group, a role) grants.
struct OidcGrant {
  Role role = Role::reads;
  QueueScopePtr queues;
};

struct OidcOptions {
  using Map = std::map<std::string, OidcGrant, std::less<>>;

  std::string issuer;     // "" = sign-in is off
  std::string client_id;  // the audience of the tokens
  // Other clients whose tokens for this audience are accepted (azp).
  std::vector<std::string> clients;
  std::string roles_claim;  // "groups"; "realm_access.roles" = a claim within a claim
  Map map;                  // by value of that claim
  std::string ca;           // PEM file; "" = the system's
  // Of the login in a browser (Provider::begin_login).
  std::string client_secret_file, client_secret;  // "" = a public client: PKCE alone. Secret
  std::string scope = "openid profile email";
};

// Of the identity provider's keys: fetches since the start; valid: keys that tokens may be signed with.
struct KeyCounts {
  std::int64_t fetched = 0, failed = 0;
  std::size_t valid = 0;
};

}  // namespace rung
