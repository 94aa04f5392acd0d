// The HTTP API of one instance, described in docs/http.md. Any instance answers for any task.
// Thread: start(), reload(), drain() and stop() the loop's (or main's); the rest runs on its own threads.
#pragma once

#include <memory>

#include "src/api/base/context.h"
#include "src/http/access/access.h"
#include "src/http/handlers/network.h"
#include "src/http/server/server.h"

namespace rung::http {

struct ApiParts : api::ContextParts {
  Tokens tokens;
  SignIn sign_in = {};  // empty: without http.oidc
  ServerOptions server;
  ConsoleOptions console;
  oidc::CodeFlow* login = nullptr;  // of http.oidc; outlives the API
};

class Api {
 public:
  // Already listens when it returns. Error: the address, the certificate. REQUIRES: `clock` outlives it.
  static Result<std::unique_ptr<Api>> start(ApiParts parts, const Clock& clock);
  virtual ~Api() = default;  // REQUIRES: stop() has returned true
  virtual void reload(RuleBookPtr rules) = 0;
  // From now on these tokens are valid, and new connections get what the files of certificate and key hold
  // now. Error: the files; the certificate stays as it was, the tokens are replaced all the same.
  virtual Result<void> reload_secrets(const Tokens& tokens) = 0;
  virtual int port() const = 0;
  virtual void drain() = 0;
  virtual int connections() const = 0;  // number of open connections
  // Waits for pending responses; false if one was not completed after `most`.
  virtual bool stop(Ms most) = 0;
};

}  // namespace rung::http
