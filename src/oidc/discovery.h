// How the keys of an identity provider are found: its discovery document (OpenID Connect Discovery 1.0) names
// the address of its JWKS document. Thread: any; the calls block as `get` does.
#pragma once

#include <functional>
#include <string>

#include "src/core/rules/oidc_options.h"
#include "src/net/http_client.h"
#include "src/oidc/key_set.h"

namespace rung::oidc {

// Gets a document by its URL.
using Get = std::function<net::HttpReply(const std::string& url)>;

// Where both documents of `issuer` are: "https://id.example.com/.well-known/openid-configuration".
std::string discovery_url(const std::string& issuer);

// For a GET of `url`: bounded in time and size.
net::HttpClientOptions get_options(const std::string& url, const std::string& ca);

// What the discovery document says of signing in.
struct Endpoints {
  std::string authorization, token;
};
// Errors as those of fetch_keys().
Result<Endpoints> fetch_endpoints(const OidcOptions& options, const Get& get);

// Error: which document, and what is wrong with it. Transient: the provider may answer later;
// not_found: it has answered, and none of its keys is of use.
Result<KeySetPtr> fetch_keys(const OidcOptions& options, const Get& get);

}  // namespace rung::oidc
