#include "src/http/access/access.h"

#include <openssl/crypto.h>
#include <strings.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/core/message/identity.h"

namespace rung::http {
namespace {

// Names in the audit that no entry of http.tokens_file can have, as api::kTokenRead.
constexpr std::string_view kNoToken = "no token", kTokenFull = "token full";

// None: there is no such header, or it is not a bearer token.
std::optional<std::string> token_of(const Request& request) {
  constexpr std::string_view kBearer = "bearer ";  // any case
  const std::string& header = request.authorization;
  if (header.size() <= kBearer.size() || strncasecmp(header.c_str(), kBearer.data(), kBearer.size()) != 0)
    return std::nullopt;
  return header.substr(kBearer.size());
}

// Compares in constant time, and always with all, whichever matches.
const PersonToken* find(const std::vector<PersonToken>& all, std::string_view token) {
  const Sha256 digest = sha256(token);
  const PersonToken* found = nullptr;
  for (const PersonToken& one : all) {
    if (CRYPTO_memcmp(one.digest.data(), digest.data(), digest.size()) == 0 && found == nullptr) found = &one;
  }
  return found;
}

Response unknown_token(const Request& request) {
  const bool none = request.authorization.empty();
  Response response = problem(401,
                              none ? "a token is required: Authorization: Bearer TOKEN"
                                   : "unknown token: Authorization: Bearer TOKEN",
                              request.path);
  response.headers.emplace_back(
      "WWW-Authenticate", none ? "Bearer realm=\"rung\"" : "Bearer realm=\"rung\", error=\"invalid_token\"");
  return response;
}

Response signed_out(const Request& request) {
  return problem(401, "this sign-in has ended: sign in again", request.path);
}

// Three parts are a signed token of an identity provider, five an encrypted one.
bool looks_like_jwt(std::string_view token) {
  constexpr auto kSigned = 2, kEncrypted = 4;
  const auto dots = std::ranges::count(token, '.');
  return dots == kSigned || dots == kEncrypted;
}

Response refuse_token(const oidc::Refusal& refusal, const Request& request) {
  using Kind = oidc::Refusal::Kind;
  if (refusal.kind == Kind::no_role) return problem(403, refusal.what, request.path);
  if (refusal.kind == Kind::later) {
    Response response = problem(503, refusal.what, request.path);
    response.headers.emplace_back("Retry-After", "1");
    return response;
  }
  Response response = problem(401, refusal.what, request.path);
  response.headers.emplace_back(
      "WWW-Authenticate",
      "Bearer realm=\"rung\", error=\"invalid_token\", error_description=\"" + refusal.what + "\"");
  return response;
}

}  // namespace

std::string_view host_of_origin(std::string_view origin) {
  const std::size_t at = origin.find("://");
  return at == std::string_view::npos ? origin : origin.substr(at + 3);
}

std::optional<Response> refuse_foreign_page(const Request& request) {
  if (request.method != "GET" && is_cross_site(request))
    return problem(403, "a page of another site made this request (Sec-Fetch-Site)", request.path);
  if (!is_loopback_host(request.host))
    return problem(
        403, "without a token (http.token_file, http.oidc) the Host must be 127.0.0.1, [::1] or localhost",
        request.path);
  if (!request.origin.empty() && host_of_origin(request.origin) != request.host)
    return problem(403,
                   "without a token (http.token_file, http.oidc) requests from another origin are refused",
                   request.path);
  return std::nullopt;
}

bool is_loopback_host(std::string_view host) {
  if (host.starts_with('[')) return host.starts_with("[::1]") && (host.size() == 5 || host[5] == ':');
  const std::string_view name = host.substr(0, host.find(':'));
  if (name == "localhost") return true;
  return name.starts_with("127.") && name.find_first_not_of("0123456789.") == std::string_view::npos;
}

Access::Valid Access::by_digest(const Tokens& tokens) {
  std::vector<PersonToken> all;
  for (const std::string& one : tokens.full)
    if (!one.empty()) all.push_back({{std::string(kTokenFull), Role::administers, nullptr}, sha256(one)});
  for (const std::string& one : tokens.read)
    if (!one.empty()) all.push_back({{std::string(api::kTokenRead), Role::reads, nullptr}, sha256(one)});
  all.insert(all.end(), tokens.people.begin(), tokens.people.end());
  return std::make_shared<const std::vector<PersonToken>>(std::move(all));
}

tl::expected<Person, Response> Access::admit(const Request& request, Action action) const {
  const Valid all = valid();
  if (all->empty() && !signs_in()) {
    if (auto no = refuse_foreign_page(request)) return tl::unexpected(*std::move(no));
    return open_person();
  }
  auto person = bearer(*all, request);
  if (!person) return person;
  if (auto no = api::refuse_role(*person, action, request.path)) return tl::unexpected(*std::move(no));
  return person;
}

Person Access::open_person() { return {std::string(kNoToken), Role::administers, nullptr}; }

tl::expected<Person, Response> Access::bearer(const std::vector<PersonToken>& all,
                                              const Request& request) const {
  std::optional<std::string> token = token_of(request);
  const std::string cookie = sign_ins_ == nullptr ? "" : sign_ins_->cookies.get(Cookies::kSession, request);
  if (request.authorization.empty() && !cookie.empty()) {
    auto sign_in = sign_ins_->find(cookie);
    if (!sign_in) return tl::unexpected(signed_out(request));
    if (auto no = sign_ins_->refuse_other_site(request, *sign_in)) return tl::unexpected(*std::move(no));
    token = std::move(sign_in->token);
  }
  if (!token) return tl::unexpected(unknown_token(request));
  if (const PersonToken* found = find(all, *token)) return found->person;
  if (!signs_in() || !looks_like_jwt(*token)) return tl::unexpected(unknown_token(request));
  auto person = sign_in_(*token);
  if (!person) return tl::unexpected(refuse_token(person.error(), request));
  return *std::move(person);
}

std::string who_asks(const Person& person, const Request& request) {
  return person.name + ", " + request.peer +
         (person.signed_in ? " (http, oidc sub " + person.subject + ")" : " (http)");
}

}  // namespace rung::http
