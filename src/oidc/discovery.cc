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

}  // namespace

std::string discovery_url(const std::string& issuer) {
  const bool slash = issuer.ends_with('/');
  return issuer.substr(0, issuer.size() - (slash ? 1 : 0)) + "/.well-known/openid-configuration";
}

net::HttpClientOptions get_options(const std::string& url, const std::string& ca) {
  return {
      .base = url, .ca = ca, .connecting = kConnecting, .answering = kAnswering, .max_answer = kMostDocument};
}

Result<KeySetPtr> fetch_keys(const OidcOptions& options, const Get& get) {
  const std::string from = discovery_url(options.issuer);
  const auto discovered = document(from, get);
  if (!discovered) return tl::unexpected(discovered.error());
  const Json about = Json::parse(*discovered, nullptr, false);
  const auto member = [&](const char* name) {
    const auto it = about.is_object() ? about.find(name) : about.end();
    return it != about.end() && it->is_string() ? it->get<std::string>() : "";
  };
  const std::string issuer = member("issuer");
  if (issuer.empty()) return permanent(from + " is not a discovery document: it names no issuer");
  if (issuer != options.issuer)
    return permanent(from + " is of another issuer: " + escape_controls(issuer.substr(0, kLongestUrl)) +
                     "; http.oidc.issuer must be the same, character by character");
  const std::string keys_at = member("jwks_uri");
  if (!may_be_read(keys_at, options.issuer.starts_with("http://")))
    return permanent(from + " names no jwks_uri that may be used: it must be an https:// URL");
  const auto jwks = document(keys_at, get);
  if (!jwks) return tl::unexpected(jwks.error());
  auto keys = KeySet::read(*jwks);
  if (!keys) return tl::unexpected(Error{keys.error().kind, keys_at + ": " + keys.error().message});
  return keys;
}

}  // namespace rung::oidc
