#include "src/oidc/provider.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "src/core/base/threads.h"
#include "src/core/base/url.h"
#include "src/core/base/utf8.h"
#include "src/core/message/identity.h"
#include "src/io/log.h"

namespace rung::oidc {
namespace {

using Json = nlohmann::json;

constexpr Ms kConnecting{3000}, kAnswering{5000};
constexpr std::size_t kMostDocument = 512UL * 1024;  // bytes, with its headers
constexpr std::size_t kLongestUrl = 2048;
constexpr std::size_t kLongestCode = 4096;
constexpr int kOk = 200;

Result<std::string> document(const std::string& url, net::HttpClient& client) {
  const net::HttpReply reply = client.send("GET", url);
  if (reply.status == 0) return transient(url + " " + reply.error);
  if (reply.status != kOk) return transient(url + " answers with status " + std::to_string(reply.status));
  return reply.body;
}

// Keys that came over a network in the clear would be anybody's.
bool may_be_read(const std::string& url, bool issuer_is_plain) {
  if (url.size() > kLongestUrl || escape_controls(url) != url) return false;
  const auto parsed = parse_url(url);
  if (!parsed || !parsed->user.empty()) return false;
  return parsed->scheme == "https" ||
         (issuer_is_plain && parsed->scheme == "http" && is_loopback(parsed->host));
}

std::string form_of(const std::vector<std::pair<std::string_view, std::string>>& fields) {
  std::string out;
  for (const auto& [name, value] : fields)
    out.append(out.empty() ? "" : "&").append(name).append("=").append(percent_encode(value));
  return out;
}

}  // namespace

std::string discovery_url(const std::string& issuer) {
  const bool slash = issuer.ends_with('/');
  return issuer.substr(0, issuer.size() - (slash ? 1 : 0)) + "/.well-known/openid-configuration";
}

net::HttpClientOptions client_options(const std::string& ca) {
  return {
      .base = "", .ca = ca, .connecting = kConnecting, .answering = kAnswering, .max_answer = kMostDocument};
}

Result<Discovered> discover(const OidcOptions& options, net::HttpClient& client) {
  const std::string from = discovery_url(options.issuer);
  const auto discovery = document(from, client);
  if (!discovery) return tl::unexpected(discovery.error());
  const Json about = Json::parse(*discovery, nullptr, false);
  const std::string issuer = text_member(about, "issuer");
  if (issuer.empty()) return permanent(from + " is not a discovery document: it names no issuer");
  if (issuer != options.issuer)
    return permanent(from + " is of another issuer: " + escape_controls(issuer.substr(0, kLongestUrl)) +
                     "; http.oidc.issuer must be the same, character by character");
  // "" if it may not be used.
  const auto url_in = [&](const char* name) {
    const std::string url = text_member(about, name);
    return may_be_read(url, options.issuer.starts_with("http://")) ? url : "";
  };
  const std::string keys_at = url_in("jwks_uri");
  if (keys_at.empty())
    return permanent(from + " names no jwks_uri that may be used: it must be an https:// URL");
  const auto jwks = document(keys_at, client);
  if (!jwks) return tl::unexpected(jwks.error());
  auto keys = read_keys(*jwks);
  if (!keys) return tl::unexpected(Error{keys.error().kind, keys_at + ": " + keys.error().message});
  return Discovered{*std::move(keys), url_in("authorization_endpoint"), url_in("token_endpoint")};
}

Provider::Provider(OidcOptions options, const Clock& clock, OnProblem on_problem, ProviderLimits limits)
    : options_(std::move(options)),
      clock_(clock),
      on_problem_(std::move(on_problem)),
      limits_(limits),
      client_(client_options(options_.ca)),
      grants_(std::make_shared<const OidcOptions>(options_)),
      thread_([this] { run(); }) {}

Provider::~Provider() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  client_.interrupt();
  wakes_.notify_all();
  thread_.join();
}

Discovered Provider::discovered() const {
  const std::lock_guard lock(mutex_);
  return clock_.boot() - confirmed_ <= limits_.oldest ? discovered_ : Discovered{};
}

bool Provider::ask_for_refresh() {
  const std::lock_guard lock(mutex_);
  if (wanted_) return true;
  if (tried_ && clock_.boot() - *tried_ < limits_.between_asked) return false;
  wanted_ = true;
  wakes_.notify_all();
  return true;
}

KeyCounts Provider::counts() const {
  const KeySetPtr keys = discovered().keys;
  const std::lock_guard lock(mutex_);
  return {counts_.fetched, counts_.failed, keys == nullptr ? 0 : size_of(*keys)};
}

void Provider::run() {
  begin_thread("rung-oidc");
  for (;;) {
    auto fetched = discover(options_, client_);
    const bool ok = fetched.has_value();
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;  // it may have failed for that
    }
    report(fetched);
    take(std::move(fetched));
    std::unique_lock lock(mutex_);
    wakes_.wait_for(lock, ok ? limits_.refresh : limits_.retry, [this] { return stopping_ || wanted_; });
    if (stopping_) return;
    wanted_ = true;
  }
}

void Provider::take(Result<Discovered> fetched) {
  const std::lock_guard lock(mutex_);
  wanted_ = false;
  tried_ = clock_.boot();
  if (!fetched) {
    ++counts_.failed;
    // The provider has withdrawn them.
    if (fetched.error().kind == Error::Kind::not_found) discovered_ = {};
    return;
  }
  ++counts_.fetched;
  discovered_ = *std::move(fetched);
  confirmed_ = *tried_;
}

// One line per change.
void Provider::report(const Result<Discovered>& fetched) {
  const std::string now = fetched ? "" : fetched.error().message;
  if (problem_ == now) return;
  if (fetched) {
    log::info("identity provider's keys fetched",
              {{"issuer", options_.issuer}, {"keys", size_of(*fetched->keys)}});
  } else if (!problem_ || problem_->empty()) {
    log::warn("identity provider's keys cannot be fetched", {{"issuer", options_.issuer}, {"reason", now}});
  }
  problem_ = now;
  on_problem_(now);
}

tl::expected<Person, Refusal> Provider::person_of(std::string_view token) {
  const KeySetPtr keys = discovered().keys;
  std::unique_lock lock(mutex_);
  const auto grants = grants_;
  lock.unlock();
  if (grants == nullptr) return invalid("tokens of an identity provider are no longer accepted");
  if (keys == nullptr)
    return refuse(Refusal::Kind::later, "the keys of the identity provider are not available");
  const auto payload = payload_of(token, *keys);
  if (!payload) {
    if (payload.error().kind != Refusal::Kind::unknown_key || !ask_for_refresh())
      return tl::unexpected(payload.error());
    return refuse(Refusal::Kind::later, "the keys of the identity provider are being fetched");
  }
  return bearer_of(*payload, *grants, clock_.wall());
}

bool Provider::replace_grants(const OidcOptions& loaded) {
  const bool none = loaded.issuer.empty();
  if (!none && (loaded.issuer != options_.issuer || loaded.client_id != options_.client_id ||
                loaded.roles_claim != options_.roles_claim))
    return false;
  const std::lock_guard lock(mutex_);
  grants_ = none ? nullptr : std::make_shared<const OidcOptions>(loaded);
  return true;
}

// --- signing in with a browser

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
  net::HttpClientOptions endpoint = client_options(options_.ca);
  endpoint.content_type = "application/x-www-form-urlencoded";
  if (!options_.client_secret.empty()) {
    endpoint.user = percent_encode(options_.client_id);
    endpoint.password = percent_encode(options_.client_secret);
  }
  const net::HttpReply reply = net::HttpClient(std::move(endpoint))
                                   .send("POST", login->endpoint,
                                         form_of({{"grant_type", "authorization_code"},
                                                  {"code", code},
                                                  {"redirect_uri", login->redirect},
                                                  {"client_id", options_.client_id},
                                                  {"code_verifier", login->verifier}}));
  if (reply.status == 0) return transient(login->endpoint + " " + reply.error);
  const Json answer = Json::parse(reply.body, nullptr, false);
  if (reply.status != kOk)
    return permanent("the identity provider refuses the login: " +
                     escape_controls(text_member(answer, "error").substr(0, 200) + " " +
                                     text_member(answer, "error_description").substr(0, 500)));
  const std::string token = text_member(answer, "id_token");
  if (token.empty()) return permanent(login->endpoint + " answers without an id_token");
  return Ended{token, login->to};
}

}  // namespace rung::oidc
