// What only requests of the network ask for: /metrics, events, sign-ins, the console's files. Thread: any.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/api/base/context.h"
#include "src/http/access/access.h"
#include "src/http/handlers/live.h"
#include "src/http/metrics/metrics.h"
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

struct NetworkParts : api::ContextParts {
  Tokens tokens;
  SignIn sign_in = {};  // empty: without http.oidc
  ConsoleOptions console;
  oidc::Provider* login = nullptr;  // of http.oidc; outlives the API
};

// What the handlers of an API on the network share.
struct Network : Context {
  // `viewers`: how many may have a stream of events. REQUIRES: `here` outlives it.
  Network(NetworkParts parts, Ms call_timeout, std::size_t viewers, const Clock& here)
      : Context(static_cast<api::ContextParts&&>(parts), call_timeout, here),
        console(std::move(parts.console)),
        login(parts.login),
        sign_ins(here, Cookies(console.url, console.tls)),
        access(parts.tokens, std::move(parts.sign_in), &sign_ins),
        live(reads, here, viewers),
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
  std::string_view path;  // "/app.js"
  std::string_view type;
  std::string text;
};
// Made by the build from src/console (cmake/console.cmake); empty if it could not be built.
const std::vector<ConsoleFile>& console_files();

}  // namespace rung::http
