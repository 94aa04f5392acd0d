// Checks the identity provider.
#include "src/cli/doctor/doctor.h"
#include "src/net/http_client.h"
#include "src/oidc/provider.h"

namespace rung::cli {

Findings check_identity_provider(const Config& config) {
  const OidcOptions& oidc = config.http.oidc;
  const std::string name = "http.oidc";
  if (oidc.issuer.empty()) return {};
  const auto keys = oidc::fetch_keys(oidc, [&](const std::string& url) {
    net::HttpClientOptions options = oidc::get_options(url, oidc.ca);
    options.connecting = options.answering = kDoctorTimeout;
    return net::HttpClient(std::move(options)).send("GET", "");
  });
  if (keys)
    return {good(name, "the identity provider " + oidc.issuer + " has " + std::to_string((*keys)->size()) +
                           " keys for signatures")};
  const std::string what = keys.error().message + ": nobody can sign in; messages are not affected";
  if (keys.error().is_transient())
    return {warning(name, what, "start the identity provider, or correct http.oidc.issuer or http.oidc.ca")};
  return {wrong(name, what, "correct http.oidc.issuer: the issuer of the provider's discovery document")};
}

}  // namespace rung::cli
