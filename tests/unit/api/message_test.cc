#include "src/api/base/message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "src/api/messages/messages.h"

namespace rung::api {
namespace {

Request request_of(std::string_view target) {
  Request request;
  read_target(target, request);
  return request;
}

TEST(Target, Queries) {
  EXPECT_EQ(
      request_of("/?message_id=a=b&queue=q1?x&&tag=a+b%26%3d&empty=&alone").query,
      (Pairs{{"message_id", "a=b"}, {"queue", "q1?x"}, {"tag", "a b&="}, {"empty", ""}, {"alone", ""}}));
  EXPECT_EQ(request_of("/?").query, Pairs{});
  for (const auto* text : {"?a=%", "?a=%4", "?a=%4g", "?%zz=1"})
    EXPECT_THROW(request_of(text), Problem) << text;
}

TEST(Target, Paths) {
  EXPECT_EQ(request_of("?a=1").path, "/");
  EXPECT_EQ(request_of("/v1/tasks/%35+").path, "/v1/tasks/5+");
  EXPECT_EQ(request_of("/%zz").path, "/%zz");
  EXPECT_EQ(request_of("/v1%2ftasks").path, "/v1%2ftasks") << "not a path separator";
  EXPECT_EQ(request_of("/v1%2Ftasks/%35").path, "/v1%2Ftasks/%35");
  // So a segment is decoded if the path is not, and only then.
  EXPECT_EQ(decode_segment("a%2Fb", Request{}), "a%2Fb");
  EXPECT_EQ(decode_segment("a%2fb%20c", request_of("/v1/queues/a%2fb%20c/pause")), "a/b c");
}

TEST(Target, Cookies) {
  EXPECT_EQ(cookie_named("a", "a=1"), "1");
  EXPECT_EQ(cookie_named("a", "b=2; a=1; c=3"), "1");
  EXPECT_EQ(cookie_named("a", "b=2;a=1=1"), "1=1");
  for (const auto* without : {"", ";", "; ", "b=a=1", "aa=1", "a", "A=1"})
    EXPECT_EQ(cookie_named("a", without), "") << without;
}

TEST(Target, HostIsANameOrAnAddress) {
  for (const auto* good : {"localhost", "localhost:80", "127.0.0.1:8025", "[::1]", "[::1]:8025",
                           "rung.example.", "my_host-1", "localhost:"})
    EXPECT_TRUE(is_host(good)) << good;
  for (const auto* bad :
       {"", "localhost:80@evil", "user@localhost", "localhost/x", "localhost:x", "localhost:123456", "[::1",
        "[::1]x", "[]", "a b", "a,b", ":80", "localhost?x", "local%68ost", "\xC3\xA4"})
    EXPECT_FALSE(is_host(bad)) << bad;
}

TEST(Problem, AnswersHoldNoControlOrFormatCharacter) {
  const Response response = answer(200, {{"message_id", "\x1b[2J\x7f\u009b\u202e\U000e0041"}});
  EXPECT_EQ(response.body, R"({"message_id":"\u001b[2J\u007f\u009b\u202e\udb40\udc41"})"
                           "\n");
}

TEST(Problem, Rfc9457) {
  const Response r =
      problem(Problem(FieldErrors{{"delay", "it is a duration"}, {"x", "no such"}}), "/v1/tasks");
  EXPECT_EQ(r.status, 400);
  EXPECT_EQ(r.type, "application/problem+json");
  const Json json = Json::parse(r.body);
  EXPECT_EQ(json.at("title"), "Bad Request");
  EXPECT_EQ(json.at("status"), 400);
  EXPECT_EQ(json.at("detail"), "delay: it is a duration (and 1 more, see errors)");
  EXPECT_EQ(json.at("instance"), "/v1/tasks");
  EXPECT_EQ(json.at("errors")[1].at("field"), "x");
  const Response away = problem(Problem(Error{Error::Kind::transient, "away"}), "/x");
  EXPECT_EQ(away.status, 503);
  EXPECT_EQ(away.headers, (Pairs{{"Retry-After", "1"}}));
  EXPECT_EQ(Problem(Error{Error::Kind::not_found, "x"}).status, 404);
  EXPECT_EQ(problem(Problem(Error{Error::Kind::permanent, "\xff"}), "/x").status, 500)
      << "also with broken UTF-8";
}

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::array<std::string_view, 1> kMarks = {"x-mark"};
constexpr std::array<std::string_view, 1> kMarkPrefixes = {"x-mark-"};
constexpr ReservedHeaders kMarked{kMarks, kMarkPrefixes};

Message typed(const std::string& body, const std::string& type, const std::string& encoding = "") {
  Message message;
  message.body = body;
  if (!type.empty()) message.properties.content_type = type;
  if (!encoding.empty()) message.properties.content_encoding = encoding;
  return message;
}

Original original(const Message& message) {
  Original out;
  out.message = std::make_shared<Message>(message);
  out.row.task.id = {7};
  out.row.task.body_bytes = static_cast<std::int64_t>(message.body.size());
  return out;
}

std::string error_of(const Original& from, const Changes& changes) {
  FieldErrors errors;
  const MessagePtr edited = edited_message(from, changes, kMarked, errors);
  EXPECT_EQ(edited == nullptr, !errors.empty());
  return errors.empty() ? "" : errors.front().field + ": " + errors.front().detail;
}

Changes changes(const std::string& text) {
  const Json json = Json::parse(text);
  FieldErrors errors;
  Fields fields(json, "", errors);
  Changes read = read_changes(fields);
  fields.finish();
  for (const FieldError& e : errors) ADD_FAILURE() << e.field << ": " << e.detail;
  return read;
}

TEST(Edit, WhereItIsNotJson) {
  const auto where = [](const std::string& body) { return why_not_json(typed(body, "application/json")); };
  for (const char* good : {"{}", "[1, null]", " \"text\" ", "5", "{\"a\":{\"a\":[]}}"})
    EXPECT_EQ(where(good), "");
  EXPECT_THAT(where(""), StartsWith("line 1, column 1:"));
  EXPECT_THAT(where("{\n  \"a\": 1,\n  }\n"), StartsWith("line 3, column 3:"));
  EXPECT_THAT(where("{} {}"), StartsWith("line 1, column 4:"));
  EXPECT_THAT(where("\"\xff\""), StartsWith("line 1, column 2:"));
  EXPECT_THAT(where(std::string(1'000'000, '[')), StartsWith("line 1,")) << "deep: no recursion";
}

TEST(Edit, TheContentTypeSaysWhetherABodyMustBeJson) {
  for (const char* type : {"application/json", "Application/JSON; charset=utf-8", "application/problem+json",
                           "application/json ; charset=\"UTF-8\""})
    EXPECT_THAT(why_not_json(typed("{", type)), HasSubstr("line 1, column 2: not JSON")) << type;
  for (const char* type : {"", "text/plain", "application/jsonl", "application/json; charset=utf-16"})
    EXPECT_EQ(why_not_json(typed("{", type)), "") << type;
  EXPECT_EQ(why_not_json(typed("\x1f\x8b", "application/json", "gzip")), "") << "compressed";
  EXPECT_NE(why_not_json(typed("{", "application/json", "utf-8")), "");
}

TEST(Edit, HeadersAreSetAndUnset) {
  Message message = typed("b", "");
  message.headers = Table{{"a", 1}, {"b", 2}};
  FieldErrors errors;
  const MessagePtr edited = edited_message(
      original(message), changes(R"({"set_headers":{"b":3,"c":{"!i32":4}},"unset_headers":["a"]})"), kMarked,
      errors);
  ASSERT_NE(edited, nullptr);
  EXPECT_EQ(edited->headers, (Table{{"b", std::int64_t{3}}, {"c", std::int32_t{4}}}));
  EXPECT_EQ(edited->body, "b");
}

TEST(Edit, ReservedHeadersAreRefusedByName) {
  Message message = typed("b", "");
  message.headers = Table{{"x-mark", 1}, {"a", 1}};
  const Original from = original(message);
  for (const char* name : {"retry-id", "retry-never", "x-mark", "x-mark-2"}) {
    const std::string quoted = "'" + std::string(name) + "' is reserved";
    EXPECT_EQ(error_of(from, {{}, {{name, 5}}}).find("set_headers: " + quoted), 0U) << name;
    EXPECT_EQ(error_of(from, {{}, {}, {name}}).find("unset_headers: " + quoted), 0U) << name;
  }
  EXPECT_EQ(error_of(from, {{}, {{"a", 2}}}), "") << "it stays as it was";
}

TEST(Edit, WhatIsWrongIsSaid) {
  const Original from = original(typed("b", ""));
  EXPECT_THAT(error_of(from, {}), HasSubstr("nothing would change"));
  EXPECT_THAT(error_of(from, {"b"}), HasSubstr("nothing would change"));
  EXPECT_EQ(error_of(from, {"c"}), "");
  EXPECT_THAT(error_of(from, {{}, {}, {"a"}}), HasSubstr("no header 'a'; it has none"));
  EXPECT_THAT(error_of(from, {{}, {{"a", 1}}, {"a"}}), HasSubstr("in set_headers, too"));
  EXPECT_THAT(error_of(from, {{}, {{std::string(256, 'n'), 1}}}), HasSubstr("longer than 255 bytes"));
  Table many;
  for (int i = 0; i < 257; ++i) many.emplace_back("h" + std::to_string(i), 1);
  EXPECT_THAT(error_of(from, {{}, many}), HasSubstr("more than 256 headers"));
  Original without = from;
  without.row.task.body_bytes = 70'000'000;  // the intake could not store it
  EXPECT_THAT(error_of(without, {{}, {{"a", 1}}}), HasSubstr("the database has no body of this message"));
  EXPECT_EQ(error_of(without, {"c"}), "");
}

}  // namespace
}  // namespace rung::api
