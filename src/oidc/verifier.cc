#include "src/oidc/verifier.h"

#include <utility>

namespace rung::oidc {

Verifier::Verifier(OidcOptions options, Provider& provider, const Clock& clock)
    : provider_(provider), clock_(clock), options_(std::make_shared<const OidcOptions>(std::move(options))) {}

tl::expected<Person, Refusal> Verifier::person_of(std::string_view token) const {
  const KeySetPtr keys = provider_.keys();
  if (keys == nullptr)
    return tl::unexpected(
        Refusal{Refusal::Kind::later, "the keys of the identity provider are not available"});
  const auto payload = keys->payload_of(token);
  if (!payload) {
    if (payload.error().kind != Refusal::Kind::unknown_key || !provider_.ask_for_refresh())
      return tl::unexpected(payload.error());
    return tl::unexpected(
        Refusal{Refusal::Kind::later, "the keys of the identity provider are being fetched"});
  }
  auto bearer = bearer_of(*payload, *options(), clock_.wall());
  if (!bearer) return tl::unexpected(bearer.error());
  return std::move(bearer->person);
}

void Verifier::replace_grants(const OidcOptions& loaded) {
  const Options now = options();
  if (loaded.issuer != now->issuer || loaded.client_id != now->client_id ||
      loaded.roles_claim != now->roles_claim)
    return;
  auto fresh = std::make_shared<const OidcOptions>(loaded);
  const std::lock_guard lock(mutex_);
  options_.swap(fresh);
}

}  // namespace rung::oidc
