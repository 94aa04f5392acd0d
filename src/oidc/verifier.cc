#include "src/oidc/verifier.h"

#include <utility>

namespace rung::oidc {

Verifier::Verifier(OidcOptions options, Provider& provider, const Clock& clock)
    : provider_(provider),
      clock_(clock),
      first_(std::make_shared<const OidcOptions>(std::move(options))),
      options_(first_) {}

tl::expected<Person, Refusal> Verifier::person_of(std::string_view token) const {
  const Options now = options();
  if (now == nullptr)
    return tl::unexpected(
        Refusal{Refusal::Kind::invalid, "tokens of an identity provider are no longer accepted"});
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
  auto bearer = bearer_of(*payload, *now, clock_.wall());
  if (!bearer) return tl::unexpected(bearer.error());
  return std::move(bearer->person);
}

bool Verifier::replace_grants(const OidcOptions& loaded) {
  Options fresh;
  if (!loaded.issuer.empty()) {
    if (loaded.issuer != first_->issuer || loaded.client_id != first_->client_id ||
        loaded.roles_claim != first_->roles_claim)
      return false;
    fresh = std::make_shared<const OidcOptions>(loaded);
  }
  const std::lock_guard lock(mutex_);
  options_.swap(fresh);
  return true;
}

}  // namespace rung::oidc
