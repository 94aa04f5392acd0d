#include "src/oidc/provider.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "src/core/base/threads.h"
#include "src/core/base/url.h"
#include "src/core/base/utf8.h"
#include "src/io/log.h"

namespace rung::oidc {
namespace {

using Json = nlohmann::json;

constexpr Ms kConnecting{3000}, kAnswering{5000};
constexpr std::size_t kMostDocument = 512UL * 1024;  // bytes, with its headers
constexpr std::size_t kLongestUrl = 2048;

Result<std::string> document(const std::string& url, const Get& get) {
  const net::HttpReply reply = get(url);
  constexpr int kOk = 200;
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

}  // namespace

std::string discovery_url(const std::string& issuer) {
  const bool slash = issuer.ends_with('/');
  return issuer.substr(0, issuer.size() - (slash ? 1 : 0)) + "/.well-known/openid-configuration";
}

net::HttpClientOptions get_options(const std::string& url, const std::string& ca) {
  return {
      .base = url, .ca = ca, .connecting = kConnecting, .answering = kAnswering, .max_answer = kMostDocument};
}

Result<Discovered> discover(const OidcOptions& options, const Get& get) {
  const std::string from = discovery_url(options.issuer);
  const auto discovery = document(from, get);
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
  const auto jwks = document(keys_at, get);
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
      state_{.grants = std::make_shared<const OidcOptions>(options_)},
      thread_([this] { run(); }) {}

Provider::~Provider() {
  {
    const std::lock_guard lock(mutex_);
    state_.stopping = true;
    if (state_.client != nullptr) state_.client->interrupt();
  }
  wakes_.notify_all();
  thread_.join();
}

Discovered Provider::discovered() const {
  const std::lock_guard lock(mutex_);
  return clock_.boot() - state_.confirmed <= limits_.oldest ? state_.discovered : Discovered{};
}

bool Provider::ask_for_refresh() {
  const std::lock_guard lock(mutex_);
  if (state_.fetching || state_.asked) return true;
  if (state_.tried && clock_.boot() - *state_.tried < limits_.between_asked) return false;
  state_.asked = true;
  wakes_.notify_all();
  return true;
}

Provider::Counts Provider::counts() const {
  const KeySetPtr keys = discovered().keys;
  const std::lock_guard lock(mutex_);
  return {state_.fetched, state_.failed, keys == nullptr ? 0 : size_of(*keys)};
}

void Provider::run() {
  begin_thread("rung-oidc");
  for (;;) {
    auto fetched = discover(options_, [this](const std::string& url) { return get(url); });
    const bool ok = fetched.has_value();
    {
      const std::lock_guard lock(mutex_);
      if (state_.stopping) return;  // it may have failed for that
    }
    report(fetched);
    take(std::move(fetched));
    std::unique_lock lock(mutex_);
    wakes_.wait_for(lock, ok ? limits_.refresh : limits_.retry,
                    [this] { return state_.stopping || state_.asked; });
    if (state_.stopping) return;
    state_.asked = false;
    state_.fetching = true;
  }
}

net::HttpReply Provider::get(const std::string& url) {
  net::HttpClient client(get_options(url, options_.ca));
  {
    const std::lock_guard lock(mutex_);
    if (state_.stopping) client.interrupt();
    state_.client = &client;
  }
  net::HttpReply reply = client.send("GET", "");
  const std::lock_guard lock(mutex_);
  state_.client = nullptr;
  return reply;
}

void Provider::take(Result<Discovered> fetched) {
  const std::lock_guard lock(mutex_);
  state_.fetching = false;
  state_.tried = clock_.boot();
  if (!fetched) {
    ++state_.failed;
    // The provider has withdrawn them.
    if (fetched.error().kind == Error::Kind::not_found) state_.discovered = {};
    return;
  }
  ++state_.fetched;
  state_.discovered = *std::move(fetched);
  state_.confirmed = *state_.tried;
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
  const auto grants = state_.grants;
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
  auto bearer = bearer_of(*payload, *grants, clock_.wall());
  if (!bearer) return tl::unexpected(bearer.error());
  return std::move(bearer->person);
}

bool Provider::replace_grants(const OidcOptions& loaded) {
  const bool none = loaded.issuer.empty();
  if (!none && (loaded.issuer != options_.issuer || loaded.client_id != options_.client_id ||
                loaded.roles_claim != options_.roles_claim))
    return false;
  const std::lock_guard lock(mutex_);
  state_.grants = none ? nullptr : std::make_shared<const OidcOptions>(loaded);
  return true;
}

}  // namespace rung::oidc
