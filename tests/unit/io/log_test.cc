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
    warn("broker unavailable", {{"reason", "connection refused\nby peer"}, {"tries", 3}});
  });
  EXPECT_NE(line.find("warn  broker unavailable reason=\"connection refused\\nby peer\" tries=3\n"),
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

// Text from a message must not affect the terminal of a person who reads the log.
TEST(Log, NoControlOrFormatCharacterIsWritten) {
  const std::string parts[] = {
      "\x1b[2J",      "\x7f",         "\xC2\x9B",     "\xC2\xAD",         "\xD8\x9C",
      "\xE2\x80\x8B", "\xE2\x80\x8E", "\xE2\x80\xA8", "\xE2\x80\xA9",     "\xE2\x80\xAE",
      "\xE2\x81\xA0", "\xE2\x81\xA9", "\xEF\xBB\xBF", "\xF3\xA0\x81\x81", "\r"};
  for (const std::string& part : parts) {
    for (const auto* format : {"text", "json"}) {
      const std::string line = written(format, [&] {
        info("parked", {{"message_id", part}, {"error", "a" + part + "\xff"}});
      });
      EXPECT_EQ(line.find(part), std::string::npos) << format << ": " << line;
      EXPECT_TRUE(
          std::ranges::none_of(line, [](char b) { return (b >= 0 && b < ' ' && b != '\n') || b == 0x7f; }));
      const auto json = nlohmann::json::parse(line, nullptr, false);
      EXPECT_TRUE(format == std::string("text") || json["message_id"] == part) << line;
    }
  }
  EXPECT_NE(written("text",
                    [] {
                      info("x", {{"queue",
                                  "gr\xC3\xBC\xC3\x9F"
                                  "e"},
                                 {"path", "a\"b"}});
                    })
                .find("queue=gr\xC3\xBC\xC3\x9F"
                      "e path=\"a\\\"b\""),
            std::string::npos)
      << "what is harmless stays as it is";
}

}  // namespace
}  // namespace rung::log
