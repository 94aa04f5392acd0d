#include "src/oidc/discovery.h"

#include <nlohmann/json.hpp>

#include "src/core/base/url.h"
#include "src/core/base/utf8.h"

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

std::string text_of(const Json& about, const char* name) {
  const auto it = about.is_object() ? about.find(name) : about.end();
  return it != about.end() && it->is_string() ? it->get<std::string>() : "";
}

// The discovery document, of the right issuer.
Result<Json> discover(const OidcOptions& options, const Get& get) {
  const std::string from = discovery_url(options.issuer);
  const auto discovered = document(from, get);
  if (!discovered) return tl::unexpected(discovered.error());
  Json about = Json::parse(*discovered, nullptr, false);
  const std::string issuer = text_of(about, "issuer");
  if (issuer.empty()) return permanent(from + " is not a discovery document: it names no issuer");
  if (issuer != options.issuer)
    return permanent(from + " is of another issuer: " + escape_controls(issuer.substr(0, kLongestUrl)) +
                     "; http.oidc.issuer must be the same, character by character");
  return about;
}

// A URL that it names.
Result<std::string> url_in(const Json& about, const OidcOptions& options, const char* name) {
  std::string url = text_of(about, name);
  if (!may_be_read(url, options.issuer.starts_with("http://")))
    return permanent(discovery_url(options.issuer) + " names no " + name +
                     " that may be used: it must be an https:// URL");
  return url;
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

Result<Endpoints> fetch_endpoints(const OidcOptions& options, const Get& get) {
  const auto about = discover(options, get);
  if (!about) return tl::unexpected(about.error());
  const auto authorization = url_in(*about, options, "authorization_endpoint");
  if (!authorization) return tl::unexpected(authorization.error());
  const auto token = url_in(*about, options, "token_endpoint");
  if (!token) return tl::unexpected(token.error());
  return Endpoints{*authorization, *token};
}

Result<KeySetPtr> fetch_keys(const OidcOptions& options, const Get& get) {
  const auto about = discover(options, get);
  if (!about) return tl::unexpected(about.error());
  const auto keys_at = url_in(*about, options, "jwks_uri");
  if (!keys_at) return tl::unexpected(keys_at.error());
  const auto jwks = document(*keys_at, get);
  if (!jwks) return tl::unexpected(jwks.error());
  auto keys = KeySet::read(*jwks);
  if (!keys) return tl::unexpected(Error{keys.error().kind, *keys_at + ": " + keys.error().message});
  return keys;
}

}  // namespace rung::oidc
