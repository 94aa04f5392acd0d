// The HTTP API of one instance, described in docs/http.md. Any instance answers for any task.
// Thread: start(), reload(), drain() and stop() the loop's (or main's); the rest runs on its own threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "src/api/base/context.h"
#include "src/http/access/access.h"
#include "src/http/handlers/network.h"
#include "src/http/server/budget.h"
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
  // Already listens when it returns. Error: the address, the certificate. REQUIRES: `clock` outlives it, and
  // stop() has returned true when it is destroyed.
  static Result<std::unique_ptr<Api>> start(ApiParts parts, const Clock& clock);
  Api(ApiParts parts, const Clock& clock);  // start() makes it
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;

  void reload(RuleBookPtr rules) { context_.reload(std::move(rules)); }
  // From now on these tokens are valid, and new connections get what the files of certificate and key hold
  // now. Error: the files; the certificate stays as it was, the tokens are replaced all the same.
  Result<void> reload_secrets(const Tokens& tokens);
  int port() const { return server_->port(); }
  void drain();
  // The number of open connections.
  int connections() const {
    const Server* server = listening_;
    return server != nullptr ? server->connections() : 0;
  }
  // Waits for pending responses; false if one was not completed after `most`.
  bool stop(Ms most);

 private:
  static constexpr std::int64_t kMostParsed = 160 << 20;  // bytes of JSON values, all requests together

  tl::expected<Server::Work, Response> admit(const Request& request);
  tl::expected<Person, Response> admitted(const Request& request, const api::Router::Match& match) const;
  Response within_memory(const Route& route, Call& call, Budget& texts);

  const ConsoleOptions console_;
  SignIns sign_ins_;
  Access access_;
  Context context_;
  Network network_;
  const api::Router router_;
  Budget parsed_{kMostParsed};
  std::unique_ptr<Server> server_;
  std::atomic<Server*> listening_{nullptr};  // server_, for its own threads
};

}  // namespace rung::http
