#include "src/io/log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

namespace rung::log {
namespace {

std::string written(std::string_view format, const std::function<void()>& log) {
  configure("info", format);
  testing::internal::CaptureStderr();
  log();
  return testing::internal::GetCapturedStderr();
}

TEST(Log, TextIsOneLineAnEventOfKeysAndValues) {
  const std::string line = written("text", [] {
    warn("the broker is away", {{"reason", "connection refused\nby peer"}, {"tries", 3}});
  });
  EXPECT_NE(line.find("warn  the broker is away reason=\"connection refused\\nby peer\" tries=3\n"),
            std::string::npos)
      << line;
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
}

TEST(Log, JsonParsesWhateverTheValuesHold) {
  const std::string line = written("json", [] {
    info("parked", {{"queue", "a \"b\" \xFF"}, {"id", 4711}, {"again", true}});
  });
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json["event"], "parked");
  EXPECT_EQ(json["level"], "info");
  EXPECT_EQ(json["id"], 4711);
  EXPECT_EQ(json["again"], true);
  EXPECT_EQ(json["queue"], "a \"b\" \xEF\xBF\xBD");
}

TEST(Log, WhatIsBelowTheLevelIsNotWritten) {
  EXPECT_EQ(written("text", [] { debug("quiet"); }), "");
}

}  // namespace
}  // namespace rung::log
