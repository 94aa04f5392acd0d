#include "src/cli/run/run_sign_in.h"

#include <utility>

#include "src/io/log.h"

namespace rung::cli {

RunSignIn::RunSignIn(const Config& config, const Clock& clock, oidc::Provider::OnProblem on_problem) {
  const OidcOptions& oidc = config.http.oidc;
  if (oidc.issuer.empty() || config.http.listen.empty()) return;
  provider_ = std::make_unique<oidc::Provider>(oidc, clock, std::move(on_problem));
  verifier_ = std::make_unique<oidc::Verifier>(oidc, *provider_, clock);
  login_ = std::make_unique<oidc::CodeFlow>(oidc, clock);
}

http::SignIn RunSignIn::sign_in() const {
  if (verifier_ == nullptr) return {};
  return [verifier = verifier_.get()](std::string_view token) { return verifier->person_of(token); };
}

bool RunSignIn::reload(const OidcOptions& loaded) {
  if (verifier_ == nullptr) return loaded.issuer.empty();
  const bool replaced = verifier_->replace_grants(loaded);
  if (replaced && loaded.issuer.empty())
    log::warn("nobody signs in any more: http.oidc is no longer in the config", {});
  if (!replaced)
    log::warn("http.oidc.map and clients stay as they were: the tokens they are for are other ones",
              {{"issuer", loaded.issuer}});
  return replaced;
}

bridge::KeyCounts RunSignIn::counts() const {
  if (provider_ == nullptr) return {};
  const oidc::Provider::Counts counts = provider_->counts();
  return {counts.fetched, counts.failed, counts.keys};
}

}  // namespace rung::cli
