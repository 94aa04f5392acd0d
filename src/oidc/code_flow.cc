// Signing in with a browser.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "src/core/base/url.h"
#include "src/core/base/utf8.h"
#include "src/core/message/identity.h"
#include "src/oidc/provider.h"

namespace rung::oidc {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kLongestCode = 4096;

std::string form_of(const std::vector<std::pair<std::string_view, std::string>>& fields) {
  std::string out;
  for (const auto& [name, value] : fields)
    out.append(out.empty() ? "" : "&").append(name).append("=").append(percent_encode(value));
  return out;
}

}  // namespace

Result<Provider::Begun> Provider::begin_login(const std::string& redirect, const std::string& to) {
  const Discovered provider = discovered();
  if (provider.keys == nullptr) return transient("the identity provider has not answered yet");
  const std::string& page = provider.authorization_endpoint;
  if (page.empty() || provider.token_endpoint.empty())
    return permanent(discovery_url(options_.issuer) + " names no " +
                     (page.empty() ? "authorization_endpoint" : "token_endpoint") +
                     " that may be used: it must be an https:// URL");
  Login login{DeliveryTokens::new_key(), provider.token_endpoint, redirect, to, clock_.boot()};
  Begun out;
  out.state = DeliveryTokens::new_key();
  out.url = page + (page.find('?') == std::string::npos ? "?" : "&") +
            form_of({{"response_type", "code"},
                     {"client_id", options_.client_id},
                     {"redirect_uri", redirect},
                     {"scope", options_.scope},
                     {"state", out.state},
                     {"code_challenge", to_base64url(sha256(login.verifier))},
                     {"code_challenge_method", "S256"}});
  const std::lock_guard lock(mutex_);
  std::erase_if(logins_, [&](const auto& one) { return clock_.boot() - one.second.began > kLongestLogin; });
  if (logins_.size() >= kMostLogins)
    logins_.erase(std::ranges::min_element(logins_, {}, [](const auto& one) { return one.second.began; }));
  logins_[out.state] = std::move(login);
  return out;
}

std::optional<Provider::Login> Provider::take_login(std::string_view state) {
  const std::lock_guard lock(mutex_);
  const auto found = logins_.find(state);
  if (found == logins_.end()) return std::nullopt;
  Login login = std::move(found->second);
  logins_.erase(found);
  if (clock_.boot() - login.began > kLongestLogin) return std::nullopt;
  return login;
}

Result<Provider::Ended> Provider::end_login(std::string_view state, const std::string& code) {
  const auto login = take_login(state);
  if (!login)
    return tl::unexpected(Error{Error::Kind::not_found, "this login has ended, or was begun elsewhere"});
  if (code.empty() || code.size() > kLongestCode) return permanent("the provider's answer has no code");
  net::HttpClientOptions endpoint = get_options(login->endpoint, options_.ca);
  endpoint.content_type = "application/x-www-form-urlencoded";
  if (!options_.client_secret.empty()) {
    endpoint.user = percent_encode(options_.client_id);
    endpoint.password = percent_encode(options_.client_secret);
  }
  const net::HttpReply reply = net::HttpClient(std::move(endpoint))
                                   .send("POST", "",
                                         form_of({{"grant_type", "authorization_code"},
                                                  {"code", code},
                                                  {"redirect_uri", login->redirect},
                                                  {"client_id", options_.client_id},
                                                  {"code_verifier", login->verifier}}));
  if (reply.status == 0) return transient(login->endpoint + " " + reply.error);
  const Json answer = Json::parse(reply.body, nullptr, false);
  constexpr int kOk = 200;
  if (reply.status != kOk)
    return permanent("the identity provider refuses the login: " +
                     escape_controls(text_member(answer, "error").substr(0, 200) + " " +
                                     text_member(answer, "error_description").substr(0, 500)));
  const std::string token = text_member(answer, "id_token");
  if (token.empty()) return permanent(login->endpoint + " answers without an id_token");
  return Ended{token, login->to};
}

}  // namespace rung::oidc
