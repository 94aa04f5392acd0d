// The API on the network: who may ask, and how much memory an answer takes. The routes that only the network
// asks for: /metrics, /v1/events; /v1/session (a browser signs in with a token, and gets a cookie for it:
// access.h); the console: GET / and all its paths.
#include "src/http/api.h"

#include <malloc.h>
#include <re2/re2.h>

#include "src/api/api.h"
#include "src/api/queues/queues.h"
#include "src/api/stats/stats.h"
#include "src/io/log.h"

namespace rung::http {

namespace {

using api::answer;
using api::FieldErrors;
using api::Json;
using api::Param;
using api::Scope;
using api::Takes;

Network& network_of(Context& context) { return static_cast<Network&>(context); }

constexpr Ms kCountWithin{1000};  // how long a scrape waits for its figures
constexpr int kFailingCauses = 100;
constexpr Ms kScrapeCounts{250};  // ended tasks, of a scrape's 15 seconds

// In few queries; only the counts by queue read the tasks' index.
Metrics::Totals read_totals(MysqlStore& store, api::TaskCounter& counter) {
  Metrics::Totals totals;
  totals.now = store.now();
  totals.by_queue = counter.count(store, totals.now, kScrapeCounts).queues;
  totals.silences_held = store.held_silences();
  totals.unread = api::unread_queues(store);
  totals.causes = store.cause_totals();
  totals.failing = store.causes({.states = {CauseState::fresh, CauseState::regressed},
                                 .since = totals.now - std::chrono::hours{1},
                                 .limit = kFailingCauses});
  for (const QueueGate& gate : api::gates_in_force(store)) totals.held_back.push_back(gate.queue);
  totals.nodes = store.live_nodes().size();
  const auto shards = store.shards();
  totals.unowned = static_cast<std::size_t>(kShards - std::ranges::count_if(shards, [&](const ShardRow& one) {
                                              return api::is_owned(one, totals.now);
                                            }));
  return totals;
}

// The queues with a label of their own. What matches a pattern beyond kMostMatched is counted by pattern.
std::vector<std::string> label_queues(const RuleBook& rules, Metrics::Totals& totals) {
  std::set<std::string> labels, matched;
  for (const auto& [name, queue] : rules.queues()) labels.insert(name);
  for (const QueueStat& stat : totals.by_queue) {
    if (rules.pattern_of(stat.queue) == nullptr) continue;
    const bool room = matched.contains(stat.queue) || matched.size() < bridge::FlowCounts::kMostMatched;
    std::string label = bridge::matched_label(rules, stat.queue, room);
    if (label == stat.queue) matched.insert(label);
    if (label != stat.queue) totals.labels[stat.queue] = label;
    labels.insert(std::move(label));
  }
  return {labels.begin(), labels.end()};
}

Response show_metrics(Context& context, const Call& call) {
  Network& network = network_of(context);
  // If the database doesn't answer in time, the older figures stay, and rung_up says so. A count that is
  // merely slow is ready for the next caller.
  const auto count = [&network]() -> Result<std::string> {
    auto totals =
        network.reads.result_of([&](MysqlStore& store) { return read_totals(store, network.counter); });
    if (!totals) return tl::unexpected(totals.error());
    const std::vector<std::string> queues = label_queues(*network.rules(), *totals);
    network.metrics.totals(*totals, queues, network.cause_rules.get());
    return "";
  };
  const auto counted = network.figures.get(count, kCountWithin);
  auto vitals = context.vitals();
  if (vitals && counted && !*counted) vitals->database = false;
  Response response;
  response.type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = network.metrics.text(std::move(vitals), call.request.connections, context.counts());
  return response;
}

// `watch=4711,4712`: tasks whose changes are told.
Response show_events(Context& context, const Call& call) {
  std::vector<TaskId> watched;
  for (const std::string& word : call.query.words("watch")) {
    const auto id = TaskId::parse(word);
    if (!id || watched.size() == LiveFeed::kMostOfOneViewer)
      throw Problem(FieldErrors{{"watch", "must be at most " + std::to_string(LiveFeed::kMostOfOneViewer) +
                                              " ids of tasks, with commas between them"}});
    watched.push_back(*id);
  }
  Response response;
  response.stream =
      network_of(context).live.open(call.who, std::move(watched), !call.request.last_event_id.empty());
  if (response.stream == nullptr)
    throw Problem(503,
                  "too many streams of events: a quarter of http.connections, of which one token may have "
                  "three quarters from one address",
                  {}, {{"Retry-After", "10"}});
  response.type = "text/event-stream";
  response.headers.emplace_back("X-Accel-Buffering", "no");  // of a proxy
  return response;
}

Response show_openapi(Context&, const Call&) {
  Response response;
  response.body = openapi_document();
  return response;
}

constexpr std::size_t kLongestToken = 16 * 1024;

struct SignedIn {
  Person person;
  std::string csrf;  // "" = without a cookie
};

// The person who sends the request; none: not signed in, or the token is no longer valid.
std::optional<SignedIn> signed_in(Network& network, const Request& request) {
  if (!network.access.needs_token()) return SignedIn{network.access.open_person(), ""};
  try {
    SignedIn who{network.access.identify(request), ""};
    const std::string cookie = network.sign_ins.cookies.get(Cookies::kSession, request);
    const auto sign_in = request.authorization.empty() ? network.sign_ins.find(cookie) : std::nullopt;
    if (sign_in) who.csrf = sign_in->csrf;
    return who;
  } catch (const Problem&) {
    return std::nullopt;
  }
}

Json session_json(const Network& network, const std::optional<SignedIn>& who) {
  Json json = {{"signed_in", who.has_value()},
               {"sign_in", {{"token", network.access.has_tokens()}, {"oidc", network.login != nullptr}}}};
  Json peers = Json::array();
  if (who) {
    for (const auto& [name, url] : network.console.peers) peers.push_back({{"name", name}, {"url", url}});
  }
  json["peers"] = std::move(peers);
  if (!who) return json;
  json.update(api::person_json(who->person));
  json["way"] = !network.access.needs_token() ? "open" : who->person.signed_in ? "oidc" : "token";
  json["csrf"] = api::text_or_null(who->csrf);
  return json;
}

// `value`: "" = deletes the cookie.
Response with_cookie(Response response, const Call& call, const Network& network, std::string_view cookie,
                     std::string_view value) {
  response.headers.emplace_back("Set-Cookie", network.sign_ins.cookies.set(cookie, value, call.request));
  return response;
}

Response show_session(Context& context, const Call& call) {
  Network& network = network_of(context);
  if (!network.access.needs_token()) refuse_foreign_page(call.request);
  return answer(200, session_json(network, signed_in(network, call.request)));
}

Response sign_in(Context& context, const Call& call) {
  Network& network = network_of(context);
  network.sign_ins.refuse_other_site(call.request);
  api::Fields fields(*call.json);
  const auto token = fields.text("token", kLongestToken);
  if (!token && fields.errors().empty())
    fields.wrong("token", "is missing: a token of http.tokens_file, or of the identity provider");
  fields.check();
  if (!network.access.needs_token())
    throw Problem(409, "this API needs no token: there is no need to sign in");
  SignedIn who{network.access.bearer(*token), ""};
  network.sign_ins.close(network.sign_ins.cookies.get(Cookies::kSession, call.request));
  const std::string cookie = network.sign_ins.open(*token);
  if (const auto opened = network.sign_ins.find(cookie)) who.csrf = opened->csrf;
  return with_cookie(answer(200, session_json(network, who)), call, network, Cookies::kSession, cookie);
}

// Also without a sign-in: what is to be is.
Response sign_out(Context& context, const Call& call) {
  Network& network = network_of(context);
  const std::string cookie = network.sign_ins.cookies.get(Cookies::kSession, call.request);
  if (const auto sign_in = network.sign_ins.find(cookie)) {
    network.sign_ins.refuse_other_site(call.request, *sign_in);
    network.sign_ins.close(cookie);
  }
  return with_cookie(answer(200, session_json(network, std::nullopt)), call, network, Cookies::kSession, "");
}

Response redirect(const std::string& to) {
  Response response;
  response.status = 302;
  response.type = "text/plain";
  response.headers.emplace_back("Location", to);
  return response;
}

// A path of ours, and no URL that a link could smuggle in.
bool is_own_path(std::string_view to) {
  return to.starts_with('/') && !to.starts_with("//") && to.size() < 1000 &&
         to.find_first_of("\\\r\n\t") == std::string_view::npos;
}

std::string base_url(const Network& network, const Request& request) {
  if (!network.console.url.empty()) return network.console.url;
  return (network.console.tls ? "https://" : "http://") + request.host;
}

// The page of the console that says why nobody was signed in: by a code, for anybody can make a link with a
// text. The log has the text.
Response not_signed_in(const Network& network, const Call& call, std::string_view code,
                       std::string_view why) {
  log::warn("a browser was not signed in", {{"peer", call.request.peer}, {"reason", why}});
  const std::string page = network.sign_ins.cookies.path() + "/console/sign-in?error=";
  return with_cookie(redirect(page + std::string(code)), call, network, Cookies::kLogin, "");
}

[[noreturn]] void no_provider() {
  throw Problem(404, "there is no identity provider: http.oidc of the config");
}

Response begin_login(Context& context, const Call& call) {
  Network& network = network_of(context);
  const std::string to = call.query.has("to") ? call.query.text("to") : network.sign_ins.cookies.path() + "/";
  if (!is_own_path(to)) throw Problem(FieldErrors{{"to", "must be a path of this API: /console/causes"}});
  if (network.login == nullptr) no_provider();
  const auto begun = network.login->begin_login(base_url(network, call.request) + "/v1/session/callback", to);
  if (!begun) throw Problem(503, begun.error().message);
  return with_cookie(redirect(begun->url), call, network, Cookies::kLogin, begun->state);
}

Response end_login(Context& context, const Call& call) {
  Network& network = network_of(context);
  const auto given = [&](std::string_view name) { return call.query.text(name); };
  if (network.login == nullptr) no_provider();
  const std::string state = given("state");
  if (state.empty() || !same_secret(state, network.sign_ins.cookies.get(Cookies::kLogin, call.request)))
    return not_signed_in(network, call, "login_ended",
                         "the login was begun in another browser, or has ended");
  if (!given("error").empty())
    return not_signed_in(
        network, call, "provider",
        "the identity provider says: " + (given("error") + " " + given("error_description")).substr(0, 500));
  const auto ended = network.login->end_login(state, given("code"));
  if (!ended)
    return not_signed_in(network, call,
                         ended.error().kind == Error::Kind::not_found ? "login_ended" : "provider",
                         ended.error().message);
  try {
    (void)network.access.bearer(ended->token);
  } catch (const Problem& e) {
    return not_signed_in(network, call, api::code_of(e.status), e.detail);
  }
  return with_cookie(redirect(ended->to), call, network, Cookies::kSession,
                     network.sign_ins.open(ended->token));
}

// Only our own files, no inline script, no frame around it, nothing from another host.
constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

// The page names its files from where it is: only the browser knows the path below which a proxy has them.
void lead_up(std::string& page, std::string_view path) {
  for (auto depth = std::ranges::count(path, '/'); depth > 1; --depth)
    for (std::size_t at = 0; (at = page.find("\"./", at)) != std::string::npos; at += 6)
      page.insert(at + 3, "../");
}

// A path that no file has is a page of the console.
Response show_file(Context&, const Call& call) {
  const auto& all = console_files();
  auto file = std::ranges::find(all, call.request.path, &ConsoleFile::path);
  if (file == all.end()) file = std::ranges::find(all, "/", &ConsoleFile::path);
  Response response;
  response.type = file->type;
  response.headers = {{"Content-Security-Policy", std::string(kPolicy)},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Referrer-Policy", "same-origin"},
                      {"Cross-Origin-Opener-Policy", "same-origin"},
                      {"Cache-Control", "no-cache"},
                      {"ETag", file->etag}};
  if (call.request.if_none_match == file->etag) {
    response.status = 304;
  } else {
    response.body = file->text;
    if (file->path == "/") lead_up(response.body, call.request.path);
  }
  return response;
}

Response say_why_there_is_none(Context&, const Call&) {
  throw Problem(
      404,
      "this program was built without the console: npm was missing. The API is described in /openapi.json");
}

constexpr std::array kEvents{
    Param{"watch", Param::Is::list,
          "At most 20 ids of tasks, with commas between them: `changes` names them when they change by "
          "themselves, too."},
    Param{"Last-Event-ID", Param::Is::header,
          "The `id` of the last event that was received: the first event says that something may have been "
          "missed."}};

constexpr std::array kRoutes = std::to_array<Route>({
    {"GET", "/v1/events", "watch", Action::read, Scope::none, show_events, kEvents},
    {"GET", "/metrics", "getMetrics", Action::read, Scope::none, show_metrics, {}, Takes::nothing, true},
    {"GET", "/v1/session", "getSession", Action::probe, Scope::none, show_session},
    {"POST", "/v1/session", "signIn", Action::probe, Scope::none, sign_in, {}, Takes::object},
    {"DELETE", "/v1/session", "signOut", Action::probe, Scope::none, sign_out},
    {"GET", "/openapi.json", "getOpenapi", Action::probe, Scope::none, show_openapi},
});
static_assert(api::name_their_queues(kRoutes));

constexpr std::int64_t kMostOfOne = 384 << 20;  // of one request
constexpr Ms kMemoryWithin{1000};
// A row of a list, whose longest text is its last error: as a row, as JSON and as its text.
constexpr std::int64_t kMostOfRow = 4 * kErrorBytes;

// What a list may take; 0 = no `limit`, or a wrong one.
std::int64_t memory_of_page(const Request& request) {
  const auto rows = number_from<std::int64_t>(api::Query(request.query).text("limit"));
  return std::clamp<std::int64_t>(rows.value_or(0), 0, api::kMostOnPage) * kMostOfRow;
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
std::string_view known(const std::string& method) {
  static const RE2 usual("GET|POST|PUT|DELETE|PATCH|OPTIONS");
  return RE2::FullMatch(method, usual) ? std::string_view(method) : "other";
}

}  // namespace

std::vector<Route> all_routes(bool with_console) {
  const auto shared = api::api_routes();
  std::vector<Route> all(shared.begin(), shared.end());
  all.insert(all.end(), kRoutes.begin(), kRoutes.end());
  if (!with_console) return all;
  const auto page = [&all](std::string_view path, auto* handle) {
    all.push_back({"GET", path, "", Action::probe, Scope::none, handle});
  };
  page("/v1/session/oidc", begin_login);
  page("/v1/session/callback", end_login);
  if (console_files().empty()) {
    page("/", say_why_there_is_none);
  } else {
    page("/console/*", show_file);
  }
  for (const ConsoleFile& file : console_files()) page(file.path, show_file);
  return all;
}

const std::string& openapi_document() {
  static const std::string text = api::openapi_document(all_routes());
  return text;
}

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
    : network_(std::move(parts), clock), router_(network_, all_routes(network_.console.enabled)) {}

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
  static const RE2 plain("(?i)(identity)?"), json(R"((?is)application/json[ \t]*(;.*)?)", RE2::Latin1);
  if (!RE2::FullMatch(request.content_encoding, plain))
    throw Problem(415, "Content-Encoding is not supported");
  // This also keeps a form in somebody's browser from posting here.
  if (!RE2::FullMatch(request.content_type, json))
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
