#include "src/http/access/access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace rung::http {
namespace {

using api::Json;
using api::kRights;
using api::person_json;
using api::refuse_queue;
using api::refuse_target;
using api::Right;

Request request(const std::string& authorization, const std::string& host = "127.0.0.1:8025") {
  Request r;
  r.method = "GET";
  r.path = "/v1/tasks";
  r.host = host;
  r.authorization = authorization;
  r.peer = "10.0.0.3";
  return r;
}
int status(const Access& access, const Request& r, Action action) {
  const auto person = access.admit(r, action);
  return person ? 200 : person.error().status;
}
std::string who(const Access& access, const Request& r) {
  const auto person = access.admit(r, Action::read);
  return person ? who_asks(*person, r) : "";
}
PersonToken person(const std::string& name, Role role, const std::string& token,
                   const std::vector<std::string>& queues = {}) {
  std::vector<QueuePattern> patterns(queues.begin(), queues.end());
  return {{name, role, queues.empty() ? nullptr : std::make_shared<const QueueScope>(patterns)},
          sha256(token)};
}
Json body(const Response& response) { return Json::parse(response.body); }

TEST(Access, TokensSayWhoMayWhat) {
  const Access access(Tokens{{"full"}, {"read"}, {}});
  EXPECT_EQ(status(access, request("Bearer full"), Action::adopt), 200);
  EXPECT_EQ(status(access, request("Bearer read"), Action::read), 200);
  EXPECT_EQ(status(access, request("Bearer read"), Action::submit), 403);
  for (const auto* wrong : {"", "Bearer ", "Bearer", "Bearer x", "full", "Bearer full ", "Basic full"})
    EXPECT_EQ(status(access, request(wrong), Action::read), 401) << wrong;
  EXPECT_EQ(status(access, request("bEARER full"), Action::submit), 200) << "the scheme, not the token";
  EXPECT_EQ(who(access, request("Bearer full")), "token full, 10.0.0.3 (http)");
  EXPECT_EQ(who(access, request("Bearer read")), "token read, 10.0.0.3 (http)");
  // With a token the host may be any: it is no browser of somebody else's that knows one.
  EXPECT_EQ(status(access, request("Bearer full", "rung.example.com"), Action::submit), 200);
}

TEST(Access, WithoutAReadTokenAnEmptyOneIsNone) {
  const Access access(Tokens{{"full"}, {""}, {}});
  EXPECT_EQ(status(access, request("Bearer "), Action::read), 401);
  EXPECT_EQ(status(access, request("Bearer full"), Action::read), 200);
}

// Every action and every role.
TEST(Access, ARoleMayDoWhatTheTableSays) {
  const Access access(Tokens{
      {},
      {},
      {person("rita", Role::reads, "r"), person("rosa", Role::redrives, "d"), person("olaf", Role::acts, "o"),
       person("edda", Role::edits, "e"), person("anna", Role::administers, "a")}});
  const std::vector<std::string> tokens{"Bearer r", "Bearer d", "Bearer o", "Bearer e", "Bearer a"};
  for (const Right& right : kRights) {
    if (right.action == Action::probe) continue;
    for (std::size_t role = 0; role < tokens.size(); ++role) {
      const bool allowed = role >= static_cast<std::size_t>(right.least);
      EXPECT_EQ(status(access, request(tokens[role]), right.action), allowed ? 200 : 403)
          << right.word << " as " << kRoleWords.at(role);
    }
  }
  EXPECT_EQ(who(access, request("Bearer o")), "olaf, 10.0.0.3 (http)");
  const Json no = body(access.admit(request("Bearer r"), Action::cancel).error());
  EXPECT_EQ(no.at("detail"), "the token rita has the role reader: cancel needs the role operator");
  EXPECT_EQ(no.at("needs_role"), "operator");
  EXPECT_EQ(body(access.admit(request("Bearer o"), Action::body).error()).at("needs_role"), "editor");
}

TEST(Access, OldAndNewTokensAreValidAtOnce) {
  Access access(
      Tokens{{"full"}, {"read"}, {person("olaf", Role::acts, "old"), person("olaf", Role::acts, "new")}});
  for (const auto* token : {"full", "old", "new"})
    EXPECT_EQ(status(access, request("Bearer " + std::string(token)), Action::fire), 200) << token;
  EXPECT_EQ(who(access, request("Bearer old")), who(access, request("Bearer new")));
  access.replace(Tokens{{}, {}, {person("olaf", Role::acts, "new")}});
  EXPECT_EQ(status(access, request("Bearer new"), Action::fire), 200);
  for (const auto* token : {"full", "read", "old"})
    EXPECT_EQ(status(access, request("Bearer " + std::string(token)), Action::read), 401) << token;
}

TEST(Access, QueuesOutsideOfTheScope) {
  const Person anyone = person("anna", Role::acts, "a").person;
  EXPECT_FALSE(refuse_queue(anyone, "orders", "/v1"));
  EXPECT_FALSE(refuse_queue(anyone, "", "/v1"));
  const Person olaf = person("olaf", Role::acts, "o", {"orders*", "pay-?"}).person;
  for (const auto* queue : {"orders", "orders.eu", "pay-1"})
    EXPECT_FALSE(refuse_queue(olaf, queue, "/v1")) << queue;
  for (const auto* queue : {"", "order", "Orders", "pay-", "pay-12", "xorders"})
    EXPECT_TRUE(refuse_queue(olaf, queue, "/v1")) << queue;
  const auto no = refuse_queue(olaf, "invoices", "/v1");
  EXPECT_EQ(no->status, 403);
  EXPECT_EQ(
      body(*no).at("detail"),
      "the token olaf may act only on the queues orders*, pay-?. This request concerns the queue 'invoices'");
  EXPECT_EQ(body(*no).at("queue"), "invoices");
  // At the default exchange the routing key is the queue; another exchange may reach any queue.
  EXPECT_FALSE(refuse_target(olaf, {"", "", "orders"}, "/v1"));
  EXPECT_TRUE(refuse_target(olaf, {"", "", "invoices"}, "/v1"));
  EXPECT_TRUE(refuse_target(olaf, {"", "orders", "orders"}, "/v1"));
  EXPECT_FALSE(refuse_target(person("x", Role::acts, "x", {"*"}).person, {"", "events", "x"}, "/v1"));
}

TEST(Access, YouAreToldWhatYouMayDoToAQueueAndWhyNot) {
  const Person olaf = person("olaf", Role::acts, "o", {"pay-?", "[mp]ails"}).person;
  const auto why_not = [&](const std::optional<std::string>& queue, const char* action) {
    return person_json(olaf, queue).at("may_not").value(action, "");
  };
  for (const auto* queue : {"pay-1", "mails", "pails"}) EXPECT_EQ(why_not(queue, "redrive"), "") << queue;
  for (const auto* queue : {"pay-", "pay-12", "rails", ""}) {
    const auto no = refuse_queue(olaf, queue, "/v1");
    ASSERT_TRUE(no) << queue;
    EXPECT_EQ(why_not(queue, "redrive"), body(*no).at("detail")) << queue;
  }
  EXPECT_EQ(why_not({}, "redrive"), "") << "what the role allows";
  EXPECT_EQ(why_not("mails", "edit"), "the token olaf has the role operator: edit needs the role editor");
  EXPECT_EQ(why_not("rails", "read"), "") << "queues do not limit what one may read";
  const Json you = person_json(olaf, "rails");
  EXPECT_EQ(you.at("may").size() + you.at("may_not").size() + 1, kRights.size()) << "each action, but probe";
}

TEST(Access, WithoutTokensOnlyThisMachinesNames) {
  const Access access(Tokens{});
  EXPECT_EQ(status(access, request(""), Action::adopt), 200);
  EXPECT_EQ(who(access, request("")), "no token, 10.0.0.3 (http)");
  EXPECT_EQ(status(access, request("", "evil.example"), Action::read), 403);
  Request r = request("");
  r.origin = "http://127.0.0.1:8025";
  EXPECT_EQ(status(access, r, Action::submit), 200);
  r.origin = "http://127.0.0.1:9999";
  EXPECT_EQ(status(access, r, Action::submit), 403);
  r.origin = "null";
  EXPECT_EQ(status(access, r, Action::submit), 403);
}

TEST(Access, LoopbackHosts) {
  for (const auto* host : {"localhost", "localhost:1", "127.0.0.1", "127.1.2.3:80", "[::1]", "[::1]:80"})
    EXPECT_TRUE(is_loopback_host(host)) << host;
  for (const auto* host : {"", "127", "evil.com", "127.0.0.1.evil.com", "127.evil:1", "localhost.evil",
                           "[::2]", "[::1]x", "[::1", "::1", "10.0.0.1"})
    EXPECT_FALSE(is_loopback_host(host)) << host;
}

// Tokens of an identity provider, as the verifier answers for them.
SignIn sign_in() {
  return [](std::string_view token) -> tl::expected<Person, oidc::Refusal> {
    using Kind = oidc::Refusal::Kind;
    if (token == "a.l.ice") return Person{"alice", Role::acts, nullptr, true, "7f3c"};
    if (token == "no.ro.le") return tl::unexpected(oidc::Refusal{Kind::no_role, "no role here"});
    if (token == "la.t.er") return tl::unexpected(oidc::Refusal{Kind::later, "keys are being fetched"});
    if (token == "unknown.k.ey") return tl::unexpected(oidc::Refusal{Kind::unknown_key, "an unknown key"});
    return tl::unexpected(oidc::Refusal{Kind::invalid, "it has expired"});
  };
}
std::string header(const Response& response, const std::string& name) {
  for (const auto& [key, value] : response.headers)
    if (key == name) return value;
  return "";
}

TEST(Access, SomebodyWhoSignedIn) {
  const Access access(Tokens{}, sign_in());
  EXPECT_TRUE(access.needs_token());
  EXPECT_EQ(status(access, request(""), Action::read), 401) << "also on loopback";
  EXPECT_EQ(status(access, request("Bearer a.l.ice"), Action::submit), 200);
  EXPECT_EQ(status(access, request("Bearer a.l.ice", "rung.example.com"), Action::submit), 200);
  EXPECT_EQ(who(access, request("Bearer a.l.ice")), "alice, 10.0.0.3 (http, oidc sub 7f3c)");
  const Response no = access.admit(request("Bearer a.l.ice"), Action::edit).error();
  EXPECT_EQ(body(no).at("detail"), "the token of alice has the role operator: edit needs the role editor");
  EXPECT_EQ(body(no).at("needs_role"), "editor");
}

TEST(Access, WhyATokenOfTheProviderIsRefused) {
  const Access access(Tokens{{"f.u.ll"}, {}, {}}, sign_in());
  EXPECT_EQ(status(access, request("Bearer f.u.ll"), Action::adopt), 200)
      << "a token of ours, whatever it looks like";
  const auto refused = [&](const std::string& token) {
    return access.admit(request("Bearer " + token), Action::read).error();
  };
  EXPECT_EQ(refused("no.ro.le").status, 403);
  EXPECT_EQ(body(refused("no.ro.le")).at("detail"), "no role here");
  EXPECT_EQ(refused("la.t.er").status, 503);
  EXPECT_EQ(header(refused("la.t.er"), "Retry-After"), "1");
  EXPECT_EQ(refused("unknown.k.ey").status, 401);
  EXPECT_EQ(body(refused("unknown.k.ey")).at("detail"), "an unknown key");
  for (const auto* token : {"o.l.d", "e.n.c.ryp.ted"})
    EXPECT_EQ(header(refused(token), "WWW-Authenticate"),
              "Bearer realm=\"rung\", error=\"invalid_token\", error_description=\"it has expired\"");
  for (const auto* token : {"x", "a.b", "a.b.c.d", ""})
    EXPECT_THAT(body(refused(token)).at("detail").get<std::string>(), testing::StartsWith("unknown token"))
        << token;
}

TEST(Access, TheSameTokenWithoutAProvider) {
  const Access access(Tokens{{"full"}, {}, {}});
  EXPECT_EQ(body(access.admit(request("Bearer a.l.ice"), Action::read).error()).at("detail"),
            "unknown token: Authorization: Bearer TOKEN");
}

}  // namespace
}  // namespace rung::http
