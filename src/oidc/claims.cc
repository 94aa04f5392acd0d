#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/oidc/provider.h"

namespace rung::oidc {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kLongestSubject = 40;                   // of the audit: a UUID has 36
constexpr Ms kLeeway{std::chrono::seconds{60}};               // clocks may differ by this much
constexpr double kMsOfSecond = 1000, kLatest = 253402300799;  // the end of the year 9999

std::string lacks(const char* claim) {
  return "the token has no claim " + std::string(claim) + ", or not in its form";
}

// A NumericDate: seconds, possibly with a fraction.
std::optional<EpochMs> time_claim(const Json& claims, const char* name) {
  const auto it = claims.find(name);
  if (it == claims.end() || !it->is_number()) return std::nullopt;
  const double seconds = it->get<double>();
  if (!(seconds >= 0 && seconds <= kLatest)) return std::nullopt;
  return EpochMs{static_cast<std::int64_t>(seconds * kMsOfSecond)};
}

// Why it is not accepted now; "" = it is.
std::string check_times(const Json& claims, EpochMs now) {
  const auto exp = time_claim(claims, "exp"), iat = time_claim(claims, "iat");
  if (!exp) return lacks("exp");
  if (!iat) return lacks("iat");
  if (now >= *exp + kLeeway) return "the token has expired";
  const auto nbf = claims.contains("nbf") ? time_claim(claims, "nbf") : EpochMs{0};
  if (!nbf) return lacks("nbf");
  if (now + kLeeway < std::max(*nbf, *iat))
    return "the token is not valid yet (nbf, iat): do the clocks agree?";
  return "";
}

// The strings of `aud`; none if it has another form.
std::vector<std::string> audiences(const Json& claims) {
  const Json aud = claims.value("aud", Json());
  if (aud.is_string()) return {aud.get<std::string>()};
  const auto is_string = [](const Json& one) { return one.is_string(); };
  if (!aud.is_array() || !std::ranges::all_of(aud, is_string)) return {};
  return aud.get<std::vector<std::string>>();
}

// Why a token of this issuer and audience is not accepted; "" = it is. The client that it was issued to: azp
// of ID tokens, client_id of access tokens (RFC 9068).
std::string check_party(const Json& claims, std::size_t audiences, const OidcOptions& options) {
  const std::string name = claims.contains("azp") ? "azp" : "client_id";
  if (!claims.contains(name)) {
    // OpenID Connect Core, 3.1.3.7.
    return audiences > 1 ? "the token is for several audiences, and does not say which client has it (azp)"
                         : "";
  }
  const std::string party = text_member(claims, name);
  if (!party.empty() && (party == options.client_id || std::ranges::count(options.clients, party) > 0))
    return "";
  return "the token was issued to a client (" + name +
         ") that is neither http.oidc.client_id nor in http.oidc.clients";
}

std::string check_parties(const Json& claims, const OidcOptions& options) {
  const std::string issuer = text_member(claims, "iss");
  if (issuer.empty()) return lacks("iss");
  if (issuer != options.issuer) return "the token is of another issuer (iss) than http.oidc.issuer";
  const std::vector<std::string> all = audiences(claims);
  if (all.empty()) return lacks("aud");
  if (std::ranges::count(all, options.client_id) == 0)
    return "the token is for another audience: its aud does not contain http.oidc.client_id";
  return check_party(claims, all.size(), options);
}

// "realm_access.roles" is the claim of that name, or the member `roles` of the claim `realm_access`.
const Json* find_claim(const Json& claims, std::string_view path) {
  if (const auto whole = claims.find(path); whole != claims.end()) return &*whole;
  const Json* at = &claims;
  for (;;) {
    const auto dot = path.find('.');
    const auto member = at->is_object() ? at->find(path.substr(0, dot)) : at->end();
    if (member == at->end()) return nullptr;
    at = &*member;
    if (dot == std::string_view::npos) return at;
    path.remove_prefix(dot + 1);
  }
}

// Two grants of the same role: the queues of both.
QueueScopePtr either(const QueueScopePtr& one, const QueueScopePtr& other) {
  if (one == nullptr || other == nullptr) return nullptr;
  std::vector<QueuePattern> patterns;
  for (const QueueScopePtr& scope : {one, other}) {
    for (const std::string& text : scope->texts()) {
      const auto same = [&](const QueuePattern& pattern) { return pattern.text() == text; };
      if (std::ranges::none_of(patterns, same)) patterns.emplace_back(text);
    }
  }
  return std::make_shared<const QueueScope>(std::move(patterns));
}

std::optional<OidcGrant> grant_of(const Json& values, const OidcOptions::Map& map) {
  std::optional<OidcGrant> best;
  const auto add = [&](const Json& value) {
    const auto it = value.is_string() ? map.find(value.get_ref<const std::string&>()) : map.end();
    if (it == map.end()) return;
    if (!best || it->second.role > best->role) {
      best = it->second;
    } else if (it->second.role == best->role) {
      best->queues = either(best->queues, it->second.queues);
    }
  };
  if (values.is_object()) {
    // Zitadel: {"role": {"id of the organisation": "its domain"}}.
    for (const auto& [role, of] : values.items()) {
      if (of.is_object() && !of.empty()) add(role);
    }
  } else if (values.is_array()) {
    for (const Json& one : values) add(one);
  } else {
    add(values);
  }
  return best;
}

// What the map does not know is not listed: the names of groups are none of a client's business.
std::string no_role(const Json& claims, const Json* values, const OidcOptions& options) {
  const std::string& claim = options.roles_claim;
  if (values != nullptr) return "no value of the claim " + claim + " gives a role here (http.oidc.map)";
  // Microsoft Entra leaves out what does not fit.
  const auto elsewhere = claims.find("_claim_names");
  if (elsewhere != claims.end() && elsewhere->is_object() && elsewhere->contains(claim))
    return "the identity provider left out the claim " + claim +
           ", because this person is in too many groups: use app roles";
  return "the token has no claim " + claim + " (http.oidc.roles_claim): does the provider put it in?";
}

// At some providers people write any address into their account.
bool is_verified_email(const Json& claims) {
  const auto it = claims.find("email_verified");
  return it != claims.end() && (*it == true || *it == "true");
}

// As of the entries of http.tokens_file: it goes into the audit.
bool is_audit_name(std::string_view text) {
  return !text.empty() && text.size() <= kLongestPersonName && std::ranges::all_of(text, is_person_name_char);
}

// `sub` for the audit.
std::string as_name(std::string sub, std::size_t longest) {
  std::ranges::replace_if(
      sub, [](char c) { return !is_person_name_char(c); }, '_');
  sub.resize(std::min(sub.size(), longest));
  return sub;
}

// A name that would have to be changed might become somebody else's: then the next.
std::string name_of_bearer(const Json& claims, const std::string& sub) {
  if (std::string name = text_member(claims, "preferred_username"); is_audit_name(name)) return name;
  if (std::string name = text_member(claims, "email"); is_verified_email(claims) && is_audit_name(name))
    return name;
  return as_name(sub, kLongestPersonName);
}

}  // namespace

tl::expected<Person, Refusal> bearer_of(std::string_view payload, const OidcOptions& options, EpochMs now) {
  const Json claims = Json::parse(payload, nullptr, false);
  if (!claims.is_object()) return invalid("the token is malformed: its claims are not a JSON object");
  std::string why = check_parties(claims, options);
  if (why.empty()) why = check_times(claims, now);
  const std::string sub = text_member(claims, "sub");
  if (why.empty() && sub.empty()) why = lacks("sub");
  if (!why.empty()) return invalid(std::move(why));
  if (options.roles_claim == "email" && !is_verified_email(claims))
    return refuse(Refusal::Kind::no_role,
                  "the identity provider has not verified this person's address (email_verified)");
  const Json* const values = find_claim(claims, options.roles_claim);
  auto grant = values != nullptr ? grant_of(*values, options.map) : std::nullopt;
  if (!grant) return refuse(Refusal::Kind::no_role, no_role(claims, values, options));
  return Person{name_of_bearer(claims, sub), grant->role, std::move(grant->queues), true,
                as_name(sub, kLongestSubject)};
}

}  // namespace rung::oidc
