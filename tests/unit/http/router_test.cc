#include "src/http/request/router.h"

#include <gtest/gtest.h>

namespace rung::http {
namespace {

Router router() {
  const auto none = [](const Call&) { return Response{}; };
  using enum Action;
  return Router({{"GET", "/v1/tasks", read, none},
                 {"POST", "/v1/tasks", submit, none},
                 {"GET", "/v1/tasks/{id}", read, none},
                 {"POST", "/v1/tasks/{id}/cancel", cancel, none},
                 {"POST", "/v1/queues/{queue}/pause", pause, none},
                 {"GET", "/console/*", probe, none}});
}

TEST(Router, FindsByMethodAndPattern) {
  const Router r = router();
  EXPECT_EQ(r.match("GET", "/v1/tasks").route->pattern, "/v1/tasks");
  EXPECT_EQ(r.match("POST", "/v1/tasks").route->action, Action::submit);
  const auto one = r.match("GET", "/v1/tasks/57");
  EXPECT_EQ(one.route->pattern, "/v1/tasks/{id}");
  EXPECT_EQ(one.id, "57");
  EXPECT_EQ(r.match("POST", "/v1/tasks/57/cancel").id, "57");
  EXPECT_EQ(r.match("POST", "/v1/queues/orders/pause").id, "orders");
  EXPECT_EQ(r.match("POST", "/v1/queues//pause").route, nullptr);
}

TEST(Router, AStarIsForAllBelow) {
  const Router r = router();
  for (const auto* path : {"/console/", "/console/tasks", "/console/tasks/4711/history"})
    EXPECT_NE(r.match("GET", path).route, nullptr) << path;
  EXPECT_EQ(r.match("GET", "/console").route, nullptr);
  EXPECT_EQ(r.match("POST", "/console/tasks").allow, "GET, HEAD");
}

TEST(Router, SaysWhichMethodsAPathHas) {
  const Router r = router();
  const auto wrong = r.match("DELETE", "/v1/tasks");
  EXPECT_EQ(wrong.route, nullptr);
  EXPECT_EQ(wrong.allow, "GET, HEAD, POST");
  EXPECT_EQ(r.match("GET", "/v1/tasks/5/cancel").allow, "POST");
}

TEST(Router, FindsNothingElse) {
  const Router r = router();
  for (const auto* path : {"", "/", "/v1", "/v1/tasks/", "/v1/tasks/5/", "/v1/tasks/5/6", "/v1/tasks//cancel",
                           "/v1/tasks/cancel/cancel/cancel", "/v1/tasksx", "v1/tasks"}) {
    const auto match = r.match("GET", path);
    EXPECT_EQ(match.route, nullptr) << path;
    EXPECT_EQ(match.allow, "") << path;
  }
}

}  // namespace
}  // namespace rung::http
