// Messages as JSON text: exact in both directions; any other input is rejected.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "src/core/base/utf8.h"
#include "src/core/message/message.h"
#include "tests/fuzz/values.h"

namespace rung {
namespace {

using fuzz::same;

void expect_exact(const Table& table) {
  const std::string text = headers_to_json(table);
  EXPECT_TRUE(is_utf8(text));
  const auto back = headers_from_json(text);
  ASSERT_TRUE(back) << back.error().message << " in " << text;
  EXPECT_TRUE(same(*back, table)) << text << "\n" << headers_to_json(*back);
}
void expect_exact(Value value) { expect_exact(Table{{"v", std::move(value)}}); }

template <typename T>
void expect_exact_limits() {
  for (const T x : {std::numeric_limits<T>::min(), std::numeric_limits<T>::lowest(),
                    std::numeric_limits<T>::max(), T{0}, T{1}}) {
    expect_exact(Value{x});
  }
}

TEST(MessageJson, EveryType) {
  expect_exact(Value{});
  expect_exact(true);
  expect_exact(false);
  expect_exact_limits<std::int8_t>();
  expect_exact_limits<std::uint8_t>();
  expect_exact_limits<std::int16_t>();
  expect_exact_limits<std::uint16_t>();
  expect_exact_limits<std::int32_t>();
  expect_exact_limits<std::uint32_t>();
  expect_exact_limits<std::int64_t>();
  expect_exact_limits<std::uint64_t>();
  expect_exact_limits<float>();
  expect_exact_limits<double>();
  expect_exact(Decimal{255, std::numeric_limits<std::int32_t>::min()});
  expect_exact(Timestamp{std::numeric_limits<std::uint64_t>::max()});
  expect_exact(Bytes{std::string("\0\xFF", 2)});
  expect_exact(Bytes{});
  expect_exact("");
  expect_exact("text \" \\ \n \x01 \x7F ö €  \U0001F600");
  expect_exact(std::string("a\0b", 3));
  expect_exact("\xFF not utf-8");
  expect_exact(Array{});
  expect_exact(Table{});
  expect_exact(Table{{"", ""}});
}

TEST(MessageJson, NumbersThatJsonHasNoWordFor) {
  for (const double x : {0.0, -0.0, 0.1, 1.0 / 3.0, 5.0, 1e300, 5e-324, std::nextafter(1.0, 2.0),
                         std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::quiet_NaN(),
                         std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()}) {
    expect_exact(x);
    expect_exact(static_cast<float>(x));
  }
  expect_exact(std::bit_cast<double>(0x7FF8'0000'DEAD'BEEFull));
  expect_exact(std::bit_cast<float>(0x7FC0'BEEFu));
}

TEST(MessageJson, KeysThatAnObjectCannotHold) {
  expect_exact(Table{{"a", 1}, {"a", 2}});
  expect_exact(Table{{"a", 1}, {"b", Table{{"k", 1}, {"k", 1}}}});
  expect_exact(Table{{"!i32", 5}});
  expect_exact(Table{{"!i32", 5}, {"x", 1}});
  expect_exact(Table{{"!table", Array{Array{"k", "v"}}}});
  expect_exact(Table{{"!", 1}});
  expect_exact(Table{{"\xFF", 1}});
  expect_exact(Table{{std::string("\0", 1), 1}});
  expect_exact(Array{Table{{"!S", "ff"}}, Table{{"!bytes", "ff"}}});
}

TEST(MessageJson, ReadsAsTheHeaderSays) {
  const Table t = {{"n", std::int64_t{5}}, {"i", std::int32_t{5}},     {"s", "text"},
                   {"t", Timestamp{7}},    {"b", Bytes{"\x01\xAB"}},   {"d", Decimal{2, 314}},
                   {"x", "\xFF"},          {"a", Array{true, Value{}}}};
  EXPECT_EQ(headers_to_json(t),
            R"({"n":5,"i":{"!i32":5},"s":"text","t":{"!ts":7},"b":{"!bytes":"01ab"},"d":{"!dec":[2,314]},)"
            R"("x":{"!S":"ff"},"a":[true,null]})");
  EXPECT_EQ(headers_to_json({{"k", std::int64_t{1}}, {"k", std::int64_t{2}}}),
            R"({"!table":[["k",1],["k",2]]})");
}

TEST(MessageJson, EveryProperty) {
  Properties p;
  int number = 0;
  for (auto* field : {&p.content_type, &p.content_encoding, &p.correlation_id, &p.reply_to, &p.expiration,
                      &p.message_id, &p.type, &p.user_id, &p.app_id, &p.cluster_id})
    *field = "\xFF" + std::to_string(++number);
  p.delivery_mode = std::uint8_t{2};
  p.priority = std::uint8_t{255};
  p.timestamp = std::numeric_limits<std::uint64_t>::max();
  const auto back = properties_from_json(properties_to_json(p));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(*back, p);
  EXPECT_EQ(properties_to_json({}), "{}");
}

// ---- hostile text

TEST(MessageJson, HostileTextIsAnErrorAndNoException) {
  const std::vector<std::string_view> hostile = {"",
                                                 " ",
                                                 "{",
                                                 "}",
                                                 "nul",
                                                 "null",
                                                 "5",
                                                 "\"text\"",
                                                 "true",
                                                 "[]",
                                                 "[1,2]",
                                                 "[[\"a\",1]]",
                                                 "{\"a\":}",
                                                 "{\"a\":1}x",
                                                 "\xFF",
                                                 "{\"a\":\"\xFF\"}",
                                                 "{\"a\":1e999}",
                                                 R"({"a":{"!i8":128}})",
                                                 R"({"a":{"!i8":-129}})",
                                                 R"({"a":{"!u8":-1}})",
                                                 R"({"a":{"!u8":1.5}})",
                                                 R"({"a":{"!u8":true}})",
                                                 R"({"a":{"!u64":-1}})",
                                                 R"({"a":{"!i32":"5"}})",
                                                 R"({"a":{"!i32":null}})",
                                                 R"({"a":18446744073709551615})",
                                                 R"({"a":{"!ts":-1}})",
                                                 R"({"a":{"!dec":5}})",
                                                 R"({"a":{"!dec":[]}})",
                                                 R"({"a":{"!dec":[1]}})",
                                                 R"({"a":{"!dec":[256,1]}})",
                                                 R"({"a":{"!S":"f"}})",
                                                 R"({"a":{"!S":"zz"}})",
                                                 R"({"a":{"!S":5}})",
                                                 R"({"a":{"!bytes":"FF"}})",
                                                 R"({"a":{"!bytes":["ff"]}})",
                                                 R"({"a":{"!new":1}})",
                                                 R"({"a":{"!":1}})",
                                                 R"({"!table":5})",
                                                 R"({"!table":{"a":1}})",
                                                 R"({"!table":[5]})",
                                                 R"({"!table":[["k"]]})",
                                                 R"({"!table":[[5,1]]})",
                                                 R"({"!table":[[{"!S":5},1]]})",
                                                 R"({"!table":[[{"S":"ff"},1]]})",
                                                 R"({"a":{"!f32":"x"}})",
                                                 R"({"a":{"!f32bits":-1}})",
                                                 std::string_view("\0", 1)};
  for (const std::string_view text : hostile) {
    const auto headers = headers_from_json(text);
    EXPECT_FALSE(headers) << text;
    if (!headers) {
      EXPECT_EQ(headers.error().kind, Error::Kind::permanent) << text;
      EXPECT_NE(headers.error().message, "") << text;
    }
  }
  for (const char* text : {"", "5", "[]", "null", R"({"priority":256})", R"({"priority":"9"})",
                           R"({"priority":true})", R"({"timestamp":-1})", R"({"type":5})", R"({"type":{}})",
                           R"({"type":{"!S":"f"}})", R"({"type":null})"}) {
    EXPECT_FALSE(properties_from_json(text)) << text;
  }
  EXPECT_TRUE(properties_from_json(R"({"of a later version":1})"));
}

// ---- depth

Table nested(int levels, bool arrays) {
  Table t = {{"bottom", 1}};
  for (int i = 1; i < levels; ++i) {
    Value inner = arrays && i % 2 == 0 ? Value{Array{Value{std::move(t)}}} : Value{std::move(t)};
    if (arrays && i % 2 == 0) ++i;
    t = Table{};
    t.emplace_back("in", std::move(inner));
  }
  return t;
}

TEST(MessageJson, DeeperIsLeftOutAndSaysSo) {
  const Table t = nested(kDeepestNesting + 1, false);
  const auto back = headers_from_json(headers_to_json(t));
  ASSERT_TRUE(back);
  const Table* at = &*back;
  for (int i = 1; i < kDeepestNesting; ++i) at = &std::get<Table>(at->front().second.v);
  EXPECT_EQ(at->front().second, Value{kTooDeep.data()});
  EXPECT_EQ(at->front().first, "in");

  Array a;
  for (int i = 0; i < kDeepestNesting + 5; ++i) a = Array{Value{std::move(a)}};
  EXPECT_NE(headers_to_json({{"a", a}}).find(kTooDeep), std::string::npos);
}

// 26,000 levels are what a frame of 128 KB holds. Here as text only: a Value of that depth is not to be made.
TEST(MessageJson, TextOfAnyDepthDoesNotOverflowTheStack) {
  for (const int levels : {kDeepestNesting + 1, 1000, 26'000, 60'000}) {
    std::string arrays = "{\"a\":", tables;
    for (int i = 0; i < levels; ++i) {
      arrays += '[';
      tables += "{\"a\":";
    }
    tables += '1';
    for (int i = 0; i < levels; ++i) {
      arrays += ']';
      tables += '}';
    }
    arrays += '}';
    EXPECT_FALSE(headers_from_json(arrays)) << levels;
    EXPECT_FALSE(headers_from_json(tables)) << levels;
  }
}

// The JSON library looks through all keys at each one: as an object this took half a second (with sanitizers,
// 40).
TEST(MessageJson, ManyHeadersStandAsPairs) {
  Table few, many;
  for (int i = 0; i < 64; ++i) few.emplace_back("k" + std::to_string(i), Value{});
  for (int i = 0; i < 30'000; ++i) many.emplace_back("k" + std::to_string(i), Value{i});
  EXPECT_TRUE(headers_to_json(few).starts_with(R"({"k0":null,)"));
  few.emplace_back("one more", Value{});
  EXPECT_TRUE(headers_to_json(few).starts_with(R"({"!table":[["k0",null],)"));
  for (const Table& t : {few, many, Table{{"inner", many}}}) {
    const auto back = headers_from_json(headers_to_json(t));
    ASSERT_TRUE(back);
    EXPECT_TRUE(same(*back, t));
  }
}

}  // namespace
}  // namespace rung
