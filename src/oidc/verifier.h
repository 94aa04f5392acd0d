// Who the bearer of a token is: keys, signature, claims and the config's map together.
// Thread: any; never blocks on the network.
#pragma once

#include <memory>
#include <mutex>
#include <string_view>

#include "src/core/base/clock.h"
#include "src/oidc/claims.h"
#include "src/oidc/provider.h"

namespace rung::oidc {

class Verifier {
 public:
  // REQUIRES: provider and clock outlive it.
  Verifier(OidcOptions options, Provider& provider, const Clock& clock);

  tl::expected<Person, Refusal> person_of(std::string_view token) const;
  // From the next request on: `clients` and `map` of these options. No issuer: nobody signs in any more.
  // False: nothing was changed, because they are for tokens of another issuer, audience or claim, whose
  // groups mean something else.
  bool replace_grants(const OidcOptions& loaded);

 private:
  using Options = std::shared_ptr<const OidcOptions>;
  Options options() const {
    const std::lock_guard lock(mutex_);
    return options_;
  }

  Provider& provider_;
  const Clock& clock_;
  mutable std::mutex mutex_;
  const Options first_;
  Options options_;  // guarded by mutex_; nullptr = nobody signs in
};

}  // namespace rung::oidc
