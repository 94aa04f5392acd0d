// Signing in by OpenID Connect, of `rung run`: nobody does without http.oidc.
// Thread: main's; what sign_in() returns any.
#pragma once

#include <memory>
#include <string>

#include "src/bridge/vitals.h"
#include "src/config/config.h"
#include "src/http/api.h"
#include "src/oidc/code_flow.h"
#include "src/oidc/verifier.h"

namespace rung::cli {

class RunSignIn {
 public:
  // `on_problem`: called by another thread; "" = it is over. REQUIRES: `clock` outlives it.
  RunSignIn(const Config& config, const Clock& clock, oidc::Provider::OnProblem on_problem);

  // Empty without http.oidc. REQUIRES: not called after the destructor.
  http::SignIn sign_in() const;
  oidc::CodeFlow* login() const { return login_.get(); }  // nullptr without http.oidc
  // What a reload changes: http.oidc.map and clients; without http.oidc nobody signs in any more. False:
  // these need a restart, as they are for tokens of another issuer, client_id or roles_claim.
  bool reload(const OidcOptions& loaded);
  bridge::KeyCounts counts() const;

 private:
  std::unique_ptr<oidc::Provider> provider_;
  std::unique_ptr<oidc::Verifier> verifier_;
  std::unique_ptr<oidc::CodeFlow> login_;
};

}  // namespace rung::cli
