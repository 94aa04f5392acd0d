// By which value rate_by limits a message: whatever its header is.
#include <gtest/gtest.h>

#include "src/core/rules/gate_rules.h"
#include "src/core/rules/policy.h"

namespace rung {
namespace {

std::string value_of(Value value) {
  Message message;
  message.headers = Table{{"tenant", std::move(value)}};
  return rate_value(message, "tenant");
}

TEST(RateValue, IsTextForEveryKindOfValue) {
  EXPECT_EQ(value_of("acme"), "acme");
  EXPECT_EQ(value_of(Bytes{"acme"}), "acme") << "a client that sends text as bytes";
  EXPECT_EQ(value_of(true), "true");
  EXPECT_EQ(value_of(std::int8_t{-5}), "-5");
  EXPECT_EQ(value_of(std::uint64_t{18'446'744'073'709'551'615U}), "18446744073709551615");
  EXPECT_EQ(value_of(5.0), "5");
  EXPECT_EQ(value_of(1.5F), "1.5");
  EXPECT_EQ(value_of(Decimal{2, 150}), "1.5");
  EXPECT_EQ(value_of(Decimal{2, -5}), "-0.05");
  EXPECT_EQ(value_of(Decimal{0, 100}), "100");
  EXPECT_EQ(value_of(Decimal{3, 0}), "0");
  EXPECT_EQ(value_of(Timestamp{1'700'000'000}), "1700000000");
}

TEST(RateValue, IsADigestForWhatIsNoTextOrTooLong) {
  const std::string most(255, 'v');
  EXPECT_EQ(value_of(most), most);
  for (const Value& odd : {Value(most + "1"), Value(most + "2"), Value(std::string("\xff")),
                           Value(Bytes{"\xfe"}), Value(std::string("a\0b", 3)), Value(Table{{"a", 1}}),
                           Value(Table{}), Value(Array{Value(1)}), Value(Decimal{255, 1})}) {
    const std::string value = value_of(odd);
    EXPECT_TRUE(is_digest(value)) << value;
    EXPECT_EQ(value.size(), 71U);
  }
  EXPECT_NE(value_of(most + "1"), value_of(most + "2"));
  EXPECT_NE(value_of(Table{{"a", 1}}), value_of(Table{{"a", 2}}));
  EXPECT_EQ(value_of(Table{{"a", 1}}), value_of(Table{{"a", 1}}));
}

TEST(RateValue, IsNoneWithoutAValue) {
  EXPECT_EQ(rate_value(Message{}, "tenant"), "");
  for (const Value& none : {Value(), Value(""), Value(Bytes{})}) EXPECT_EQ(value_of(none), "");
}

TEST(RateValue, IsStoredBesideWhatRulesSee) {
  QueueRules orders;
  orders.gate.rate_by = RateBy{"tenant", 5};
  const RuleBook rules({{"default", levels::Ladder::from_list({Ms{1000}}).value()}}, {{"orders", orders}}, {},
                       {});
  const auto stored = [&](Value value) {
    Message message;
    message.headers = Table{{"tenant", std::move(value)}};
    return rule_headers_of(message, rules);
  };
  EXPECT_EQ(stored("acme"), (RuleHeaders{{"tenant", "acme"}}));
  EXPECT_EQ(rate_value(stored("acme"), "tenant"), "acme");
  const std::string longer(300, 'v');
  EXPECT_EQ(stored(longer).at("tenant"), longer.substr(0, 255));
  EXPECT_EQ(rate_value(stored(longer), "tenant"), value_of(longer));
  EXPECT_EQ(rate_value(stored(Table{}), "tenant"), value_of(Table{}));
  EXPECT_FALSE(stored(Table{}).contains("tenant"));
  EXPECT_EQ(rate_value(stored(""), "tenant"), "");
  EXPECT_TRUE(stored("").empty());
}

}  // namespace
}  // namespace rung
