#include "src/oidc/code_flow.h"

#include <openssl/evp.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "src/core/base/url.h"
#include "src/core/base/utf8.h"
#include "src/core/message/identity.h"

namespace rung::oidc {
namespace {

using Json = nlohmann::json;

constexpr Ms kFailureHolds{5000};
constexpr Ms kEndpointsHold{std::chrono::minutes{5}};
constexpr std::size_t kLongestCode = 4096;

std::string random_text() { return DeliveryTokens::new_key(); }

// As in a JWT: without padding.
std::string base64url(const Sha256& bytes) {
  std::string out(4 * ((bytes.size() + 2) / 3), '\0');
  std::string with_end(out.size() + 1, '\0');
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(with_end.data()), bytes.data(),
                  static_cast<int>(bytes.size()));
  out = with_end.substr(0, with_end.find_first_of(std::string_view("=\0", 2)));
  std::ranges::replace(out, '+', '-');
  std::ranges::replace(out, '/', '_');
  return out;
}

std::string form_of(const std::vector<std::pair<std::string_view, std::string>>& fields) {
  std::string out;
  for (const auto& [name, value] : fields)
    out.append(out.empty() ? "" : "&").append(name).append("=").append(percent_encode(value));
  return out;
}

// "https://id.example.com/token" -> the server and the path.
std::pair<std::string, std::string> split(const std::string& url) {
  const std::size_t host = url.find("://") + 3;
  const std::size_t path = url.find('/', host);
  if (path == std::string::npos) return {url, "/"};
  return {url.substr(0, path), url.substr(path)};
}

}  // namespace

CodeFlow::CodeFlow(OidcOptions options, const Clock& clock, Get get, Post post)
    : options_(std::move(options)),
      clock_(clock),
      get_(get ? std::move(get) : [ca = options_.ca](const std::string& url) {
        const auto [server, path] = split(url);
        return net::HttpClient(get_options(server, ca)).send("GET", path);
      }),
      post_(post ? std::move(post) : [this](const std::string& url, const std::string& form) {
        const auto [server, path] = split(url);
        net::HttpClientOptions to = get_options(server, options_.ca);
        to.content_type = "application/x-www-form-urlencoded";
        if (!options_.client_secret.empty()) {
          to.user = percent_encode(options_.client_id);
          to.password = percent_encode(options_.client_secret);
        }
        return net::HttpClient(std::move(to)).send("POST", path, form);
      }) {}

Result<Endpoints> CodeFlow::endpoints() {
  {
    const std::lock_guard lock(mutex_);
    if (endpoints_ && clock_.boot() - endpoints_at_ < kEndpointsHold) return *endpoints_;
    // Strangers can ask: while the provider is away, not every one of them makes a request of ours wait.
    if (failure_ && clock_.boot() - endpoints_at_ < kFailureHolds) return tl::unexpected(*failure_);
  }
  auto found = fetch_endpoints(options_, get_);
  const std::lock_guard lock(mutex_);
  endpoints_at_ = clock_.boot();
  failure_ = found ? std::nullopt : std::optional(found.error());
  endpoints_ = found ? std::optional(*found) : std::nullopt;
  return found;
}

Result<CodeFlow::Begun> CodeFlow::begin(const std::string& redirect, const std::string& to) {
  const auto at = endpoints();
  if (!at) return tl::unexpected(at.error());
  Login login{random_text(), redirect, to, clock_.boot()};
  Begun out;
  out.state = random_text();
  out.url = at->authorization + (at->authorization.find('?') == std::string::npos ? "?" : "&") +
            form_of({{"response_type", "code"},
                     {"client_id", options_.client_id},
                     {"redirect_uri", redirect},
                     {"scope", options_.scope},
                     {"state", out.state},
                     {"code_challenge", base64url(sha256(login.verifier))},
                     {"code_challenge_method", "S256"}});
  const std::lock_guard lock(mutex_);
  std::erase_if(logins_, [&](const auto& one) { return clock_.boot() - one.second.began > kLongest; });
  if (logins_.size() >= kMost)
    logins_.erase(std::ranges::min_element(logins_, {}, [](const auto& one) { return one.second.began; }));
  logins_[out.state] = std::move(login);
  return out;
}

std::optional<CodeFlow::Login> CodeFlow::take(std::string_view state) {
  const std::lock_guard lock(mutex_);
  const auto found = logins_.find(state);
  if (found == logins_.end()) return std::nullopt;
  Login login = std::move(found->second);
  logins_.erase(found);
  if (clock_.boot() - login.began > kLongest) return std::nullopt;
  return login;
}

Result<CodeFlow::Ended> CodeFlow::end(std::string_view state, const std::string& code) {
  const auto login = take(state);
  if (!login)
    return tl::unexpected(Error{Error::Kind::not_found, "this login has ended, or was begun elsewhere"});
  if (code.empty() || code.size() > kLongestCode) return permanent("the provider's answer has no code");
  const auto at = endpoints();
  if (!at) return tl::unexpected(at.error());
  const net::HttpReply reply = post_(at->token, form_of({{"grant_type", "authorization_code"},
                                                         {"code", code},
                                                         {"redirect_uri", login->redirect},
                                                         {"client_id", options_.client_id},
                                                         {"code_verifier", login->verifier}}));
  if (reply.status == 0) return transient(at->token + " " + reply.error);
  const Json answer = Json::parse(reply.body, nullptr, false);
  constexpr int kOk = 200;
  if (reply.status != kOk)
    return permanent("the identity provider refuses the login: " +
                     escape_controls(text_member(answer, "error").substr(0, 200) + " " +
                                     text_member(answer, "error_description").substr(0, 500)));
  const std::string token = text_member(answer, "id_token");
  if (token.empty()) return permanent(at->token + " answers without an id_token");
  return Ended{token, login->to};
}

}  // namespace rung::oidc
