#include "src/core/rules/error_pattern.h"

#include <gtest/gtest.h>

namespace rung {
namespace {

TEST(ErrorPattern, IsWhatStandsBetweenSlashes) {
  for (const char* one : {"/x/", "/x/i", "/HTTP 5../"}) EXPECT_TRUE(ErrorPattern::is_one(one)) << one;
  for (const char* text : {"", "/", "//", "x", "/var/log", "x/", "/x/g", "a/b/"})
    EXPECT_FALSE(ErrorPattern::is_one(text)) << text;
}

TEST(ErrorPattern, MatchesAnywhereAndAcrossLines) {
  EXPECT_TRUE((*ErrorPattern::parse("/a.c/"))->matches("xx a\nc yy"));
  EXPECT_FALSE((*ErrorPattern::parse("/A/"))->matches("a"));
  EXPECT_TRUE((*ErrorPattern::parse("/A/i"))->matches("a"));
  EXPECT_TRUE((*ErrorPattern::parse("/^$/"))->matches(""));
  EXPECT_EQ((*ErrorPattern::parse("/a.c/i"))->text(), "/a.c/i");
}

TEST(ErrorPattern, WhatIsWrongIsSaid) {
  for (const char* wrong : {"/(/", "//", "/a", "/a/x", "/(?=a)/", "/\\pL{0,900}/"})
    EXPECT_FALSE(ErrorPattern::parse(wrong)) << wrong;
  EXPECT_FALSE(ErrorPattern::parse("/" + std::string(1000, 'a') + "/"));
}

// In an engine that backtracks this takes hours.
TEST(ErrorPattern, TakesLinearTime) {
  const auto pattern = ErrorPattern::parse("/^((a+)+)+$/");
  ASSERT_TRUE(pattern);
  EXPECT_FALSE((*pattern)->matches(std::string(8000, 'a') + "b"));
}

}  // namespace
}  // namespace rung
