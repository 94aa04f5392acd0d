// /v1/session: a browser signs in with a token, and gets a cookie for it (access/sign_ins.h).
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "src/http/handlers/network.h"
#include "src/io/log.h"

namespace rung::http {
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

}  // namespace rung::http
