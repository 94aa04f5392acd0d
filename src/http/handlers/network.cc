// The routes that only the network asks for: /metrics, /v1/events; /v1/session (a browser signs in with a
// token, and gets a cookie for it: access.h); the console: GET / and all its paths.
#include "src/http/handlers/network.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>

#include "src/api/api.h"
#include "src/api/queues/gates.h"
#include "src/api/stats/stats.h"
#include "src/core/message/identity.h"
#include "src/io/log.h"

namespace rung::http {

BackgroundTask::~BackgroundTask() {
  if (thread_.joinable()) thread_.join();
}

bool BackgroundTask::run(std::function<void()> work, Ms most) {
  std::unique_lock lock(mutex_);
  if (!runs_) {
    if (thread_.joinable()) thread_.join();  // it has reported its end
    runs_ = true;
    thread_ = std::thread([this, work = std::move(work)] {
      work();
      const std::lock_guard done(mutex_);
      runs_ = false;
      ended_.notify_all();
    });
  }
  return ended_.wait_for(lock, most, [this] { return !runs_; });
}

namespace {

using api::Action;
using api::need;
using api::Param;
using api::Scope;
using api::Takes;
using Is = Param::Is;

constexpr std::array kEvents{
    Param{"watch", Is::list,
          "At most 20 ids of tasks, with commas between them: `changes` names them when they change by "
          "themselves, too."},
    Param{"Last-Event-ID", Is::header,
          "The `id` of the last event that was received: the first event says that something may have been "
          "missed."}};

Response show_openapi(Context&, const Call&) {
  Response response;
  response.body = openapi_document();
  return response;
}

constexpr std::array kRoutes = std::to_array<Route>({
    {"GET", "/v1/events", "watch", Action::read, Scope::none, show_events, kEvents},
    {"GET", "/metrics", "getMetrics", Action::read, Scope::none, show_metrics, {}, Takes::nothing, true},
    {"GET", "/v1/session", "getSession", Action::probe, Scope::none, show_session},
    {"POST", "/v1/session", "signIn", Action::probe, Scope::none, sign_in, {}, Takes::object},
    {"DELETE", "/v1/session", "signOut", Action::probe, Scope::none, sign_out},
    {"GET", "/openapi.json", "getOpenapi", Action::probe, Scope::none, show_openapi},
});
static_assert(api::name_their_queues(kRoutes));

constexpr Ms kCountWithin{1000};  // how long a scrape waits for its figures
constexpr int kFailingCauses = 100;
constexpr Ms kScrapeCounts{250};  // ended tasks, of a scrape's 15 seconds

// In few queries; only the counts by queue read the tasks' index.
Metrics::Totals read_totals(MysqlStore& store, api::TaskCounter& counter) {
  Metrics::Totals totals;
  totals.now = need(store.now());
  totals.by_queue = need(counter.count(store, totals.now, kScrapeCounts)).queues;
  totals.silences_held = need(store.held_silences());
  totals.unread = api::unread_queues(store);
  totals.causes = need(store.cause_totals());
  totals.failing = need(store.causes({.states = {CauseState::fresh, CauseState::regressed},
                                      .since = totals.now - std::chrono::hours{1},
                                      .limit = kFailingCauses}));
  for (const QueueGate& gate : api::gates_in_force(store)) totals.held_back.push_back(gate.queue);
  const auto nodes = need(store.live_nodes());
  totals.nodes = nodes.size();
  totals.unowned = api::unowned_shards(need(store.shards()), nodes, totals.now);
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

}  // namespace

std::vector<Route> all_routes() {
  const auto shared = api::api_routes();
  std::vector<Route> all(shared.begin(), shared.end());
  all.insert(all.end(), kRoutes.begin(), kRoutes.end());
  return all;
}

Response show_metrics(Context& context, const Call&) {
  Network& network = *context.network;
  // If the database doesn't answer in time, the older figures stay, and rung_up says so. A count that is
  // merely slow is ready for the next caller.
  const auto count = [&context, &network] {
    const BootMs began = context.clock.boot();
    auto totals =
        context.reads.result_of([&](MysqlStore& store) { return read_totals(store, context.counter); });
    network.counts_failed = !totals;
    if (!totals) return network.metrics.tasks_failed();
    const std::vector<std::string> queues = label_queues(*context.rules(), *totals);
    network.metrics.totals(*totals, queues, context.cause_rules.get());
    network.metrics.tasks_took(context.clock.boot() - began);
  };
  if (network.metrics.wants_tasks()) network.counting.run(count, kCountWithin);
  auto vitals = context.vitals();
  if (vitals) vitals->database = vitals->database && !network.counts_failed;
  Response response;
  response.type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = network.metrics.text(std::move(vitals), network.connections(), context.counts());
  return response;
}

// `watch=4711,4712`: tasks whose changes are told.
Response show_events(Context& context, const Call& call) {
  std::vector<TaskId> watched;
  for (const std::string& word : call.query.words("watch")) {
    const auto id = TaskId::parse(word);
    if (!id || watched.size() == LiveFeed::kMostOfOneViewer)
      return call.problem(
          api::FieldErrors{{"watch", "must be at most " + std::to_string(LiveFeed::kMostOfOneViewer) +
                                         " ids of tasks, with commas between them"}});
    watched.push_back(*id);
  }
  Response response;
  response.stream = context.network->live.open(call.who, std::move(watched), call.request.last_event_id);
  if (response.stream == nullptr) {
    response =
        call.problem(503,
                     "too many streams of events: a quarter of http.connections, of which one token may "
                     "have three quarters from one address");
    response.headers.emplace_back("Retry-After", "10");
    return response;
  }
  response.type = "text/event-stream";
  response.headers.emplace_back("X-Accel-Buffering", "no");  // of a proxy
  return response;
}

const std::string& openapi_document() {
  static const std::string text = api::openapi_document(all_routes());
  return text;
}

namespace {

using api::answer;
using api::FieldErrors;
using api::Json;
using api::person_json;

constexpr std::size_t kLongestToken = 16 * 1024;

// The detail of a problem.
std::string detail_of(const Response& response) {
  const Json json = Json::parse(response.body, nullptr, false);
  return json.is_object() ? json.value("detail", "") : "";
}

struct SignedIn {
  Person person;
  std::string csrf;  // "" = without a cookie
};

// Who the request comes from; none: nobody has signed in, or the token is not valid any more.
std::optional<SignedIn> signed_in(const Network& network, const Request& request) {
  if (!network.access.needs_token()) return SignedIn{network.access.open_person(), ""};
  auto person = network.access.identify(request);
  if (!person) return std::nullopt;
  const bool by_cookie = request.authorization.empty();
  const auto sign_in = by_cookie
                           ? network.sign_ins.find(network.sign_ins.cookies.get(Cookies::kSession, request))
                           : std::nullopt;
  return SignedIn{*std::move(person), sign_in ? sign_in->csrf : ""};
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
  json.update(person_json(who->person));
  json["way"] = !network.access.needs_token() ? "open" : who->person.signed_in ? "oidc" : "token";
  json["csrf"] = api::text_or_null(who->csrf);
  return json;
}

}  // namespace

Response show_session(Context& context, const Call& call) {
  const Network& network = *context.network;
  if (!network.access.needs_token()) {
    if (auto no = refuse_foreign_page(call.request)) return *std::move(no);
  }
  return answer(200, session_json(network, signed_in(network, call.request)));
}

Response sign_in(Context& context, const Call& call) {
  const Network& network = *context.network;
  if (auto no = network.sign_ins.refuse_other_site(call.request)) return *std::move(no);
  FieldErrors errors;
  api::Fields fields(*call.json, "", errors);
  const auto token = fields.text("token", kLongestToken);
  if (!token && errors.empty())
    fields.wrong("token", "is missing: a token of http.tokens_file, or of the identity provider");
  fields.finish();
  if (!errors.empty()) return call.problem(errors);
  if (!network.access.needs_token())
    return call.problem(409, "this API needs no token: nobody has to sign in");
  Request as_bearer;
  as_bearer.authorization = "Bearer " + *token;
  as_bearer.path = call.request.path;
  auto person = network.access.identify(as_bearer);
  if (!person) return std::move(person).error();
  network.sign_ins.close(network.sign_ins.cookies.get(Cookies::kSession, call.request));
  const std::string cookie = network.sign_ins.open(*token);
  const auto opened = network.sign_ins.find(cookie);
  Response response =
      answer(200, session_json(network, SignedIn{*std::move(person), opened ? opened->csrf : std::string()}));
  response.headers.emplace_back("Set-Cookie",
                                network.sign_ins.cookies.set(Cookies::kSession, cookie, call.request));
  return response;
}

// Also without a sign-in: what is to be is.
Response sign_out(Context& context, const Call& call) {
  const Network& network = *context.network;
  const std::string cookie = network.sign_ins.cookies.get(Cookies::kSession, call.request);
  if (const auto sign_in = network.sign_ins.find(cookie)) {
    if (auto no = network.sign_ins.refuse_other_site(call.request, *sign_in)) return *std::move(no);
    network.sign_ins.close(cookie);
  }
  Response response = answer(200, session_json(network, std::nullopt));
  response.headers.emplace_back("Set-Cookie",
                                network.sign_ins.cookies.set(Cookies::kSession, "", call.request));
  return response;
}

namespace {

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
  const Cookies& cookies = network.sign_ins.cookies;
  Response response = redirect(cookies.path() + "/console/sign-in?error=" + std::string(code));
  response.headers.emplace_back("Set-Cookie", cookies.set(Cookies::kLogin, "", call.request));
  return response;
}

Response begin_login(Context& context, const Call& call) {
  const Network& network = *context.network;
  const Cookies& cookies = network.sign_ins.cookies;
  const std::string to = call.query.has("to") ? call.query.text("to") : cookies.path() + "/";
  if (!is_own_path(to))
    return call.problem(FieldErrors{{"to", "must be a path of this API: /console/causes"}});
  if (network.login == nullptr)
    return call.problem(404, "there is no identity provider: http.oidc of the config");
  const auto begun = network.login->begin(base_url(network, call.request) + "/v1/session/callback", to);
  if (!begun) return call.problem(Error{Error::Kind::transient, begun.error().message});
  Response response = redirect(begun->url);
  response.headers.emplace_back("Set-Cookie", cookies.set(Cookies::kLogin, begun->state, call.request));
  return response;
}

Response end_login(Context& context, const Call& call) {
  const Network& network = *context.network;
  const auto given = [&](std::string_view name) { return call.query.text(name); };
  if (network.login == nullptr)
    return call.problem(404, "there is no identity provider: http.oidc of the config");
  const std::string state = given("state");
  const Cookies& cookies = network.sign_ins.cookies;
  if (state.empty() || !same_secret(state, cookies.get(Cookies::kLogin, call.request)))
    return not_signed_in(network, call, "login_ended",
                         "the login was begun in another browser, or has ended");
  if (!given("error").empty())
    return not_signed_in(
        network, call, "provider",
        "the identity provider says: " + (given("error") + " " + given("error_description")).substr(0, 500));
  const auto ended = network.login->end(state, given("code"));
  if (!ended)
    return not_signed_in(network, call,
                         ended.error().kind == Error::Kind::not_found ? "login_ended" : "provider",
                         ended.error().message);
  Request as_bearer;
  as_bearer.authorization = "Bearer " + ended->token;
  const auto person = network.access.identify(as_bearer);
  if (!person)
    return not_signed_in(network, call, api::code_of(person.error().status), detail_of(person.error()));
  Response response = redirect(ended->to);
  response.headers.emplace_back(
      "Set-Cookie", cookies.set(Cookies::kSession, network.sign_ins.open(ended->token), call.request));
  return response;
}

}  // namespace

std::vector<Route> login_routes() {
  return {{"GET", "/v1/session/oidc", "", api::Action::probe, api::Scope::none, begin_login},
          {"GET", "/v1/session/callback", "", api::Action::probe, api::Scope::none, end_login}};
}

namespace {

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

struct Served {
  const ConsoleFile* file;
  std::string etag;
};

// By the path of the request: what no file has is a page of the console.
const Served& served(std::string_view path) {
  static const std::map<std::string_view, Served> all = [] {
    std::map<std::string_view, Served> out;
    for (const ConsoleFile& file : console_files())
      out[file.path] = {&file, "\"" + to_hex(sha256(file.text), 8) + "\""};
    return out;
  }();
  const auto found = all.find(path);
  return found != all.end() ? found->second : all.at("/");
}

Response show_file(Context&, const Call& call) {
  const auto& [file, etag] = served(call.request.path);
  Response response;
  response.type = file->type;
  response.headers = {{"Content-Security-Policy", std::string(kPolicy)},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Referrer-Policy", "same-origin"},
                      {"Cross-Origin-Opener-Policy", "same-origin"},
                      {"Cache-Control", "no-cache"},
                      {"ETag", etag}};
  if (call.request.if_none_match == etag) {
    response.status = 304;
  } else {
    response.body = file->text;
    if (file->path == "/") lead_up(response.body, call.request.path);
  }
  return response;
}

Response say_why_there_is_none(Context&, const Call& call) {
  return call.problem(
      404,
      "this program was built without the console: npm was missing. The API is described in /openapi.json");
}

}  // namespace

std::vector<Route> console_routes() {
  const auto& files = console_files();
  if (files.empty()) return {{"GET", "/", "", api::Action::probe, api::Scope::none, say_why_there_is_none}};
  std::vector<Route> routes{{"GET", "/console/*", "", api::Action::probe, api::Scope::none, show_file}};
  for (const ConsoleFile& file : files)
    routes.push_back({"GET", file.path, "", api::Action::probe, api::Scope::none, show_file});
  return routes;
}

}  // namespace rung::http
