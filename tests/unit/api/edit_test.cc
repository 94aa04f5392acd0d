#include <gmock/gmock.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "src/api/messages/messages.h"

namespace rung::api {
namespace {

using ::testing::HasSubstr;

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
  for (const char* good : {"{}", "[1, null]", " \"text\" ", "5", "{\"a\":{\"a\":[]}}"})
    EXPECT_EQ(where_not_json(good), "");
  EXPECT_EQ(where_not_json(""), "line 1, column 1");
  EXPECT_EQ(where_not_json("{"), "line 1, column 2");
  EXPECT_EQ(where_not_json("{\n  \"a\": 1,\n  }\n"), "line 3, column 3");
  EXPECT_EQ(where_not_json("{} {}"), "line 1, column 4");
  EXPECT_EQ(where_not_json("\"\xff\""), "line 1, column 2");
  EXPECT_EQ(where_not_json(std::string(1'000'000, '[')).substr(0, 7), "line 1,") << "deep: no recursion";
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
