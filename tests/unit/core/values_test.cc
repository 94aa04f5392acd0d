// The small values: ids, times, words, UTF-8, what a task says of itself.
#include <gtest/gtest.h>

#include <limits>
#include <unordered_set>

#include "src/core/base/health.h"
#include "src/core/base/ids.h"
#include "src/core/base/time.h"
#include "src/core/base/utf8.h"
#include "src/core/task/task.h"
#include "tests/support/clock.h"

namespace rung {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr EpochMs kNow{1'800'000'000'000};

// ---- ids

TEST(Ids, MoreThanAMillisecondHolds) {
  IdSource ids(1023);
  std::unordered_set<TaskId> seen;
  TaskId last{};
  for (int i = 0; i < 3 * 4096 + 7; ++i) {
    const TaskId id = ids.next(kNow);
    ASSERT_GT(id, last);
    seen.insert(id);
    last = id;
  }
  EXPECT_EQ(seen.size(), 3u * 4096 + 7);
  EXPECT_GT(ids.next(kNow + Ms(1)), last) << "the clock, coming after, is not ahead of what was made";
}

TEST(Ids, TheClockStepsBack) {
  IdSource ids(5);
  const TaskId before = ids.next(kNow);
  const TaskId after = ids.next(kNow - minutes(10));
  EXPECT_GT(after, before);
  EXPECT_GT(ids.next(EpochMs{0}), after);
  EXPECT_GT(ids.next(EpochMs{-1}), after);
}

TEST(Ids, TheFloorIsBelowAllOfItsTimeAndAboveAllBefore) {
  for (const int node : {0, 1, 1023}) {
    IdSource ids(node);
    for (int i = 0; i < 4096; ++i) EXPECT_LT(ids.next(kNow - Ms(1)), IdSource::floor(kNow));
    EXPECT_GE(ids.next(kNow), IdSource::floor(kNow));
  }
  EXPECT_EQ(IdSource::floor(EpochMs{0}).value, 0);
  EXPECT_EQ(IdSource::floor(EpochMs{kIdEpochMs}).value, 0);
}

TEST(Ids, ArePositiveUntil2094) {
  IdSource ids(1023);
  const TaskId id = ids.next(EpochMs{kIdEpochMs + (std::int64_t{1} << 41) - 1});
  EXPECT_GT(id.value, 0);
  EXPECT_EQ(TaskId::parse(id.str()), id);
}

TEST(Ids, Parse) {
  EXPECT_EQ(TaskId::parse("1")->value, 1);
  EXPECT_EQ(TaskId::parse("9223372036854775807")->value, std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(TaskId::parse("007")->value, 7);
  for (const char* text : {"", "0", "-1", "+1", " 1", "1 ", "1x", "0x1", "1.0", "9223372036854775808"}) {
    EXPECT_FALSE(TaskId::parse(text)) << text;
  }
  EXPECT_FALSE(TaskId::parse(std::string_view("1\0", 2)));
}

// ---- time

TEST(Time, AsDatetime3Prints) {
  EXPECT_EQ(format_utc({1'795'280'700'123}), "2026-11-21 17:05:00.123");
  EXPECT_EQ(format_utc({0}), "1970-01-01 00:00:00.000");
  EXPECT_EQ(format_utc({5}), "1970-01-01 00:00:00.005");
  EXPECT_EQ(format_utc({-1}), "1969-12-31 23:59:59.999");
  EXPECT_EQ(format_utc({-1000}), "1969-12-31 23:59:59.000");
  EXPECT_EQ(format_utc({951'782'400'000}), "2000-02-29 00:00:00.000");
}

TEST(Time, TheDatabasesClockIsWhatWasMeasuredAndGoesOn) {
  DbClock clock{test_clock()};
  const BootMs received = test_clock().boot();
  const auto read = [&](EpochMs now) {
    const BootUs at{received.ms * 1000};
    clock.measured({now.ms * 1000}, at, at);
  };
  read(kNow);
  EXPECT_EQ(clock.at(received), kNow);
  EXPECT_EQ(clock.at(received + seconds(3)), kNow + seconds(3));
  const EpochMs a = clock.now();
  EXPECT_GE(a, kNow);
  EXPECT_GE(clock.now(), a);
  read(kNow - minutes(5));  // a failover to a server that is behind
  EXPECT_EQ(clock.at(received), kNow - minutes(5));
}

TEST(Time, TheDatabasesClockIsKnownFromBothSides) {
  DbClock clock{test_clock()};
  const BootUs received = test_clock().boot_us();
  clock.measured({kNow.ms * 1000 + 999}, {received.us - 40'000}, received);
  const EpochMs now = clock.now();  // before the other is read
  EXPECT_LE(now + Ms(40), clock.latest()) << "a delay counted from latest() is never cut short";
  EXPECT_GE(clock.latest(received), kNow + Ms(41)) << "in whole ms, and not before its us";
}

// ---- words of the columns

// NOTE: the numbers are those of the ENUM columns. A failure here is a broken database.
TEST(Words, AreThoseOfTheColumns) {
  const std::vector<std::pair<State, const char*>> states = {
      {State::scheduled, "scheduled"}, {State::publishing, "publishing"}, {State::awaiting, "awaiting"},
      {State::succeeded, "succeeded"}, {State::parked, "parked"},         {State::cancelled, "cancelled"},
      {State::discarded, "discarded"}};
  int number = 1;
  for (const auto& [state, word] : states) {
    EXPECT_EQ(static_cast<int>(state), number++);
    EXPECT_EQ(to_word(state), word);
    EXPECT_EQ(from_word<State>(word), state);
    EXPECT_EQ(is_finished(state), number > 4) << word;
  }
  const std::vector<std::pair<Outcome, const char*>> outcomes = {{Outcome::pending, "pending"},
                                                                 {Outcome::succeeded, "succeeded"},
                                                                 {Outcome::failed, "failed"},
                                                                 {Outcome::timed_out, "timed_out"},
                                                                 {Outcome::returned, "returned"}};
  number = 1;
  for (const auto& [outcome, word] : outcomes) {
    EXPECT_EQ(static_cast<int>(outcome), number++);
    EXPECT_EQ(to_word(outcome), word);
    EXPECT_EQ(from_word<Outcome>(word), outcome);
  }
  EXPECT_EQ(to_word(Kind::retry), "retry");
  EXPECT_EQ(to_word(Kind::delay), "delay");
  EXPECT_EQ(from_word<Kind>("delay"), Kind::delay);
  EXPECT_EQ(to_word(FinishedBy::nobody), "");
  EXPECT_EQ(from_word<FinishedBy>("reported"), FinishedBy::reported);
  EXPECT_EQ(from_word<FinishedBy>("presumed"), FinishedBy::presumed);
}

TEST(Words, OthersAreNone) {
  for (const char* word : {"", "Scheduled", "scheduled ", "8"}) {
    EXPECT_FALSE(from_word<State>(word));
    EXPECT_FALSE(from_word<Kind>(word));
    EXPECT_FALSE(from_word<Outcome>(word));
  }
  EXPECT_FALSE(from_word<FinishedBy>("nobody"));
  EXPECT_EQ(to_word(State::unknown), "unknown");  // for people; no row has it
  EXPECT_FALSE(from_word<State>("unknown"));
  EXPECT_EQ(to_word(static_cast<State>(8)), "");
}

// ---- values of headers

TEST(Value, IntegersOfEveryWidth) {
  EXPECT_EQ(Value{std::int8_t{-5}}.as_int(), -5);
  EXPECT_EQ(Value{std::uint32_t{4'000'000'000}}.as_int(), 4'000'000'000);
  EXPECT_EQ(Value{std::uint64_t{5}}.as_int(), 5);
  EXPECT_FALSE(Value{std::numeric_limits<std::uint64_t>::max()}.as_int());
  for (const Value& v : {Value{}, Value{true}, Value{1.0}, Value{1.0f}, Value{"1"}, Value{Timestamp{1}},
                         Value{Decimal{0, 1}}, Value{Array{}}}) {
    EXPECT_FALSE(v.as_int());
  }
}

TEST(Value, FindIsTheFirstOfThatNameToTheLetter) {
  const Table t = {{"a", 1}, {"A", 2}, {"a", 3}};
  EXPECT_EQ(*find(t, "a"), Value{1});
  EXPECT_EQ(*find(t, "A"), Value{2});
  EXPECT_EQ(find(t, "b"), nullptr);
  EXPECT_EQ(find(std::optional<Table>{}, "a"), nullptr);
}

TEST(Value, EveryKindHasATextForRulesRatesAndSearches) {
  const auto text_of = [](Value value) {
    Message message;
    message.headers = Table{{"tenant", std::move(value)}};
    return indexed_value(message, "tenant");
  };
  EXPECT_EQ(text_of("acme"), "acme");
  EXPECT_EQ(text_of(Bytes{"acme"}), "acme") << "a client that sends text as bytes";
  EXPECT_EQ(text_of(true), "true");
  EXPECT_EQ(text_of(5), "5");
  EXPECT_EQ(text_of(std::int8_t{-5}), "-5");
  EXPECT_EQ(text_of(std::uint64_t{18'446'744'073'709'551'615U}), "18446744073709551615");
  EXPECT_EQ(text_of(1.5F), "1.5");
  EXPECT_EQ(text_of(Timestamp{1'700'000'000}), "1700000000");
  EXPECT_EQ(text_of(Decimal{2, 150}), R"({"!dec":[2,150]})");
  EXPECT_EQ(text_of(Table{{"a", std::int64_t{1}}}), R"({"a":1})");
  EXPECT_EQ(text_of(Array{std::int64_t{1}, "b"}), R"([1,"b"])");
  EXPECT_EQ(text_of("\xff"), "\xEF\xBF\xBD");
  EXPECT_EQ(text_of(std::string(300, 'v')), std::string(kIndexedBytes, 'v'));
  for (const Value& none : {Value(), Value(""), Value(Bytes{})}) EXPECT_EQ(text_of(none), "");
  EXPECT_EQ(indexed_value(Message{}, "tenant"), "");
}

// ---- UTF-8

TEST(Utf8, Valid) {
  for (const std::string_view text :
       {"", "abc", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80", "\xEF\xBF\xBF",
        "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(is_utf8(text));
    EXPECT_EQ(clean_utf8(text, 100), text);
  }
  EXPECT_TRUE(is_utf8(std::string_view("\0", 1)));
}

TEST(Utf8, Invalid) {
  for (const std::string_view text :
       {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xC2", "\xC2 ", "\xE0\x9F\xBF", "\xE2\x82", "\xED\xA0\x80",
        "\xED\xBF\xBF", "\xF0\x8F\xBF\xBF", "\xF0\x9F\x98", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFE",
        "\xFF", "ok\xFFok"}) {
    EXPECT_FALSE(is_utf8(text));
    EXPECT_TRUE(is_utf8(clean_utf8(text, 100)));
  }
}

TEST(Utf8, CleanKeepsWhatIsGood) {
  EXPECT_EQ(clean_utf8("a\xFFö\xE2\x82z", 100), "a\xEF\xBF\xBDö\xEF\xBF\xBD\xEF\xBF\xBDz");
  EXPECT_EQ(clean_utf8(std::string_view("a\0b", 3), 100), "a\xEF\xBF\xBD\x62");
  EXPECT_EQ(clean_utf8("line\nand\ttab", 100), "line\nand\ttab");
}

TEST(Utf8, CutsBetweenCharacters) {
  EXPECT_EQ(clean_utf8("abc", 2), "ab");
  EXPECT_EQ(clean_utf8("aö", 2), "a");
  EXPECT_EQ(clean_utf8("aö", 3), "aö");
  EXPECT_EQ(clean_utf8("€", 2), "");
  EXPECT_EQ(clean_utf8("\xFF", 2), "");
  EXPECT_EQ(clean_utf8("abc", 0), "");
  const std::string invalid(100'000, '\xFF');
  EXPECT_LE(clean_utf8(invalid, kErrorBytes).size(), kErrorBytes);
}

// ---- a task: where its message came from, why it is retried, and whether it keeps its routing key

Task failed(std::string error, std::string type = {}) {
  Task task;
  task.first_failed_at = {1};
  task.last_error = std::move(error);
  task.error_type = std::move(type);
  return task;
}

TEST(RetryReason, SaysWhyTheLastAttemptFailed) {
  for (const char* reason : {"rejected", "expired", "maxlen", "delivery_limit"})
    EXPECT_EQ(retry_reason(failed("dead-lettered: " + std::string(reason) + " (queue q)")), reason);
  EXPECT_EQ(retry_reason(failed("312 NO_ROUTE: no queue q", "returned")), "returned");
  EXPECT_EQ(retry_reason(failed("no word within 10m", "timed_out")), "silent");
  EXPECT_EQ(retry_reason(failed("card declined", "Payment")), "rejected");
  EXPECT_EQ(retry_reason(failed("dead-lettered: whatever (queue q)")), "rejected");
  EXPECT_EQ(retry_reason(Task{}), "");
}

TEST(ErrorLine, IsTheFirstWithItsTypeOnce) {
  const std::string trace = "ValueError: bad\r\n  at pay.py:17";
  EXPECT_EQ(error_line("ValueError", trace), "ValueError: bad") << "as our helpers write it";
  EXPECT_EQ(error_line("PayError", trace), "PayError: ValueError: bad");
  EXPECT_EQ(error_line("", trace), "ValueError: bad");
  EXPECT_EQ(error_line("PayError", ""), "PayError");
  EXPECT_EQ(error_line("", "\n  at pay.py:17"), "");
}

TEST(WithoutContent, LeavesWhatIsNoPartOfAMessage) {
  const std::string whole = add_earlier(R"({"retry-error":"boom","retry-token":"t","x-death":[1]})",
                                        {.attempt = 1, .properties = "{}", .headers = R"({"card":1})"});
  EXPECT_EQ(without_content(whole), R"({"retry-error":"boom","x-death":[1]})");
  EXPECT_EQ(without_content(R"({"!table":[["retry-error","a"],["retry-token","t"],["retry-token","u"]]})"),
            R"({"!table":[["retry-error","a"]]})");
  EXPECT_EQ(without_content("changed by hand"), "");
}

TEST(KeepsRoutingKey, OnlyWhereItIsKnownAndAnotherThanTheQueues) {
  Task task = failed("x");
  task.queue = "orders";
  task.exchange = "events";
  task.routing_key = "order.paid";
  EXPECT_TRUE(keeps_routing_key(task, "rung"));
  const auto without = [&](auto change) {
    Task other = task;
    change(other);
    return keeps_routing_key(other, "rung");
  };
  EXPECT_FALSE(without([](Task& t) { t.exchange.clear(); }));
  EXPECT_FALSE(without([](Task& t) { t.exchange = "rung.failed"; }));
  EXPECT_TRUE(without([](Task& t) { t.exchange = "rungs"; }));
  EXPECT_FALSE(without([](Task& t) { t.routing_key = t.queue; }));
  EXPECT_FALSE(without([](Task& t) { t.routing_key = "a\xEF\xBF\xBD"; }));
  EXPECT_FALSE(without([](Task& t) { t.first_failed_at = {0}; }));
}

// ---- health, and control characters

TEST(HealthProblems, NoneFromTextThatIsNoArray) {
  for (const char* text : {"", "null", "{}", "[1, \"x\"]", "["})
    EXPECT_TRUE(problems_from_json(text).empty()) << text;
}

TEST(Controls, EveryClassIsKnown) {
  for (const char* c : {"\x1b",   "\n",     "\x7f",       "\xC2\x80",   "\xC2\x9B",  "\xC2\x9F", "\u00ad",
                        "\u061c", "\u180e", "\u200b",     "\u200c",     "\u200d",    "\u200e",   "\u200f",
                        "\u2028", "\u2029", "\u202a",     "\u202e",     "\u2060",    "\u2066",   "\u2069",
                        "\ufeff", "\ufff9", "\U000e0001", "\U000e0041", "\U000e007f"})
    EXPECT_TRUE(escape_controls(c).starts_with('\\')) << escape_controls(c);
  const std::string others =
      " ~\u00a0\u00ac\u00ae\u00df\u061b\u200a\u2010\u2027\u202f\u2065\u2070\u6ce8\ufffd\U0001f600\U000e0100";
  EXPECT_EQ(escape_controls(others), others);
}

TEST(Controls, AreReadableAndKeepTheRest) {
  EXPECT_EQ(escape_controls("a\nb\tc\rd \x1b[2J \xC2\x9B \xE2\x80\xAE \xF3\xA0\x81\x81"),
            "a\\nb\\tc\\rd \\x1b[2J \\x9b \\u202e \\U000e0041");
  EXPECT_EQ(escape_controls("\x9b"
                            "31m"),
            "\xEF\xBF\xBD"
            "31m")
      << "a byte that some terminals take for a control";
  const std::string pretty = "{\n  \"a\": \"gr\xC3\xBC\xC3\x9F\"\n}";
  EXPECT_EQ(escape_controls_in_json(pretty), pretty);
}

}  // namespace
}  // namespace rung
