#include "src/io/log.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
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

// The journal reads the priority from the line's beginning: journalctl -p warning finds it.
TEST(Log, LinesToTheJournalBeginWithTheirPriority) {
  const auto to_journal = [](bool ours) {
    struct stat now {};
    fstat(STDERR_FILENO, &now);
    setenv("JOURNAL_STREAM",
           (std::to_string(now.st_dev) + ":" + std::to_string(now.st_ino + (ours ? 0 : 1))).c_str(), 1);
    configure("info", "text");
    info("started");
    warn("trouble");
    error("worse");
    std::exit(0);
  };
  EXPECT_EXIT(to_journal(true), testing::ExitedWithCode(0),
              "^<6>.* info  started\n<4>.* warn  trouble\n<3>.* error worse");
  EXPECT_EXIT(to_journal(false), testing::ExitedWithCode(0), "^20.* info  started\n20") << "another stream";
}

TEST(Log, TheLinesOfOneEventAreLimited) {
  const std::string lines = written("text", [] {
    for (int i = 0; i < 1'000; ++i) warn("flood", {{"number", i}});
    warn("another event");
    write_suppressed();
    write_suppressed();  // nothing is left
  });
  EXPECT_EQ(std::ranges::count(lines, '\n'), static_cast<std::ptrdiff_t>(LogLimit::kMostLines) + 2)
      << lines.substr(0, 500);
  EXPECT_NE(lines.find("another event"), std::string::npos);
  EXPECT_NE(lines.find("log lines suppressed of=flood lines=700\n"), std::string::npos)
      << lines.substr(lines.size() - 500);
}

TEST(LogLimit, SaysHowManyItSuppressedOnceTheWindowIsOver) {
  using namespace std::chrono_literals;
  LogLimit limit;
  const LogLimit::Time start{};
  for (std::uint64_t i = 0; i < LogLimit::kMostLines; ++i) EXPECT_TRUE(limit.admit("flood", start));
  EXPECT_FALSE(limit.admit("flood", start + 1s));
  EXPECT_FALSE(limit.admit("flood", start + 59s));
  EXPECT_TRUE(limit.admit("calm", start + 30s));
  EXPECT_TRUE(limit.take_suppressed(start + 59s).empty());
  const auto told = limit.take_suppressed(start + 60s);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].event, "flood");
  EXPECT_EQ(told[0].lines, 2U);
  EXPECT_TRUE(limit.admit("flood", start + 60s));
  EXPECT_TRUE(limit.take_suppressed(start + 200s).empty()) << "told twice";
}

}  // namespace
}  // namespace rung::log
