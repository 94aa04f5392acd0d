#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "src/api/base/message.h"

namespace rung::api {
namespace {

TEST(Fields, ReadWhatIsThere) {
  const Json json = Json::parse(
      R"({"t": "x", "n": 5, "d": "1h30m", "ms": 250, "b": true, "f": 0.5, "at": "2026-11-21T17:05:00Z",
          "null": null, "s": {"reported_within": 1000}, "queue": "q"})");
  FieldErrors errors;
  Fields fields(json, "", errors);
  EXPECT_EQ(fields.text("t", 1), "x");
  EXPECT_EQ(fields.integer("n", 0, 5), 5);
  EXPECT_EQ(fields.duration("d", Ms{0}), Ms{5'400'000});
  EXPECT_EQ(fields.duration("ms", Ms{0}), Ms{250});
  EXPECT_EQ(fields.flag("b"), true);
  EXPECT_EQ(fields.number("f", 0, 1), 0.5);
  EXPECT_EQ(fields.time("at"), EpochMs{1'795'280'700'000});
  EXPECT_EQ(fields.text("null", 5), std::nullopt) << "null is as if it were not there";
  EXPECT_EQ(fields.text("absent", 5), std::nullopt);
  EXPECT_EQ(fields.silence("s"), (Silence{Silence::Means::failure, Ms{1000}}));
  EXPECT_EQ(fields.target(TargetRules{}), (Target{"q", "", ""}));
  fields.finish();
  EXPECT_EQ(errors, FieldErrors{});
}

TEST(Fields, TellEachMistakeUnderItsName) {
  const Json json = Json::parse(
      R"({"t": 5, "long": "abc", "n": 6, "neg": -1, "big": 18446744073709551615, "d": "soon", "b": "true", "f": "1",
          "at": "x", "nul": "a\u0000b", "more": 1})");
  FieldErrors errors;
  Fields fields(json, "tasks[3].", errors);
  fields.text("t", 5);
  fields.text("long", 2);
  fields.integer("n", 0, 5);
  fields.integer("neg", 0, 5);
  fields.integer("big", 0, 5);
  fields.duration("d", Ms{0});
  fields.flag("b");
  fields.number("f", 0, 1);
  fields.time("at");
  fields.name("nul");
  fields.finish();
  std::string names;
  for (const FieldError& e : errors) names += e.field + " ";
  EXPECT_EQ(names,
            "tasks[3].more tasks[3].t tasks[3].long tasks[3].n tasks[3].neg tasks[3].big tasks[3].d "
            "tasks[3].b tasks[3].f "
            "tasks[3].at tasks[3].nul ");
  EXPECT_EQ(errors.front().detail, "unknown field; known fields: t, long, n, neg, big, d, b, f, at, nul");
}

TEST(Json, DeepAndBrokenTextsAreErrors) {
  EXPECT_TRUE(parse_json("{\"a\": \"[[[[\\\"[[[[\"}"));
  EXPECT_TRUE(parse_json(std::string(100, '[') + std::string(100, ']')));
  const auto deep = parse_json(std::string(101, '[') + std::string(101, ']'));
  ASSERT_FALSE(deep);
  EXPECT_EQ(deep.error().message, "the JSON is nested deeper than 100 levels");
  for (const auto* text : {"", "{", "{\"a\":}", "nul", "\"\xff\"", "1 2", "\"\\ud800\""})
    EXPECT_FALSE(parse_json(text)) << text;
}

TEST(Json, AKeyTwiceIsNoSilentDefault) {
  for (const auto* text : {R"({"a": 1, "a": 2})", R"([{"b": {"x": 1, "y": 2, "x": 1}}])"}) {
    const auto read = parse_json(text);
    ASSERT_FALSE(read) << text;
    EXPECT_TRUE(read.error().message.ends_with("in one object")) << read.error().message;
  }
  const auto read = parse_json(R"({"b": [1, -2, 2.5, "x", null, true, {}], "a": {"b": {"a": []}}})");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->dump(), R"({"b":[1,-2,2.5,"x",null,true,{}],"a":{"b":{"a":[]}}})") << "in its own order";
  EXPECT_EQ(parse_json("5")->dump(), "5");
}

TEST(Json, ANumberOfABodyIsKeptOrRefused) {
  const std::string large = "18446744073709551617", long_one(30, '7');
  for (const std::string& lost :
       {large, long_one, std::string("1.10"), std::string("1e2"), std::string("0.1000000000000000055")}) {
    for (const std::string& text : {R"({"body": )" + lost + "}", R"({"body": {"a": [1, )" + lost + "]}}",
                                    R"([{"queue": "q"}, {"queue": "q", "body": [)" + lost + "]}]"}) {
      const auto read = parse_json(text);
      ASSERT_FALSE(read) << text;
      EXPECT_EQ(read.error().message, "the number " + shown(lost) +
                                          " cannot be kept as it is written: send it as a string, or the "
                                          "body as a string (its JSON as text) or as body_base64");
    }
  }
  for (const std::string kept : {"18446744073709551615", "-9223372036854775808", "1.1", "0.5", "-2.0"})
    EXPECT_EQ(parse_json(R"({"body": {"a": )" + kept + "}}")->dump(), R"({"body":{"a":)" + kept + "}}");
  // Elsewhere a number is a number.
  EXPECT_TRUE(parse_json(R"({"body": {}, "headers": {"x": 1.10}, "delay": 1e3})"));
  EXPECT_FALSE(parse_json(R"({"headers": {"x": )" + large + "}}"));
}

TEST(Json, ManyKeysAreReadInATimeThatGrowsWithThem) {
  // Of so many keys each looked for among all others nobody would see the end.
  std::string text = "{";
  for (int i = 0; i < 100'000; ++i) text += "\"" + std::to_string(i) + "\":0,";
  text.back() = '}';
  const auto read = parse_json(text);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->size(), 100'000U);
  FieldErrors errors;
  Fields fields(*read, "", errors);
  fields.text("t", 5);
  fields.finish();
  EXPECT_EQ(errors.size(), kMostTold);
}

}  // namespace
}  // namespace rung::api
