#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "src/otel/exporter.h"

namespace rung::otel {
namespace {

struct StillClock final : Clock {
  BootUs boot_us() const override { return {now.ms * 1000}; }
  EpochMs wall() const override { return {}; }
  BootMs now{1'000'000};
};

constexpr std::string_view kAway = "collector away", kRefuses = "collector refuses";

std::string written(const std::function<void()>& log) {
  testing::internal::CaptureStderr();
  log();
  return testing::internal::GetCapturedStderr();
}

std::ptrdiff_t lines(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

TEST(CollectorLog, OneWarningAndOneLineWhenItIsBack) {
  StillClock clock;
  CollectorLog log("http://collector:4318", &clock);
  const std::string text = written([&] {
    log.accepting(0);
    for (int i = 0; i < 100; ++i) {
      log.failing(kAway, "is not reachable", i);
      clock.now = clock.now + Ms{10'000};
    }
    log.accepting(120);
    log.accepting(120);
  });
  EXPECT_EQ(lines(text), 2) << text;
  EXPECT_NE(
      text.find(
          "warn  collector away collector=http://collector:4318 reason=\"is not reachable\" dropped=0\n"),
      std::string::npos)
      << text;
  EXPECT_NE(
      text.find("info  trace collector accepts spans again collector=http://collector:4318 dropped=120\n"),
      std::string::npos)
      << text;
}

TEST(CollectorLog, ACollectorThatComesAndGoesIsAWarningAMinute) {
  StillClock clock;
  CollectorLog log("http://collector:4318", &clock);
  const std::string text = written([&] {
    for (int second = 0; second < 120; ++second) {
      log.failing(second % 4 == 0 ? kAway : kRefuses, "answers 503", 0);
      if (second % 2 == 0) log.accepting(0);
      clock.now = clock.now + Ms{1000};
    }
  });
  EXPECT_EQ(lines(text), 4) << text;  // a warning and its end, in each of two minutes
}

TEST(CollectorLog, DroppedIsOfThisOutage) {
  CollectorLog log("http://collector:4318", nullptr);
  const std::string text = written([&] {
    log.failing(kAway, "", 10);
    log.accepting(15);
    log.failing(kAway, "", 18);
    log.accepting(20);
  });
  for (const char* dropped : {"dropped=10\n", "dropped=15\n", "dropped=3\n", "dropped=5\n"})
    EXPECT_NE(text.find(dropped), std::string::npos) << dropped << text;
}

TEST(CollectorLog, NoPassword) {
  CollectorLog log("http://me:secret@collector:4318", nullptr);
  const std::string text = written([&] { log.failing(kAway, "", 0); });
  EXPECT_EQ(text.find("secret"), std::string::npos) << text;
  EXPECT_NE(text.find("collector:4318"), std::string::npos) << text;
}

}  // namespace
}  // namespace rung::otel
