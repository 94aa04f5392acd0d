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
// What `asks` is refused with; of status 200: it is not.
template <typename Ask>
Problem refused(const Ask& asks) {
  try {
    (void)asks();
  } catch (const Problem& no) {
    return no;
  }
  return {200, ""};
}
Problem refused(const Access& access, const Request& r, Action action) {
  return refused([&] { return access.admit(r, action); });
}
int status(const Access& access, const Request& r, Action action) {
  return refused(access, r, action).status;
}
std::string who(const Access& access, const Request& r) { return who_asks(access.admit(r, Action::read), r); }
Problem outside(const Person& person, const std::string& queue) {
  return refused([&] { return api::refuse_queue(person, queue), 0; });
}
Problem outside(const Person& person, const Target& target) {
  return refused([&] { return api::refuse_target(person, target), 0; });
}
PersonToken person(const std::string& name, Role role, const std::string& token,
                   const std::vector<std::string>& queues = {}) {
  std::vector<QueuePattern> patterns(queues.begin(), queues.end());
  return {{name, role, queues.empty() ? nullptr : std::make_shared<const QueueScope>(patterns)},
          sha256(token)};
}

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
      const Role is{static_cast<std::uint8_t>(role + 1)};
      const bool allowed = is >= right.least;
      EXPECT_EQ(status(access, request(tokens[role]), right.action), allowed ? 200 : 403)
          << right.word << " as " << to_word(is);
    }
  }
  EXPECT_EQ(who(access, request("Bearer o")), "olaf, 10.0.0.3 (http)");
  const Problem no = refused(access, request("Bearer r"), Action::cancel);
  EXPECT_EQ(no.detail, "the token rita has the role reader: cancel needs the role operator");
  EXPECT_EQ(no.more.at("needs_role"), "operator");
  EXPECT_EQ(refused(access, request("Bearer o"), Action::body).more.at("needs_role"), "editor");
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
  EXPECT_EQ(outside(anyone, "orders").status, 200);
  EXPECT_EQ(outside(anyone, "").status, 200);
  const Person olaf = person("olaf", Role::acts, "o", {"orders*", "pay-?"}).person;
  for (const auto* queue : {"orders", "orders.eu", "pay-1"})
    EXPECT_EQ(outside(olaf, queue).status, 200) << queue;
  for (const auto* queue : {"", "order", "Orders", "pay-", "pay-12", "xorders"})
    EXPECT_EQ(outside(olaf, queue).status, 403) << queue;
  const Problem no = outside(olaf, "invoices");
  EXPECT_EQ(
      no.detail,
      "the token olaf may act only on the queues orders*, pay-?. This request concerns the queue 'invoices'");
  EXPECT_EQ(no.more.at("queue"), "invoices");
  // At the default exchange the routing key is the queue; another exchange may reach any queue.
  EXPECT_EQ(outside(olaf, Target{"", "", "orders"}).status, 200);
  EXPECT_EQ(outside(olaf, Target{"", "", "invoices"}).status, 403);
  EXPECT_EQ(outside(olaf, Target{"", "orders", "orders"}).status, 403);
  EXPECT_EQ(outside(person("x", Role::acts, "x", {"*"}).person, Target{"", "events", "x"}).status, 200);
}

TEST(Access, YouAreToldWhatYouMayDoToAQueueAndWhyNot) {
  const Person olaf = person("olaf", Role::acts, "o", {"pay-?", "[mp]ails"}).person;
  const auto why_not = [&](const std::optional<std::string>& queue, const char* action) {
    return person_json(olaf, queue).at("may_not").value(action, "");
  };
  for (const auto* queue : {"pay-1", "mails", "pails"}) EXPECT_EQ(why_not(queue, "redrive"), "") << queue;
  for (const auto* queue : {"pay-", "pay-12", "rails", ""}) {
    const Problem no = outside(olaf, queue);
    EXPECT_EQ(no.status, 403) << queue;
    EXPECT_EQ(why_not(queue, "redrive"), no.detail) << queue;
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
std::string header(const Problem& no, const std::string& name) {
  for (const auto& [key, value] : api::problem(no, "/v1").headers)
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
  const Problem no = refused(access, request("Bearer a.l.ice"), Action::edit);
  EXPECT_EQ(no.detail, "the token of alice has the role operator: edit needs the role editor");
  EXPECT_EQ(no.more.at("needs_role"), "editor");
}

TEST(Access, WhyATokenOfTheProviderIsRefused) {
  const Access access(Tokens{{"f.u.ll"}, {}, {}}, sign_in());
  EXPECT_EQ(status(access, request("Bearer f.u.ll"), Action::adopt), 200)
      << "a token of ours, whatever it looks like";
  const auto why = [&](const std::string& token) {
    return refused(access, request("Bearer " + token), Action::read);
  };
  EXPECT_EQ(why("no.ro.le").status, 403);
  EXPECT_EQ(why("no.ro.le").detail, "no role here");
  EXPECT_EQ(why("la.t.er").status, 503);
  EXPECT_EQ(header(why("la.t.er"), "Retry-After"), "1");
  EXPECT_EQ(why("unknown.k.ey").status, 401);
  EXPECT_EQ(why("unknown.k.ey").detail, "an unknown key");
  for (const auto* token : {"o.l.d", "e.n.c.ryp.ted"})
    EXPECT_EQ(header(why(token), "WWW-Authenticate"),
              "Bearer realm=\"rung\", error=\"invalid_token\", error_description=\"it has expired\"");
  for (const auto* token : {"x", "a.b", "a.b.c.d", ""})
    EXPECT_THAT(why(token).detail, testing::StartsWith("unknown token")) << token;
}

TEST(Access, TheSameTokenWithoutAProvider) {
  const Access access(Tokens{{"full"}, {}, {}});
  EXPECT_EQ(refused(access, request("Bearer a.l.ice"), Action::read).detail,
            "unknown token: Authorization: Bearer TOKEN");
}

}  // namespace
}  // namespace rung::http
