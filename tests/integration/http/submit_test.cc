// POST /v1/tasks.
#include "src/core/base/time.h"
#include "tests/integration/http/fixture.h"

namespace rung::test {
namespace {

class HttpSubmit : public HttpTest {};

TEST_F(HttpSubmit, ArrivesWithEverythingThatWasSaid) {
  up();
  const std::string queue = new_name();
  amqp.declare(queue);
  const std::int64_t before = wall_ms();
  const HttpAnswer answer =
      post("/v1/tasks",
           {{"queue", queue},
            {"tag", "close-unpaid"},
            {"message_id", "m-1"},
            {"body", {{"order", 7}, {"a", nullptr}}},
            {"headers", {{"tenant", "acme"}, {"n", 5}, {"w", {{"!i32", 7}}}, {"deep", {{"x", {1, "y"}}}}}},
            {"properties", {{"priority", 3}, {"correlation_id", "c"}, {"app_id", "shop"}, {"timestamp", 17}}},
            {"delay", "300ms"},
            {"ladder", "default"},
            {"max_attempts", 2},
            {"success", {{"reported_within", "5m"}}}});
  ASSERT_EQ(answer.status, 201) << answer.body;
  const json task = answer.json();
  const std::string id = task.at("retry_id");
  EXPECT_EQ(answer.header("location"), "/v1/tasks/" + id);
  EXPECT_EQ(answer.header("etag"), "\"1\"");
  EXPECT_EQ(task.at("kind"), "delay");
  EXPECT_EQ(task.at("state"), "scheduled");
  EXPECT_EQ(task.at("node"), "node-1");
  EXPECT_EQ(task.at("success"), (json{{"reported_within", "5m"}}));
  EXPECT_EQ(task.at("max_attempts"), 2);
  // 201 only after the commit: the row exists now.
  const auto row = rows("SELECT * FROM retry_current WHERE retry_id = " + id);
  ASSERT_EQ(row.size(), 1U);
  EXPECT_EQ(row[0].at("tag"), "close-unpaid");

  const Received got = delivery(queue);
  EXPECT_GE(wall_ms(), before + 300);
  EXPECT_EQ(json::parse(got.message.body.str()), (json{{"order", 7}, {"a", nullptr}}));
  EXPECT_EQ(got.message.body, R"({"a":null,"order":7})");
  const Properties& p = got.message.properties;
  EXPECT_EQ(p.content_type, "application/json");
  EXPECT_EQ(p.message_id, "m-1");
  EXPECT_EQ(p.type, "close-unpaid");
  EXPECT_EQ(p.priority, 3);
  EXPECT_EQ(p.correlation_id, "c");
  EXPECT_EQ(p.app_id, "shop");
  EXPECT_EQ(p.timestamp, 17U);
  EXPECT_EQ(p.delivery_mode, 2);
  EXPECT_EQ(text_header(got.message, "tenant"), "acme");
  EXPECT_EQ(int_header(got.message, "n"), 5);
  EXPECT_EQ(*find(got.message.headers, "w"), Value(std::int32_t{7}));
  EXPECT_EQ(*find(got.message.headers, "deep"),
            Value(Table{{"x", Array{Value(std::int64_t{1}), Value(std::string("y"))}}}));
  EXPECT_EQ(retry_id(got), id);
  EXPECT_EQ(int_header(got.message, "retry-attempt"), 1);
  EXPECT_EQ(wait_for(id, "awaiting").at("attempt"), 1);
}

TEST_F(HttpSubmit, TheSameMessageIdIsTheSameTask) {
  up();
  const json first = {{"queue", "q"}, {"body", {{"a", 1}}}, {"delay", "1h"}, {"message_id", "once"}};
  const std::string id = submit(first);
  json later = first;
  later["delay"] = "2h";  // the due time is not part of the content
  for (const json& again : {first, later}) {
    const HttpAnswer answer = post("/v1/tasks", again);
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.json().at("retry_id"), id);
    EXPECT_EQ(answer.header("etag"), "\"1\"");
  }
  const json others = {
      {"body", {{"a", 2}}}, {"queue", "other"},      {"tag", "t"},
      {"max_attempts", 3},  {"headers", {{"h", 1}}}, {"success", {{"presumed_after", "1s"}}}};
  for (const auto& [field, value] : others.items()) {
    json other = first;
    other[field] = value;
    const HttpAnswer answer = post("/v1/tasks", other);
    EXPECT_THAT(refused(answer, 409), HasSubstr("different content")) << field;
    EXPECT_EQ(answer.json().at("retry_id"), id);
  }
  // Also when it has ended.
  EXPECT_EQ(post("/v1/tasks/" + id + "/cancel").status, 200);
  const HttpAnswer answer = post("/v1/tasks", first);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.json().at("state"), "cancelled");
  EXPECT_EQ(db.value("SELECT COUNT(*) FROM retry_current"), "1");
}

TEST_F(HttpSubmit, ManyAtOnce) {
  up();
  json tasks = json::array();
  for (int i = 0; i < 1000; ++i)
    tasks.push_back({{"queue", "q"}, {"body", i}, {"delay", "1h"}, {"message_id", "m" + std::to_string(i)}});
  HttpAnswer answer = post("/v1/tasks", tasks);
  ASSERT_EQ(answer.status, 201) << answer.body.substr(0, 500);
  json body = answer.json();
  EXPECT_EQ(body.at("created"), 1000);
  EXPECT_EQ(body.at("results").size(), 1000U);
  EXPECT_EQ(body.at("results")[999].at("task").at("message_id"), "m999");
  const json& last = body.at("results")[999];
  EXPECT_EQ(last.at("location"), "/v1/tasks/" + last.at("task").at("retry_id").get<std::string>());
  EXPECT_EQ(last.at("etag"), "\"1\"");
  EXPECT_EQ(db.value("SELECT COUNT(*) FROM retry_current"), "1000");

  // The same tasks again: one changed, one invalid, one new, one twice.
  answer = post("/v1/tasks",
                json::array({tasks[0],
                             {{"queue", "q"}, {"body", "other"}, {"delay", "1h"}, {"message_id", "m1"}},
                             {{"queue", "q"}, {"delai", 1}},
                             {{"queue", "q"}, {"delay", 3600000}, {"message_id", "twice"}},
                             {{"queue", "q"}, {"delay", 3600000}, {"message_id", "twice"}}}));
  ASSERT_EQ(answer.status, 207) << answer.body;
  body = answer.json();
  const json& r = body.at("results");
  EXPECT_EQ(r[0].at("status"), 200);
  EXPECT_EQ(r[1].at("status"), 409);
  EXPECT_EQ(r[2].at("status"), 400);
  EXPECT_EQ(r[2].at("error").at("errors")[0].at("field"), "tasks[2].delai");
  EXPECT_EQ(r[3].at("status"), 201);
  EXPECT_EQ(r[4].at("status"), 200);
  EXPECT_EQ(r[3].at("task").at("retry_id"), r[4].at("task").at("retry_id"));
  EXPECT_EQ(body.at("created"), 1);
  EXPECT_EQ(body.at("same"), 2);
  EXPECT_EQ(body.at("failed"), 2);
  EXPECT_EQ(post("/v1/tasks", json::array({tasks[0]})).status, 200);
  tasks.push_back(tasks[0]);
  EXPECT_THAT(refused(post("/v1/tasks", tasks), 400), HasSubstr("1 to 1000"));
  EXPECT_THAT(refused(post("/v1/tasks", json::array()), 400), HasSubstr("1 to 1000"));
}

TEST_F(HttpSubmit, WhatTheDatabaseDoesNotTakeIsTold) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "20 MB read byte by byte: minutes with a sanitizer";
#endif
  listen(", max_body: 100");
  up();
  const auto most = std::stoul(db.value("SELECT @@max_allowed_packet"));
  ASSERT_LE(most, 90U << 20) << "tests/servers has a smaller one";
  const HttpAnswer answer =
      post("/v1/tasks", {{"queue", "q"}, {"delay", 1}, {"body", std::string(most, 'x')}});
  EXPECT_THAT(refused(answer, 413), HasSubstr("max_allowed_packet"));
}

TEST_F(HttpSubmit, WhileTheDatabaseIsAwayItAsksToComeAgain) {
  listen(", timeout: 2s");
  up();
  db.exec("LOCK TABLES `" + db.name() + "`.rung_tasks WRITE");
  const HttpAnswer answer = post("/v1/tasks", {{"queue", "q"}, {"delay", "1h"}, {"message_id", "later"}});
  EXPECT_THAT(refused(answer, 503), HasSubstr("the request may still take effect"));
  EXPECT_EQ(answer.header("retry-after"), "1");
  db.exec("UNLOCK TABLES");
  EXPECT_TRUE(eventually([&] {
    const int status = post("/v1/tasks", {{"queue", "q"}, {"delay", "1h"}, {"message_id", "later"}}).status;
    return status == 200 || status == 201;
  }));
  EXPECT_EQ(db.value("SELECT COUNT(*) FROM `" + db.name() + "`.retry_current"), "1");
}

}  // namespace
}  // namespace rung::test
