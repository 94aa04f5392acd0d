// http.tokens_file: who may do what, route by route; and whose name stands in the audit.
#include <csignal>
#include <functional>
#include <map>
#include <set>

#include "src/api/base/context.h"
#include "src/core/message/identity.h"
#include "tests/integration/http/fixture.h"

namespace rung::test {
namespace {

using testing::AllOf;
using testing::Not;

const std::vector<std::string> kPeople{"rita", "rosa", "olaf", "edda", "anna"};  // in the order of the roles

// The routes with their actions.
std::map<std::string, http::Action> routes() {
  std::map<std::string, http::Action> all;
  for (const http::Route& route : http::all_routes())
    all[std::string(route.method) + " " + std::string(route.pattern)] = route.action;
  return all;
}

class HttpPeople : public HttpTest {
 protected:
  // A request to one route, and the status if it is allowed.
  struct Ask {
    std::string path;
    std::optional<std::string> body = {};
    int good = 200;
  };
  using Asks = std::map<std::string, std::function<Ask()>>;  // by route: "POST /v1/tasks"

  static std::string token(const std::string& name) { return "token-of-" + name + "-0123456789"; }
  static std::string entry(const std::string& name, const std::string& role, const std::string& more = "") {
    return "- { name: " + name + ", role: " + role + ", token: " + token(name) + more + " }\n";
  }
  // Five people with a role each, the last by a hash; and sam, who may act on queues that begin with "his-".
  static std::string people() {
    return entry("rita", "reader") + entry("rosa", "redriver") + entry("olaf", "operator") +
           entry("edda", "editor") +
           "- { name: anna, role: admin, token_sha256: " + to_hex(sha256(token("anna"))) + " }\n" +
           entry("sam", "editor", ", queues: [\"" + his("*") + "\"]");
  }
  static std::string his(const std::string& queue) { return "his-" + queue; }

  void up_with(const std::string& more = "") {
    config.ladder = "[1h]";  // failures stay scheduled
    listen(", tokens_file: " + yaml(file("tokens.yaml", people())) + more);
    up();
  }
  HttpAnswer as(const std::string& name, const std::string& method, const std::string& path,
                const std::optional<std::string>& body = {}) {
    return call(method, path, body, {{"Authorization", "Bearer " + token(name)}});
  }
  HttpAnswer as(const std::string& name, const std::string& route, const Ask& ask) {
    return as(name, route.substr(0, route.find(' ')), ask.path, ask.body);
  }
  std::string task_of(const std::string& queue) {
    const HttpAnswer made = as("anna", "POST", "/v1/tasks", R"({"delay": "1h", "queue": ")" + queue + "\"}");
    EXPECT_EQ(made.status, 201) << made.body;
    return made.json().value("retry_id", "0");
  }
  std::string bulk_of(const std::string& queue) {
    task_of(queue);
    const HttpAnswer made = as("anna", "POST", "/v1/bulks", bulk(queue, R"(, "rate": 0.01)"));
    EXPECT_EQ(made.status, 202) << made.body;
    return made.json().value("id", "0");
  }
  static std::string bulk(const std::string& queue, const std::string& more = "") {
    return R"({"action": "cancel", "filter": {"queue": ")" + queue + "\"}" + more + "}";
  }
  // The cause of a failure in that queue.
  std::string cause_of(const std::string& queue) {
    amqp.declare(queue);
    remove_at_end(queue);
    Message message;
    message.headers.emplace();
    message.headers->emplace_back("retry-queue", queue);
    message.headers->emplace_back("retry-error", "no address");
    amqp.publish(failed(), "", message);
    json seen;
    const bool there = eventually([&] {
      seen = as("anna", "GET", "/v1/causes?queue=" + queue).json().at("causes");
      return !seen.empty();
    });
    EXPECT_TRUE(there) << queue;
    return there ? seen[0].at("cause_id").get<std::string>() : "0";
  }

  // A task that was parked at once.
  std::string parked_in(const std::string& queue) {
    Message message;
    message.properties.message_id = unique_name("m");
    message.headers = Table{{"retry-queue", queue}, {"retry-never", true}};
    amqp.publish(failed(), "", message);
    return wait_row("message_id = '" + *message.properties.message_id + "'", "parked")["retry_id"];
  }

  // Every route of the API that needs a token.
  Asks asks_about(const std::string& queue, const std::string& cause) {
    const auto task = [this, queue](const std::string& what, const std::string& body = "{}") {
      return [this, queue, what, body] { return Ask{"/v1/tasks/" + task_of(queue) + what, body}; };
    };
    const auto look = [](const std::string& path) { return [path] { return Ask{path}; }; };
    const auto change = [](const std::string& path, const std::string& body) {
      return [path, body] { return Ask{path, body}; };
    };
    const auto of_bulk = [this, queue](const std::string& what) {
      return [this, queue, what] { return Ask{"/v1/bulks/" + bulk_of(queue) + what, "{}"}; };
    };
    const std::string id = task_of(queue), running = bulk_of(queue);
    Asks all{
        {"POST /v1/tasks",
         [queue] {
           return Ask{"/v1/tasks", R"({"delay": "1h", "queue": ")" + queue + "\"}", 201};
         }},
        {"GET /v1/tasks/{id}", look("/v1/tasks/" + id)},
        {"GET /v1/tasks/{id}/origin", look("/v1/tasks/" + id + "/origin")},
        {"GET /v1/tasks/{id}/history", look("/v1/tasks/" + id + "/history")},
        {"GET /v1/tasks/{id}/audit", look("/v1/tasks/" + id + "/audit")},
        {"POST /v1/tasks/{id}/cancel", task("/cancel")},
        {"POST /v1/tasks/{id}/discard", task("/discard")},
        {"POST /v1/tasks/{id}/reschedule", task("/reschedule", R"({"delay": "2h"})")},
        {"POST /v1/tasks/{id}/fire", task("/fire")},
        {"POST /v1/tasks/{id}/finish", task("/finish", R"({"result": "succeeded"})")},
        {"POST /v1/tasks/{id}/redrive", task("/redrive")},
        {"POST /v1/tasks/{id}/edit",
         [this, queue] {
           const std::string parked = parked_in(queue);
           const json seen = as("anna", "GET", "/v1/tasks/" + parked).json();
           return Ask{"/v1/tasks/" + parked + "/edit",
                      json{{"version", seen.at("version")}, {"body", "x"}}.dump(), 201};
         }},
        {"GET /v1/tasks/{id}/body", look("/v1/tasks/" + id + "/body")},
        {"GET /v1/tasks/{id}/message", look("/v1/tasks/" + id + "/message")},
        {"POST /v1/bulks",
         [queue] {
           return Ask{"/v1/bulks", bulk(queue, R"(, "rate": 0.01)"), 202};
         }},
        {"GET /v1/bulks/{id}", look("/v1/bulks/" + running)},
        {"POST /v1/bulks/{id}/pause", of_bulk("/pause")},
        {"POST /v1/bulks/{id}/resume", of_bulk("/resume")},
        {"POST /v1/bulks/{id}/abort", of_bulk("/abort")},
        {"GET /v1/causes/{cause}", look("/v1/causes/" + cause)},
        {"POST /v1/causes/{cause}", change("/v1/causes/" + cause, R"({"note": "known"})")},
        {"POST /v1/simulate", change("/v1/simulate", json{{"queue", queue}}.dump())},
        // A stream would not end.
        {"GET /v1/events",
         [] {
           return Ask{"/v1/events?watch=x", "", 400};
         }},
        {"GET /v1/queues/{queue}", look("/v1/queues/" + queue)},
        {"POST /v1/queues/{queue}/pause", change("/v1/queues/" + queue + "/pause", "{}")},
        {"POST /v1/queues/{queue}/resume", change("/v1/queues/" + queue + "/resume", "{}")},
    };
    // Lists, and what there is one of.
    for (const auto& [route, action] : routes()) {
      const bool is_one = route.starts_with("GET ") && route.find('{') == std::string::npos;
      if (is_one && action != http::Action::probe) all.try_emplace(route, look(route.substr(4)));
    }
    return all;
  }
};

TEST_F(HttpPeople, EachRoleDoesWhatTheTableSaysAndNothingElse) {
  up_with();
  const std::string queue = his(new_name());
  const Asks asks = asks_about(queue, cause_of(queue));
  int cells = 0;
  for (const auto& [route, action] : routes()) {
    if (action == http::Action::probe) continue;
    ASSERT_TRUE(asks.contains(route)) << route << ": a new route needs its line in this test";
    const Role least = api::right_of(action).least;
    // Here all bulks cancel, which is more than a redriver may do.
    const Role needed = action == http::Action::bulk ? Role::acts : least;
    for (std::size_t role = 0; role < kPeople.size(); ++role) {
      const Ask ask = asks.at(route)();
      const HttpAnswer answer = as(kPeople[role], route, ask);
      const Role is{static_cast<std::uint8_t>(role + 1)};
      ++cells;
      if (is >= needed) {
        EXPECT_EQ(answer.status, ask.good) << route << " as " << to_word(is) << answer.body;
      } else {
        const std::string missing(to_word(is >= least ? needed : least));
        EXPECT_THAT(refused(answer, 403),
                    AllOf(HasSubstr(kPeople[role]), HasSubstr("needs the role " + missing)))
            << route << " as " << to_word(is);
        EXPECT_EQ(answer.json().value("needs_role", ""), missing);
      }
    }
  }
  std::cout << cells << " cells: " << asks.size() << " routes by " << kPeople.size() << " roles\n";
  EXPECT_EQ(cells, static_cast<int>(asks.size() * kPeople.size()));
  EXPECT_THAT(rung().log(), Not(HasSubstr("token-of-"))) << "no token is logged";
}

TEST_F(HttpPeople, ARedriverMakesAndSteersRedrivesAlone) {
  up_with();
  const std::string queue = his(new_name());
  parked_in(queue);
  const HttpAnswer made =
      as("rosa", "POST", "/v1/bulks",
         R"({"action": "redrive", "paused": true, "filter": {"queue": ")" + queue + "\"}}");
  ASSERT_EQ(made.status, 202) << made.body;
  const std::string mine = "/v1/bulks/" + made.json().value("id", "0");
  EXPECT_EQ(as("rosa", "POST", mine + "/abort", "{}").status, 200);
  EXPECT_EQ(as("rosa", "POST", "/v1/bulks/" + bulk_of(queue) + "/abort", "{}").status, 403);
}

TEST_F(HttpPeople, QueuesLimitWhatOneMayActOn) {
  up_with();
  const std::string own = his(new_name()), other = new_name();
  const Asks allowed = asks_about(own, cause_of(own)), denied = asks_about(other, cause_of(other));
  for (const auto& [route, action] : routes()) {
    if (action == http::Action::probe) continue;
    const Ask inside = allowed.at(route)(), outside = denied.at(route)();
    EXPECT_EQ(as("sam", route, inside).status, inside.good) << route;
    const HttpAnswer answer = as("sam", route, outside);
    if (!api::right_of(action).by_queue) {
      EXPECT_EQ(answer.status, outside.good) << route << ": reads are not limited";
      continue;
    }
    EXPECT_THAT(refused(answer, 403),
                AllOf(HasSubstr("sam may act only on the queues his-*"), HasSubstr(other)))
        << route;
    EXPECT_EQ(answer.json().value("queue", ""), other) << route;
  }
  EXPECT_EQ(
      db.value(
          "SELECT COUNT(*) FROM retry_audit WHERE who LIKE 'sam,%' AND retry_id IN (SELECT retry_id FROM "
          "retry_current WHERE queue = '" +
          other + "')"),
      "0");
}

TEST_F(HttpPeople, NoWayAroundTheQueues) {
  up_with();
  const std::string own = his("q"), other = "other";
  const std::string mine = task_of(own), another = task_of(other);
  const auto no = [&](const std::string& path, const std::string& body) {
    return refused(as("sam", "POST", path, body), 403);
  };
  // Where it goes to, not only where it is.
  for (const auto* target : {R"({"queue": "other"})", R"({"exchange": "amq.topic", "routing_key": "x"})"})
    EXPECT_THAT(no("/v1/tasks/" + mine + "/redrive", target), HasSubstr("sam may act only on")) << target;
  no("/v1/tasks", R"({"delay": 1, "exchange": "amq.topic", "routing_key": "his-q"})");
  EXPECT_THAT(no("/v1/bulks", bulk(own, R"(, "elsewhere": {"queue": "other"})").replace(12, 6, "redrive")),
              HasSubstr("other"));
  // A bulk names a queue.
  for (const auto* filter :
       {R"({"state": "scheduled"})", R"({"tag": "t"})", R"({"cause": "0123456789ab"})"}) {
    const std::string asked = R"({"action": "cancel", "filter": )" + std::string(filter);
    EXPECT_THAT(no("/v1/bulks", asked + "}"), HasSubstr("the filter of a bulk must name one of them"))
        << filter;
    no("/v1/bulks", asked + R"(, "dry_run": true})");
  }
  // Another's bulk, also one of the command line.
  const std::string wide = as("anna", "POST", "/v1/bulks",
                              R"({"action": "cancel", "filter": {"state": "scheduled"}, "rate": 0.01})")
                               .json()
                               .value("id", "0");
  for (const auto* what : {"pause", "resume", "abort"}) no("/v1/bulks/" + wide + "/" + what, "{}");
  EXPECT_EQ(as("sam", "POST", "/v1/bulks/999999/abort").status, 404);
  // Of an array, what is allowed is done.
  const HttpAnswer some = as("sam", "POST", "/v1/tasks",
                             R"([{"delay": "1h", "queue": "his-q"}, {"delay": "1h", "queue": "other"}])");
  EXPECT_EQ(some.status, 207);
  EXPECT_EQ(some.json().at("results")[0].at("status"), 201);
  EXPECT_EQ(some.json().at("results")[1].at("error").at("status"), 403);
  EXPECT_EQ(some.json().at("results")[1].at("error").at("queue"), "other");
  // The queue counts before the version.
  EXPECT_EQ(call("POST", "/v1/tasks/" + another + "/fire", {},
                 {{"Authorization", "Bearer " + token("sam")}, {"If-Match", "\"77\""}})
                .status,
            403);
  EXPECT_EQ(as("anna", "GET", "/v1/tasks/" + another).json().at("state"), "scheduled");
}

TEST_F(HttpPeople, ARotationAndAReload) {
  up_with();
  const auto status = [&](const std::string& bearer) {
    return call("GET", "/v1/you", {}, {{"Authorization", "Bearer " + bearer}}).status;
  };
  const std::string fresh = "fresh-token-of-olaf";
  EXPECT_EQ(status(fresh), 401);
  file("tokens.yaml", people() + "- { name: olaf, role: operator, token: " + fresh + " }\n");
  rung().signal(SIGHUP);
  EXPECT_TRUE(eventually([&] { return status(fresh) == 200; })) << rung().log_tail();
  EXPECT_EQ(status(token("olaf")), 200);
  file("tokens.yaml", "- { name: olaf, role: reader, token: " + fresh + " }\n");
  rung().signal(SIGHUP);
  EXPECT_TRUE(eventually([&] { return status(token("olaf")) == 401; })) << rung().log_tail();
  EXPECT_EQ(status(token("anna")), 401);
  EXPECT_EQ(call("POST", "/v1/queues/q/pause", {}, {{"Authorization", "Bearer " + fresh}}).status, 403);
  // A file that is wrong changes nothing, and the log says where it is wrong.
  file("tokens.yaml", "- { name: olaf, role: boss, token: " + fresh + " }\n");
  rung().signal(SIGHUP);
  EXPECT_TRUE(rung().logged("tokens.yaml:1:23: role: ")) << rung().log_tail();
  EXPECT_EQ(status(fresh), 200);
  EXPECT_THAT(rung().log(), Not(HasSubstr(fresh)));
}

}  // namespace
}  // namespace rung::test
