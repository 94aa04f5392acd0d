#include "src/http/access/sign_ins.h"

#include <openssl/crypto.h>

#include <algorithm>

#include "src/core/message/delivery_token.h"
#include "src/http/request/problem.h"

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

std::string SignIns::set_cookie(std::string_view cookie, bool tls) {
  std::string header(kSignInCookie);
  header.append("=").append(cookie).append("; Path=/; HttpOnly; SameSite=Strict");
  if (tls) header += "; Secure";
  if (cookie.empty()) header += "; Max-Age=0";
  return header;
}

bool is_cross_site(const Request& request) {
  // Absent: not a browser, or an old one.
  return request.fetch_site == "cross-site" || request.fetch_site == "same-site";
}

std::optional<Response> refuse_other_site(const Request& request, const SignIns::SignIn& sign_in) {
  if (request.method == "GET") return std::nullopt;
  if (is_cross_site(request))
    return problem(403, "a page of another site made this request (Sec-Fetch-Site)", request.path);
  if (!same_secret(request.csrf, sign_in.csrf))
    return problem(
        403,
        "a change with the cookie of a sign-in needs the header X-Rung-CSRF: GET /v1/session has its value",
        request.path);
  return std::nullopt;
}

}  // namespace rung::http
