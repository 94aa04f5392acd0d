// The HTTP API of one instance, described in docs/http.md. Any instance answers for any task. What its
// handlers share beyond src/api: what only requests of the network ask for. Thread: start(), reload(),
// drain() and stop() the loop's (or main's); the rest runs on its own threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/api/base/context.h"
#include "src/http/access/access.h"
#include "src/http/handlers/live.h"
#include "src/http/metrics/metrics.h"
#include "src/http/server/server.h"
#include "src/oidc/provider.h"

namespace rung::http {

using api::Call;
using api::Context;
using api::Response;
using api::Route;

struct ConsoleOptions {
  bool enabled = false;   // GET / has the console
  bool tls = false;       // the cookie is for HTTPS alone
  api::Pairs peers = {};  // name and URL of the APIs of other groups
  std::string url = {};   // where browsers reach this API; "" = by the Host of their request
};

struct ApiParts : api::ContextParts {
  Tokens tokens;
  SignIn sign_in = {};  // empty: without http.oidc
  ConsoleOptions console;
  oidc::Provider* login = nullptr;  // of http.oidc; outlives the API
  ServerOptions server;
};

// What the handlers of an API on the network share.
struct Network : Context {
  // REQUIRES: `here` outlives it.
  Network(ApiParts parts, const Clock& here)
      : Context(static_cast<api::ContextParts&&>(parts), parts.server.timeout, here),
        console(std::move(parts.console)),
        login(parts.login),
        sign_ins(here, Cookies(console.url, console.tls)),
        access(parts.tokens, std::move(parts.sign_in), &sign_ins),
        // A quarter, so that those who only ask are never without a connection.
        live(reads, here, static_cast<std::size_t>(std::max(parts.server.connections / 4, 1))),
        metrics(version, rules()->targets().groups.own, here) {}

  const ConsoleOptions console;
  oidc::Provider* const login;  // at the identity provider; nullptr = none
  SignIns sign_ins;
  Access access;
  LiveFeed live;
  Metrics metrics;
  // What /metrics has of the database; last: it uses the other members.
  api::BriefCache figures{clock, std::chrono::seconds{15}, 20};
};

// api::api_routes(), and those of the network: the routes of the OpenAPI document. `with_console`: and pages
// for browsers alone, to the identity provider and back, GET / and all paths of the console: static files
// that the browser loads, and that talk to the same API as everybody. Without secrets: nobody has to sign in
// for them. Without the files they say why there is none. REQUIRES: their context is a Network.
std::vector<Route> all_routes(bool with_console = false);
const std::string& openapi_document();

struct ConsoleFile {
  std::string path;  // "/app.js"
  std::string type, etag, text;
};
// Made by the build from src/console (cmake/console.cmake); empty if it could not be built.
const std::vector<ConsoleFile>& console_files();

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
