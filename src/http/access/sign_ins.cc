#include "src/http/access/sign_ins.h"

#include <openssl/crypto.h>

#include <algorithm>

#include "src/api/base/message.h"
#include "src/core/message/identity.h"
#include "src/http/access/access.h"

namespace rung::http {
namespace {

std::string random_text() { return DeliveryTokens::new_key(); }

}  // namespace

bool same_secret(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string SignIns::open(std::string token) {
  std::string cookie = random_text();
  const BootMs now = clock_.boot();
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [this](const auto& one) { return is_over(one.second); });
  const auto of_token =
      std::ranges::count_if(entries_, [&](const auto& one) { return one.second.sign_in.token == token; });
  if (static_cast<std::size_t>(of_token) >= kMostOfToken) make_room(token);
  if (entries_.size() >= kMost) make_room("");
  entries_[sha256(cookie)] = {{std::move(token), random_text()}, now, now};
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

std::optional<Response> SignIns::refuse_other_site(const Request& request) const {
  if (!cookies.from_other_site(request)) return std::nullopt;
  return problem(403,
                 "a page of another site made this request (Sec-Fetch-Site, Origin). Behind a proxy: set "
                 "http.url, or let it pass on Host",
                 request.path);
}

std::optional<Response> SignIns::refuse_other_site(const Request& request, const SignIn& sign_in) const {
  if (request.method == "GET") return std::nullopt;
  if (auto no = refuse_other_site(request)) return no;
  if (!same_secret(request.csrf, sign_in.csrf))
    return problem(
        403,
        "a change with the cookie of a sign-in needs the header X-Rung-CSRF: GET /v1/session has its value",
        request.path);
  return std::nullopt;
}

}  // namespace rung::http
