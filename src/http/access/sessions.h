// /v1/session: a browser signs in with a token, and gets a cookie for it (sign_ins.h).
// Thread: any; the handlers run on workers.
#pragma once

#include <vector>

#include "src/http/access/access.h"
#include "src/http/access/sign_ins.h"
#include "src/http/request/router.h"
#include "src/oidc/code_flow.h"

namespace rung::http {

struct ConsoleOptions {
  bool enabled = false;  // GET / has the console
  bool tls = false;      // the cookie is for HTTPS alone
  Pairs peers = {};      // name and URL of the APIs of other groups
  std::string url = {};  // where browsers reach this API; "" = by the Host of their request
};

// REQUIRES: all of them outlive the routes.
struct SessionParts {
  Access& access;
  SignIns& sign_ins;
  const ConsoleOptions& console;
  oidc::CodeFlow* login = nullptr;  // at the identity provider; nullptr = none
};
std::vector<Route> session_routes(const SessionParts& parts);
// Pages for browsers alone, which the API's document does not have: to the identity provider, and back.
std::vector<Route> login_routes(const SessionParts& parts);

}  // namespace rung::http
