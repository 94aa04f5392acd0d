#include "src/http/access/access.h"

#include <openssl/crypto.h>
#include <re2/re2.h>

namespace rung::http {

namespace {

// Names in the audit that no entry of http.tokens_file can have, as api::kTokenRead.
constexpr std::string_view kNoToken = "no token", kTokenFull = "token full";

// "": there is no such header, or it is not a bearer token.
std::string token_of(const Request& request) {
  static const RE2 bearer("(?is)bearer (.+)", RE2::Latin1);
  std::string token;
  RE2::FullMatch(request.authorization, bearer, &token);
  return token;
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

// `error`: what the header says of it.
Problem unauthorized(std::string detail, const std::string& error = ", error=\"invalid_token\"") {
  return {401, std::move(detail), {}, {{"WWW-Authenticate", "Bearer realm=\"rung\"" + error}}};
}

Problem unknown_token() { return unauthorized("unknown token: Authorization: Bearer TOKEN"); }

// Three parts are a signed token of an identity provider, five an encrypted one.
bool looks_like_jwt(std::string_view token) {
  constexpr auto kSigned = 2, kEncrypted = 4;
  const auto dots = std::ranges::count(token, '.');
  return dots == kSigned || dots == kEncrypted;
}

Problem refused_token(const oidc::Refusal& refusal) {
  using Kind = oidc::Refusal::Kind;
  if (refusal.kind == Kind::no_role) return {403, refusal.what};
  if (refusal.kind == Kind::later) return {503, refusal.what};
  return unauthorized(refusal.what, ", error=\"invalid_token\", error_description=\"" + refusal.what + "\"");
}

}  // namespace

std::string_view host_of_origin(std::string_view origin) {
  const std::size_t at = origin.find("://");
  return at == std::string_view::npos ? origin : origin.substr(at + 3);
}

void refuse_foreign_page(const Request& request) {
  if (request.method != "GET" && is_cross_site(request))
    throw Problem(403, "a page of another site made this request (Sec-Fetch-Site)");
  if (!is_loopback_host(request.host))
    throw Problem(
        403, "without a token (http.token_file, http.oidc) the Host must be 127.0.0.1, [::1] or localhost");
  if (!request.origin.empty() && host_of_origin(request.origin) != request.host)
    throw Problem(403,
                  "without a token (http.token_file, http.oidc) requests from another origin are refused");
}

bool is_loopback_host(std::string_view host) {
  static const RE2 loopback(R"((?:localhost|127\.[0-9.]*|\[::1\])(?::.*)?)");
  return RE2::FullMatch({host.data(), host.size()}, loopback);
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

Person Access::admit(const Request& request, Action action) const {
  if (!needs_token()) {
    refuse_foreign_page(request);
    return open_person();
  }
  Person person = identify(request);
  api::refuse_role(person, action);
  return person;
}

Person Access::open_person() { return {std::string(kNoToken), Role::administers, nullptr}; }

Person Access::identify(const Request& request) const {
  if (const std::string token = token_of(request); !token.empty()) return bearer(token);
  if (!request.authorization.empty()) throw unknown_token();
  const std::string cookie = sign_ins_ == nullptr ? "" : sign_ins_->cookies.get(Cookies::kSession, request);
  if (cookie.empty()) throw unauthorized("a token is required: Authorization: Bearer TOKEN", "");
  const auto sign_in = sign_ins_->find(cookie);
  if (!sign_in) throw Problem(401, "this sign-in has ended: sign in again");
  sign_ins_->refuse_other_site(request, *sign_in);
  return bearer(sign_in->token);
}

Person Access::bearer(const std::string& token) const {
  const Valid all = valid();
  const PersonToken* const found = token.empty() ? nullptr : find(*all, token);
  if (found != nullptr) return found->person;
  if (!signs_in() || !looks_like_jwt(token)) throw unknown_token();
  auto person = sign_in_(token);
  if (!person) throw refused_token(person.error());
  return *std::move(person);
}

std::string who_asks(const Person& person, const Request& request) {
  return person.name + ", " + request.peer +
         (person.signed_in ? " (http, oidc sub " + person.subject + ")" : " (http)");
}

bool same_secret(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string SignIns::open(std::string token) {
  std::string cookie = DeliveryTokens::new_key();
  const BootMs now = clock_.boot();
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [this](const auto& one) { return is_over(one.second); });
  const auto of_token =
      std::ranges::count_if(entries_, [&](const auto& one) { return one.second.sign_in.token == token; });
  if (static_cast<std::size_t>(of_token) >= kMostOfToken) make_room(token);
  if (entries_.size() >= kMost) make_room("");
  entries_[sha256(cookie)] = {{std::move(token), DeliveryTokens::new_key()}, now, now};
  return cookie;
}

std::optional<SignIns::SignIn> SignIns::find(std::string_view cookie) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(sha256(cookie));
  if (found == entries_.end() || is_over(found->second)) return std::nullopt;
  found->second.used = clock_.boot();
  return found->second.sign_in;
}

void SignIns::close(std::string_view cookie) {
  const std::lock_guard lock(mutex_);
  entries_.erase(sha256(cookie));
}

bool SignIns::is_over(const Entry& entry) const {
  const BootMs now = clock_.boot();
  return now - entry.used > kIdle || now - entry.began > kLongest;
}

void SignIns::make_room(std::string_view token) {
  auto oldest = entries_.end();
  for (auto one = entries_.begin(); one != entries_.end(); ++one) {
    if (!token.empty() && one->second.sign_in.token != token) continue;
    if (oldest == entries_.end() || one->second.used < oldest->second.used) oldest = one;
  }
  if (oldest != entries_.end()) entries_.erase(oldest);
}

Cookies::Cookies(std::string url, bool tls)
    : url_(std::move(url)),
      origin_(url_.substr(0, url_.find('/', url_.find("://") + 3))),
      tls_(tls),
      secure_(tls || url_.starts_with("https://")) {}

bool Cookies::is_direct(const Request& request) const { return !tls_ && is_loopback_host(request.host); }

// A browser sends a cookie to all ports and paths of a host: two APIs there need two names. The prefixes keep
// other hosts of the domain, and plain HTTP, from setting it.
std::string Cookies::name_of(std::string_view cookie, const Request& request) const {
  std::string name = !secure_ || is_direct(request) ? "" : path().empty() ? "__Host-" : "__Secure-";
  return name.append("rung_").append(cookie) + "_" + to_hex(sha256(url_.empty() ? request.host : url_), 4);
}

std::string Cookies::get(std::string_view cookie, const Request& request) const {
  return api::cookie_named(name_of(cookie, request), request.cookies);
}

std::string Cookies::set(std::string_view cookie, std::string_view value, const Request& request) const {
  const bool direct = is_direct(request);
  std::string header = name_of(cookie, request);
  header.append("=").append(value).append("; Path=").append(direct || path().empty() ? "/" : path());
  if ((secure_ && !direct) || request.origin.starts_with("https://")) header += "; Secure";
  // Lax: the provider's redirect comes from another site.
  header.append("; HttpOnly; SameSite=").append(cookie == kLogin ? "Lax" : "Strict");
  if (value.empty()) return header + "; Max-Age=0";
  return header + (cookie == kLogin ? "; Max-Age=600" : "");
}

bool Cookies::from_other_site(const Request& request) const {
  const std::string& origin = request.origin;
  if (!request.fetch_site.empty() || origin.empty()) return is_cross_site(request);
  const std::string host(host_of_origin(origin));
  const char* const port = origin.starts_with("https://") ? ":443" : ":80";
  return origin != origin_ && request.host != host && request.host != host + port;
}

bool is_cross_site(const Request& request) {
  // Absent: not a browser, or an old one.
  return request.fetch_site == "cross-site" || request.fetch_site == "same-site";
}

void SignIns::refuse_other_site(const Request& request) const {
  if (cookies.from_other_site(request))
    throw Problem(403,
                  "a page of another site made this request (Sec-Fetch-Site, Origin). Behind a proxy: set "
                  "http.url, or let it pass on Host");
}

void SignIns::refuse_other_site(const Request& request, const SignIn& sign_in) const {
  if (request.method == "GET") return;
  refuse_other_site(request);
  if (!same_secret(request.csrf, sign_in.csrf))
    throw Problem(
        403,
        "a change with the cookie of a sign-in needs the header X-Rung-CSRF: GET /v1/session has its value");
}

}  // namespace rung::http
