// traceparent and tracestate, by the rules of the W3C.
#include <gtest/gtest.h>

#include <string>

#include "src/otel/span.h"

namespace rung::otel {
namespace {

const std::string kValid = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

std::string with(std::size_t at, const std::string& part) {
  std::string text = kValid;
  return text.replace(at, part.size(), part);
}

Message message(Table headers) { return {{}, std::move(headers), "body"}; }

TEST(Traceparent, Valid) {
  const auto parsed = parse_traceparent(kValid);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->trace, "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(parsed->span, "b7ad6b7169203331");
  EXPECT_TRUE(parse_traceparent(with(53, "00"))) << "not sampled is still an origin";
  EXPECT_TRUE(parse_traceparent(with(0, "cc"))) << "a later version";
  EXPECT_TRUE(parse_traceparent(with(0, "cc") + "-more"));
}

TEST(Traceparent, Invalid) {
  for (const std::string& text :
       {std::string(), kValid.substr(0, 54), kValid + "-", kValid + "0", with(0, "ff"), with(0, "cc") + "x",
        with(0, "0g"), with(2, "_"), with(35, "_"), with(52, "_"), with(53, "0A"), with(3, "0A"),
        with(3, std::string(32, '0')), with(36, std::string(16, '0')), with(36, " "), " " + kValid,
        kValid.substr(0, 54) + "\0"})
    EXPECT_FALSE(parse_traceparent(text)) << text;
}

TEST(OriginOfAMessage, FromItsHeaders) {
  EXPECT_FALSE(origin_of({{}, std::nullopt, "body"}));
  EXPECT_FALSE(origin_of(message({{"tracestate", "a=1"}}))) << "a state without a parent";
  EXPECT_FALSE(origin_of(message({{"traceparent", std::int32_t{7}}})));
  EXPECT_FALSE(origin_of(message({{"traceparent", "nonsense"}, {"tracestate", "a=1"}})));
  const auto plain = origin_of(message({{"x", "y"}, {"traceparent", kValid}}));
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->state, "");
  const auto stateful = origin_of(message({{"traceparent", Bytes{kValid}}, {"tracestate", "a=1,b@c=2"}}));
  ASSERT_TRUE(stateful);
  EXPECT_EQ(stateful->state, "a=1,b@c=2");
}

TEST(OriginOfAMessage, AnInvalidStateIsLeftOut) {
  for (const Value& state : {Value("a=\xff"), Value("a=1\n"), Value(std::string(513, 'a')), Value(true)}) {
    const auto origin = origin_of(message({{"traceparent", kValid}, {"tracestate", state}}));
    ASSERT_TRUE(origin);
    EXPECT_EQ(origin->state, "");
  }
}

}  // namespace
}  // namespace rung::otel
