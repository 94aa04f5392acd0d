// The HTTP API of one instance, described in docs/http.md. Any instance answers for any task.
// Thread: start(), reload(), drain() and stop() the loop's (or main's); the rest runs on its own threads.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "src/api/base/context.h"
#include "src/http/handlers/network.h"
#include "src/http/server/budget.h"
#include "src/http/server/server.h"

namespace rung::http {

struct ApiParts : NetworkParts {
  ServerOptions server;
};

class Api {
 public:
  // Already listens when it returns. Error: the address, the certificate. REQUIRES: `clock` outlives it, and
  // stop() has returned true when it is destroyed.
  static Result<std::unique_ptr<Api>> start(ApiParts parts, const Clock& clock);
  Api(ApiParts parts, const Clock& clock);  // start() makes it
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;

  void reload(RuleBookPtr rules) { network_.reload(std::move(rules)); }
  // From now on these tokens are valid, and new connections get what the files of certificate and key hold
  // now. Error: the files; the certificate stays as it was, the tokens are replaced all the same.
  Result<void> reload_secrets(const Tokens& tokens);
  int port() const { return server_->port(); }
  void drain();
  // The number of open connections.
  int connections() const { return server_->connections(); }
  // Waits for pending responses; false if one was not completed after `most`.
  bool stop(Ms most);

 private:
  static constexpr std::int64_t kMostParsed = 160 << 20;  // bytes of JSON values, all requests together

  Server::Work admit(const Request& request);
  Person admitted(const Request& request, const api::Router::Match& match) const;
  Response within_memory(const Route& route, Call& call, Budget& texts);

  Network network_;
  const api::Router router_;
  Budget parsed_{kMostParsed};
  std::unique_ptr<Server> server_;
};

}  // namespace rung::http
