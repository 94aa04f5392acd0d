#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "src/api/base/context.h"
#include "tests/support/clock.h"
#include "tests/support/snapshot.h"

namespace rung::api {
namespace {

class RouterTest : public testing::Test {
 protected:
  static constexpr std::array kParams{kLimit};
  static Response tell(Context&, const Call& call) {
    Response response;
    response.body = call.id + " by " + call.who;
    return response;
  }
  static std::shared_ptr<RuleBook> rules() {
    return std::make_shared<RuleBook>(RuleBook::Ladders{{"default", *levels::Ladder::from_list({Ms{1000}})}},
                                      RuleBook::Queues{});
  }
  static Request request(const std::string& method, const std::string& path) {
    Request r;
    r.method = method;
    read_target(path, r);
    return r;
  }
  Response call(const std::string& method, const std::string& path, const Pairs& query,
                const std::string& body, const std::string& who = "alice") {
    Request asked = request(method, path);
    asked.query = query;
    asked.body = body;
    const auto found = router.match(asked);
    if (found.route == nullptr) return problem(no_such_route(found), path);
    Call of{asked, found.id, who, {who, Role::administers, nullptr}};
    return router.answer(*found.route, of);
  }
  Router::Match match(const std::string& method, const std::string& path) const {
    return router.match(request(method, path));
  }

  Context context{{.rules = rules()}, Ms{1}, test_clock()};
  const Router router{
      context,
      {{"GET", "/v1/tasks", "list", Action::read, Scope::none, tell, kParams},
       {"POST", "/v1/tasks", "submit", Action::submit, Scope::body, tell, {}, Takes::json},
       {"GET", "/v1/tasks/{id}", "show", Action::read, Scope::none, tell},
       {"POST", "/v1/tasks/{id}/cancel", "cancel", Action::cancel, Scope::changed, tell, {}, Takes::maybe},
       {"POST", "/v1/queues/{queue}/pause", "pause", Action::pause, Scope::queue, tell, {}, Takes::object},
       {"GET", "/metrics", "metrics", Action::read, Scope::none, tell},
       {"GET", "/console/*", "", Action::probe, Scope::none, tell}}};
};

TEST_F(RouterTest, FindsByMethodAndPattern) {
  EXPECT_EQ(match("GET", "/v1/tasks").route->pattern, "/v1/tasks");
  EXPECT_EQ(match("POST", "/v1/tasks").route->action, Action::submit);
  const auto one = match("GET", "/v1/tasks/57");
  EXPECT_EQ(one.route->pattern, "/v1/tasks/{id}");
  EXPECT_EQ(one.id, "57");
  EXPECT_EQ(match("POST", "/v1/tasks/57/cancel").id, "57");
  EXPECT_EQ(match("POST", "/v1/queues/orders/pause").id, "orders");
  EXPECT_EQ(match("POST", "/v1/queues//pause").route, nullptr);
}

TEST_F(RouterTest, AStarIsForAllBelow) {
  for (const auto* path : {"/console/", "/console/tasks", "/console/tasks/4711/history"})
    EXPECT_NE(match("GET", path).route, nullptr) << path;
  EXPECT_EQ(match("GET", "/console").route, nullptr);
  EXPECT_EQ(match("POST", "/console/tasks").allow, "GET, HEAD");
}

TEST_F(RouterTest, SaysWhichMethodsAPathHas) {
  const auto wrong = match("DELETE", "/v1/tasks");
  EXPECT_EQ(wrong.route, nullptr);
  EXPECT_EQ(wrong.allow, "GET, HEAD, POST");
  EXPECT_EQ(match("GET", "/v1/tasks/5/cancel").allow, "POST");
}

TEST_F(RouterTest, FindsNothingElse) {
  for (const auto* path : {"", "/", "/v1", "/v1/tasks/", "/v1/tasks/5/", "/v1/tasks/5/6", "/v1/tasks//cancel",
                           "/v1/tasks/cancel/cancel/cancel", "/v1/tasksx", "v1/tasks"}) {
    const auto none = match("GET", path);
    EXPECT_EQ(none.route, nullptr) << path;
    EXPECT_EQ(none.allow, "") << path;
  }
}

TEST_F(RouterTest, AnIdMayHaveASlash) {
  EXPECT_EQ(match("POST", "/v1/queues/a%2Fb%20c/pause").id, "a/b c");
  EXPECT_EQ(match("POST", "/v1/queues/a/b/pause").route, nullptr);
}

TEST_F(RouterTest, HandsTheCallToItsHandler) {
  const Response done = call("POST", "/v1/tasks/57/cancel", {}, "", "alice@host (cli)");
  EXPECT_EQ(done.status, 200);
  EXPECT_EQ(done.body, "57 by alice@host (cli)");
  EXPECT_EQ(call("GET", "/v1/task", {}, "").status, 404);
  EXPECT_EQ(call("DELETE", "/v1/tasks", {}, "").status, 405);
}

TEST_F(RouterTest, TakesTheQueryAndTheBodyThatTheRouteNames) {
  const auto get = [this](const std::string& path, const Pairs& query) {
    return call("GET", path, query, "").status;
  };
  EXPECT_EQ(get("/v1/tasks", {{"limit", "5"}}), 200);
  EXPECT_EQ(get("/v1/tasks", {{"limit", "x"}}), 400);
  EXPECT_EQ(get("/v1/tasks", {{"size", "5"}}), 400);
  EXPECT_EQ(get("/v1/tasks/5", {{"limit", "5"}}), 400);
  EXPECT_EQ(get("/metrics", {{"target", "x"}}), 200) << "a scraper may add parameters of its own";
  const auto post = [this](const std::string& path, const std::string& body) {
    return call("POST", path, {}, body).status;
  };
  for (const auto* any : {"{}", "[]", "5"}) EXPECT_EQ(post("/v1/tasks", any), 200) << any;
  for (const auto* wrong : {"", "{", "{\"a\":1,\"a\":2}"}) EXPECT_EQ(post("/v1/tasks", wrong), 400) << wrong;
  for (const auto* maybe : {"", "{}"}) EXPECT_EQ(post("/v1/tasks/5/cancel", maybe), 200) << maybe;
  EXPECT_EQ(post("/v1/tasks/5/cancel", "[]"), 400);
  EXPECT_EQ(post("/v1/queues/q/pause", "{}"), 200);
  EXPECT_EQ(post("/v1/queues/q/pause", ""), 400);
}

TEST_F(RouterTest, ATokensQueuesCountBeforeTheHandler) {
  const auto answer = [this](const std::string& queue) {
    Request asked = request("POST", "/v1/queues/" + queue + "/pause");
    asked.body = "{}";
    const auto found = router.match(asked);
    const auto his = std::make_shared<const QueueScope>(std::vector<QueuePattern>{QueuePattern("his-*")});
    Call call{asked, found.id, "sam", {"sam", Role::acts, his}};
    return router.answer(*found.route, call).status;
  };
  EXPECT_EQ(answer("his-1"), 200);
  EXPECT_EQ(answer("hers"), 403);
  EXPECT_EQ(answer("his%2F1"), 403);
}

// ---- The table of rights, and the pages that show it.

// The cells of a line of a Markdown table, without blanks around them.
std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> out;
  std::istringstream in(line.substr(1));
  for (std::string cell; std::getline(in, cell, '|');) {
    const std::size_t from = cell.find_first_not_of(' ');
    out.push_back(from == std::string::npos ? "" : cell.substr(from, cell.find_last_not_of(' ') + 1 - from));
  }
  return out;
}

// The row of docs/http.md for an action: from which role on, and what `queues` limits.
std::vector<std::string> row_of(const std::string& word) {
  std::istringstream page(test::text_of_file(RUNG_SOURCE_DIR "/docs/http.md"));
  bool in_table = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("| action | what | from the role |")) in_table = true;
    if (in_table && !line.starts_with("|")) break;
    if (in_table && cells(line).at(0).find("`" + word + "`") != std::string::npos) return cells(line);
  }
  return {};
}

TEST(Actions, TheDocsHaveTheTable) {
  for (const Right& right : kRights) {
    if (right.action == Action::probe) continue;
    const auto row = row_of(std::string(right.word));
    ASSERT_EQ(row.size(), 4U) << right.word;
    EXPECT_EQ(row[2], to_word(right.least)) << right.word;
    EXPECT_EQ(!row[3].empty(), right.by_queue) << right.word;
  }
}

TEST(Actions, EachRoleMayDoWhatTheOnesBeforeItMay) {
  for (const Right& right : kRights) {
    for (std::size_t role = 2; role <= kWords<Role>.size(); ++role) {
      EXPECT_TRUE(!may({"", static_cast<Role>(role - 1), nullptr}, right.action) ||
                  may({"", static_cast<Role>(role), nullptr}, right.action))
          << right.word;
    }
  }
}

}  // namespace
}  // namespace rung::api
