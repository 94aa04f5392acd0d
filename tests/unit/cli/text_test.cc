#include "src/cli/shared/text.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "src/api/tasks/tasks.h"

namespace rung::cli {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Humanise, TwoUnitsAtMost) {
  EXPECT_EQ(humanise(0ms), "0s");
  EXPECT_EQ(humanise(-5s), "0s");
  EXPECT_EQ(humanise(999ms), "999ms");
  EXPECT_EQ(humanise(1s), "1s");
  EXPECT_EQ(humanise(4250ms), "4s");
  EXPECT_EQ(humanise(12'999ms), "12s");
  EXPECT_EQ(humanise(60s), "1m");
  EXPECT_EQ(humanise(4min + 12s), "4m12s");
  EXPECT_EQ(humanise(4min + 2s), "4m2s");
  EXPECT_EQ(humanise(3h + 5min + 59s), "3h5m");
  EXPECT_EQ(humanise(24h), "1d");
  EXPECT_EQ(humanise(51h + 59min), "2d3h");
}

TEST(Width, CountsColumns) {
  EXPECT_EQ(width("orders"), 6U);
  EXPECT_EQ(width("é"), 1U);
  EXPECT_EQ(width("e\u0301"), 1U);
  EXPECT_EQ(width("注文"), 4U);
  EXPECT_EQ(width("🐇"), 2U);
}

// Text from a message must not move the cursor or colour the terminal.
TEST(OneLine, MakesControlCharactersVisible) {
  EXPECT_EQ(one_line("a\nb\tc\rd"), "a\\nb\\tc\\rd");
  EXPECT_EQ(one_line("\x1b[31mred\x7f"), "\\x1b[31mred\\x7f");
  EXPECT_EQ(one_line("a\u009b31m"), "a\\x9b31m");
  EXPECT_EQ(one_line("abc\u202Edef"), "abc\\u202edef");
  EXPECT_EQ(one_line("bad \xff byte"), "bad \uFFFD byte");
  EXPECT_EQ(one_line("grüße 注文"), "grüße 注文");
}

TEST(Lines, KeepsBreaksAndIndentsThem) {
  EXPECT_EQ(lines("one\ntwo\x1b[2J", 3), "one\n   two\\x1b[2J");
  EXPECT_EQ(lines("one\r\ntwo", 0), "one\ntwo");
  EXPECT_EQ(lines("a\tb\rc\n", 2), "a  b\\rc\n  ");
  EXPECT_EQ(lines("soft\u00adhyphen \u200b\ufeff", 0), "soft\\xadhyphen \\u200b\\ufeff");
}

TEST(Shorten, CutsOnCharacters) {
  EXPECT_EQ(shorten("orders", 6), "orders");
  EXPECT_EQ(shorten("orders", 5), "orde…");
  EXPECT_EQ(shorten("orders", 0), "orders");
  EXPECT_EQ(shorten("注文注文", 5), "注文…");
  EXPECT_EQ(shorten("注文注文", 4), "注…");
}

TEST(Table, LeavesOutWhatIsSparedWhereTheTerminalIsNarrow) {
  using enum Table::Align;
  Table table(
      {{"ID", left}, {"QUEUE", left, 8}, {"VER", right, 0, 2}, {"AGE", right, 0, 1}, {"ERROR", left}});
  table.row({"249107395289088", "a-queue-with-a-long-name", "12", "4m12s", std::string(100, 'x')});
  for (const std::size_t width : {100U, 60U, 54U, 47U, 39U}) {
    const std::string out = table.str(width);
    const std::string row = out.substr(out.find('\n') + 1);
    EXPECT_LE(rung::cli::width(row.substr(0, row.size() - 1)), width) << out;
    EXPECT_THAT(row, HasSubstr("249107395289088"));
  }
  EXPECT_THAT(table.str(60), HasSubstr("VER"));
  const std::string narrow = table.str(47);
  EXPECT_THAT(narrow, Not(HasSubstr("VER")));
  EXPECT_THAT(narrow, HasSubstr("AGE"));
  EXPECT_THAT(table.str(0), HasSubstr("a-queue-with-a-long-name")) << "not a terminal: nothing is left out";
}

TEST(Text, WithUtcEachTimeIsATimestamp) {
  const EpochMs now{1'764'056'145'123};
  times_in_utc = true;
  EXPECT_EQ(relative(now + 252s, now), "2025-11-25T07:39:57Z");
  EXPECT_EQ(age(now - 252s, now), "2025-11-25T07:31:33Z");
  EXPECT_EQ(moment(now, now), "2025-11-25 07:35:45.123 UTC");
  times_in_utc = false;
  EXPECT_EQ(age(now - 252s, now), "4m12s");
  EXPECT_EQ(moment(now - 252s, now), "2025-11-25 07:31:33.123 UTC (4m12s ago)");
}

TEST(Table, ShowsAllOfALastColumnThatIsWhole) {
  const std::string error(100, 'x');
  Table table(
      {{"RETRY", Table::Align::right}, {"DUE", Table::Align::left, 0, 5}, {"ERROR", Table::Align::left}});
  table.whole_last().row({"1", std::string(23, 'd'), error});
  table.note("redrive by ann");
  table.row({"2", "d", "short"});
  for (const std::size_t width : {0U, 60U, 140U}) EXPECT_THAT(table.str(width), HasSubstr(error)) << width;
  EXPECT_THAT(table.str(140), HasSubstr("dd"));
  const std::string narrow = table.str(60);
  EXPECT_THAT(narrow, Not(HasSubstr("dd"))) << "the spare column goes first";
  EXPECT_LT(narrow.find("redrive by ann"), narrow.find("short"));
}

TEST(Facts, HaveALineForEachValue) {
  const api::Json object = {
      {"retry_id", "42"}, {"due_at", "2025-11-25T07:39:57.123Z"},           {"none", nullptr},
      {"stored", false},  {"headers", {{"tenant", "acme"}, {"n", {1, 2}}}}, {"children", {"1", "2\x1b[2J"}}};
  EXPECT_EQ(facts_text(object, EpochMs{1'764'056'145'123}),
            "retry id            42\n"
            "due at              2025-11-25 07:39:57.123 UTC (in 4m12s)\n"
            "stored              no\n"
            "headers             tenant: acme\n"
            "                    n: [1,2]\n"
            "children            1\n"
            "                    2\\x1b[2J\n");
}

// --- a task

constexpr EpochMs kShownAt{1'795'280'700'123};

constexpr auto kMeansFailure = Silence::Means::failure;

TaskRow row(State state) {
  TaskRow r;
  r.task.id = TaskId{42};
  r.task.state = state;
  r.task.queue = "orders";
  r.task.attempt = 1;
  r.task.level = 2;
  r.task.levels = 9;
  r.task.first_failed_at = kShownAt - 60s;
  r.task.created_at = kShownAt - 59s;
  return r;
}

// As the API answers.
std::string next(const TaskRow& r, std::optional<Silence::Means> silence = Silence::Means::success) {
  Json task = api::to_json(r);
  if (silence) task["silence"] = api::to_json(Silence{*silence, 5min});
  return what_next(task, kShownAt);
}

TEST(WhatNext, AwaitingSaysWhatSilenceMeans) {
  TaskRow r = row(State::awaiting);
  r.task.next_at = kShownAt + 5min;
  EXPECT_THAT(next(r), HasSubstr("(in 5m) means success"));
  EXPECT_THAT(next(r, kMeansFailure), HasSubstr("means failure, and the next level"));
}

TEST(WhatNext, SucceededTellsPresumedFromReported) {
  TaskRow r = row(State::succeeded);
  r.task.finished_at = kShownAt;
  r.task.finished_by = FinishedBy::presumed;
  EXPECT_THAT(
      next(r),
      HasSubstr("succeeded: level 2 of 9, attempt 1, presumed, at 2026-11-21 17:05:00.123 UTC (now)"));
  r.task.finished_by = FinishedBy::reported;
  EXPECT_THAT(next(r), HasSubstr("attempt 1, reported, at "));
}

TEST(WhatNext, ParkedSaysHowToGoOn) {
  EXPECT_THAT(next(row(State::parked)), HasSubstr("`rung redrive 42`"));
  TaskRow lost = row(State::parked);
  lost.task.queue.clear();
  EXPECT_THAT(next(lost), HasSubstr("its queue is unknown"));
}

TaskRow delay() {
  TaskRow r = row(State::scheduled);
  r.task.kind = Kind::delay;
  r.task.queue.clear();
  r.task.exchange = "shop";
  r.task.routing_key = "order.close";
  r.task.by_exchange = true;
  r.task.level = 0;
  r.task.attempt = 0;
  r.task.first_failed_at = {};
  r.task.next_at = kShownAt + 30min;
  return r;
}

TEST(WhatNext, ADelayGoesToItsTarget) {
  TaskRow r = delay();
  EXPECT_EQ(next(r), "scheduled: the delay to shop > order.close, due 2026-11-21 17:35:00.123 UTC (in 30m)");
  EXPECT_EQ(destination(api::to_json(r)), "shop > order.close");
  r.task.state = State::awaiting;
  r.task.attempt = 1;
  EXPECT_THAT(next(r), HasSubstr("awaiting: the delay, attempt 1 to shop > order.close; silence until"));
  EXPECT_THAT(next(r, kMeansFailure), HasSubstr("means failure, and the next level"));
  EXPECT_THAT(next(r, std::nullopt), HasSubstr("(in 30m) ends it"));
  r.task.state = State::parked;
  r.task.next_at.reset();
  EXPECT_THAT(next(r), HasSubstr("; `rung redrive 42` sends it to shop > order.close again"));
}

TEST(Json, BrokenUtf8DoesNotThrow) { EXPECT_THAT(dump(Json{{"a", "\xff"}}, false), HasSubstr("\uFFFD")); }

}  // namespace
}  // namespace rung::cli
