#include "src/http/api.h"

#include <malloc.h>
#include <strings.h>

#include <algorithm>
#include <charconv>

#include "src/http/server/budget.h"
#include "src/io/log.h"

namespace rung::http {
namespace {

constexpr std::int64_t kMostOfOne = 384 << 20;  // of one request
constexpr Ms kMemoryWithin{1000};
// A row of a list, whose longest text is its last error: as a row, as JSON and as its text.
constexpr std::int64_t kMostOfRow = 4 * kErrorBytes;

// What a list may take; 0 = no `limit`, or a wrong one.
std::int64_t memory_of_page(const Request& request) {
  std::int64_t rows = 0;
  for (const auto& [name, value] : request.query) {
    if (name == "limit") std::from_chars(value.data(), value.data() + value.size(), rows);
  }
  return std::clamp<std::int64_t>(rows, 0, api::kMostOnPage) * kMostOfRow;
}

Response busy(std::string_view detail, const Request& request) {
  return api::problem({503, std::string(detail) + ": try again later"}, request.path);
}

// A change that was made is answered in any case.
bool counts(Response& response, const Request& request, Budget& texts) {
  if (response.body.size() <= kSmallBody) return true;
  const auto bytes = static_cast<std::int64_t>(response.body.size());
  const auto share = std::make_shared<Budget::Share>(texts);
  response.memory = share;
  if (request.method == "GET") return share->grow(bytes, kMemoryWithin);
  return share->add(bytes), true;
}

// A label must have few values.
std::string_view known(std::string_view method) {
  for (const std::string_view one : {"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"}) {
    if (method == one) return one;
  }
  return "other";
}

// So that those who only ask are never without a connection.
std::size_t most_viewers(const ServerOptions& options) {
  return static_cast<std::size_t>(std::max(options.connections / 4, 1));
}

}  // namespace

Result<std::unique_ptr<Api>> Api::start(ApiParts parts, const Clock& clock) {
  ServerOptions options = parts.server;
  options.beyond_this_machine =
      !parts.tokens.full.empty() || !parts.tokens.people.empty() || parts.sign_in != nullptr;
  auto api = std::make_unique<Api>(std::move(parts), clock);
  auto server = Server::start(options, [&of = *api](const Request& request) { return of.admit(request); });
  if (!server) return tl::unexpected(server.error());
  api->server_ = *std::move(server);
  return api;
}

Api::Api(ApiParts parts, const Clock& clock)
    : network_(static_cast<NetworkParts&&>(parts), parts.server.timeout, most_viewers(parts.server), clock),
      router_(network_, all_routes(network_.console.enabled)) {}

Result<void> Api::reload_secrets(const Tokens& tokens) {
  // The socket stays where it is: without a token everybody who reaches it would be an admin.
  if (tokens.empty() && network_.access.needs_token() && !network_.access.signs_in()) {
    log::error("the previous HTTP tokens stay in use", {{"reason", "the config has no token any more"}});
  } else {
    network_.access.replace(tokens);
  }
  return server_->reload_certificate();
}

void Api::drain() {
  network_.live.drain();
  server_->drain();
}

bool Api::stop(Ms most) {
  const BootMs began = network_.clock.boot();
  if (!network_.live.stop(most)) return false;
  return server_->stop(std::max(most - (network_.clock.boot() - began), Ms{1}));
}

// Once for each request, when its head has arrived.
Server::Work Api::admit(const Request& request) {
  const auto match = router_.match(request);
  try {
    Person person = admitted(request, match);
    Call call{request, match.id, who_asks(person, request), std::move(person)};
    return [this, &route = *match.route, call = std::move(call)](Budget& texts) mutable {
      const BootUs began = network_.clock.boot_us();
      Response response = within_memory(route, call, texts);
      const double seconds = static_cast<double>(network_.clock.boot_us().us - began.us) / 1e6;
      network_.metrics.request(route.pattern, route.method, response.status, seconds);
      return response;
    };
  } catch (const Problem& no) {
    network_.metrics.request(match.route != nullptr ? match.route->pattern : "none", known(request.method),
                             no.status, -1);
    throw;
  }
}

// Who asks, if the request has a route and may use it.
Person Api::admitted(const Request& request, const api::Router::Match& match) const {
  // A client without even read access learns nothing about paths.
  if (request.spare && (match.route == nullptr || !match.route->for_probes))
    throw Problem(503, "all connections are in use (http.connections, http.connections_per_address)");
  const Action action = match.route == nullptr ? Action::read : match.route->action;
  Person person = action == Action::probe ? Person{} : network_.access.admit(request, action);
  if (match.route == nullptr) throw api::no_such_route(match);
  if (!request.has_body) return person;
  if (!request.content_encoding.empty() && strcasecmp(request.content_encoding.c_str(), "identity") != 0)
    throw Problem(415, "Content-Encoding is not supported");
  // This also keeps a form in somebody's browser from posting here.
  std::string type = request.content_type.substr(0, request.content_type.find(';'));
  type.resize(type.find_last_not_of(" \t") + 1);
  if (strcasecmp(type.c_str(), "application/json") != 0)
    throw Problem(415, "Content-Type must be application/json");
  return person;
}

// What is parsed, and what an answer is made of, takes many times the memory of its text: the total for all
// requests is bounded, and so are the texts that wait for slow readers.
Response Api::within_memory(const Route& route, Call& call, Budget& texts) {
  bool is_large = call.request.body.size() > kSmallBody;
  const api::JsonMemory needs =
      is_large ? api::memory_of_json(call.request.body) : api::JsonMemory{memory_of_page(call.request), 0};
  if (needs.values > kMostOfOne)
    return api::problem({413, "the body contains too many JSON values: they would take " +
                                  std::to_string(needs.values >> 20) + " MB of memory"},
                        call.request.path);
  Response response;
  {
    Budget::Share share(parsed_);
    call.reserve = [&](std::int64_t bytes) { return bytes == 0 || share.grow(bytes, kMemoryWithin); };
    if (!call.reserve(needs.values + needs.texts))
      return busy("too many large requests are being processed", call.request);
    response = router_.answer(route, call);
    is_large = is_large || response.body.size() > kSmallBody;
    if (!counts(response, call.request, texts))
      response = busy("too many large responses are being sent", call.request);
  }
  // Otherwise memory freed in small pieces stays with this process, once per thread.
  if (is_large) malloc_trim(0);
  return response;
}

}  // namespace rung::http
