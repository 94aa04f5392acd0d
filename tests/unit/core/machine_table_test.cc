// Every (state, happening): the table of docs/state-machine.md, cell by cell. An arrow that changes fails
// here.
#include <gmock/gmock.h>

#include <array>
#include <sstream>

#include "tests/unit/core/machine_fixture.h"

namespace rung {
namespace {

using namespace rung::testing;
using Verdict = Decision::Verdict;

struct Start {
  const char* name;
  Task task;
};

Task with(Task t, int node, std::uint64_t epoch) {
  t.node = node;
  t.epoch = epoch;
  return t;
}

std::vector<Start> starts() {
  Task owed = task_in(State::parked);
  owed.next_at = kNow - seconds(1);
  return {{"scheduled, not due", task_in(State::scheduled)},
          {"scheduled, due", task_in(State::scheduled, kNow)},
          {"publishing, by us", task_in(State::publishing, kNow - seconds(1))},
          {"publishing, by an older owner", with(task_in(State::publishing, kNow), kOther, kEpoch - 2)},
          {"publishing, by a newer owner", with(task_in(State::publishing, kNow), kOther, kEpoch + 2)},
          {"awaiting", task_in(State::awaiting)},
          {"awaiting, silence over", task_in(State::awaiting, kNow)},
          {"succeeded, reported", task_in(State::succeeded)},
          {"succeeded, presumed", presumed_task()},
          {"parked", task_in(State::parked)},
          {"parked, a copy owed", owed},
          {"cancelled", task_in(State::cancelled)},
          {"discarded", task_in(State::discarded)}};
}

// What became of it: "=" stale, "x" refused, else applied, the state's letter (S P A Y=succeeded K=parked C
// D), then "+" where a row of history is written and "-" where it is taken back.
std::string cell(const Decision& d) {
  if (d.verdict == Verdict::stale) return "=";
  if (d.verdict == Verdict::refused) return "x";
  constexpr std::array<char, 8> kLetters = {'?', 'S', 'P', 'A', 'Y', 'K', 'C', 'D'};
  std::string out(1, kLetters[static_cast<std::size_t>(d.task.state)]);
  if (d.attempt) out += d.drop_attempt ? '-' : '+';
  return out;
}

struct Row {
  const char* name;
  Happening what;
  const char* expected;  // a cell a start, in the order of starts()
};

void check(const Row& row, const Start& start, const Circumstances& c, const std::string& expected,
           const char* queue = "orders") {
  const std::string where = std::string(row.name) + " at " + start.name;
  Task task = start.task;
  task.queue = queue;
  const Decision d = decide(task, row.what, rules(), c);
  EXPECT_EQ(cell(d), expected) << where << " (" << d.reason << ")";
  const auto* silence = std::get_if<event::SilenceOver>(&row.what);
  const bool held = silence != nullptr && !silence->held.empty() && d.verdict == Verdict::applied &&
                    d.task.state == State::awaiting;
  expect_sound(d.task, where, held);
  EXPECT_EQ(d.task.id, task.id);
  const auto* redrive = std::get_if<event::Redrive>(&row.what);
  const bool elsewhere = redrive != nullptr && redrive->elsewhere.is_set();
  if (!elsewhere) {
    EXPECT_EQ(d.task.queue, task.queue);
  }
  if (d.verdict == Verdict::applied) {
    EXPECT_EQ(d.reason, "") << where;
    const bool shows = !std::holds_alternative<event::ParkedCopySent>(row.what) && !(d.task == task);
    EXPECT_EQ(d.task.version, task.version + (shows ? 1 : 0)) << where << ": the version tells a change";
  } else {
    EXPECT_EQ(d.task, task) << where << ": changed though not applied";
    EXPECT_FALSE(d.attempt) << where;
    EXPECT_NE(d.reason, "") << where;
  }
  if (d.attempt) {
    EXPECT_EQ(d.attempt->task, task.id) << where;
    EXPECT_GE(d.attempt->attempt, 1) << where;
    EXPECT_LE(d.attempt->attempt, d.task.attempt + (d.drop_attempt ? 1 : 0)) << where;
    EXPECT_LE(d.attempt->due_at, kNow) << where << ": published before it was due, one would read";
  }
}

void check_all(const std::vector<Row>& rows, const Circumstances& c, const char* queue = "orders") {
  const auto from = starts();
  for (const Row& row : rows) {
    std::istringstream cells(row.expected);
    for (const Start& start : from) {
      std::string expected;
      ASSERT_TRUE(cells >> expected) << row.name;
      check(row, start, c, expected, queue);
    }
    std::string more;
    EXPECT_FALSE(cells >> more) << row.name;
  }
}

TEST(MachineTable, ClaimsAndTheBrokersAnswers) {
  // clang-format off
  check_all({
    //                                                   Sn Sd Pus Pold Pnew An Ad Yr Yp K  Kc C  D
    {"claim",            event::Claim{},                "=  P+ P+ =  =  =  =  =  =  =  =  =  = "},
    {"claim again",      event::Claim{.again = true},   "=  P+ P+ P+ =  =  =  =  =  =  =  =  = "},
    {"confirmed",        event::Confirmed{2, kNow},     "S+ S+ A+ A+ A+ A+ A+ Y+ Y+ K+ K+ C+ D+"},
    {"confirmed older",  event::Confirmed{1, kNow},     "S+ S+ P+ P+ P+ A+ A+ Y+ Y+ K+ K+ C+ D+"},
    {"confirmed forged", event::Confirmed{3, kNow},     "=  =  =  =  =  =  =  =  =  =  =  =  = "},
    {"confirmed none",   event::Confirmed{0, kNow},     "=  =  =  =  =  =  =  =  =  =  =  =  = "},
    {"returned",         event::Returned{2, kNow, "r"}, "=  =  S+ =  =  =  =  =  =  =  =  =  = "},
    {"returned older",   event::Returned{1, kNow, "r"}, "=  =  =  =  =  =  =  =  =  =  =  =  = "},
    {"returned forged",  event::Returned{3, kNow, "r"}, "=  =  =  =  =  =  =  =  =  =  =  =  = "},
    {"deferred",         event::Deferred{2, Ms{9}, "r"}, "=  =  S- =  =  =  =  =  =  =  =  =  = "},
    {"deferred, a copy may be out", event::Deferred{2, Ms{9}, "r", true},
                                                        "=  =  P  =  =  =  =  =  =  =  =  =  = "},
    {"deferred older",   event::Deferred{1, Ms{9}, "r"}, "=  =  =  =  =  =  =  =  =  =  =  =  = "},
    {"deferred forged",  event::Deferred{3, Ms{9}, "r"}, "=  =  =  =  =  =  =  =  =  =  =  =  = "},
  }, at());
  // Without the lease nothing is claimed; what is known to have happened is still written.
  check_all({
    {"claim, no lease",     event::Claim{},             "=  =  =  =  =  =  =  =  =  =  =  =  = "},
    {"confirmed, no lease", event::Confirmed{2, kNow},  "S+ S+ A+ A+ A+ A+ A+ Y+ Y+ K+ K+ C+ D+"},
    {"returned, no lease",  event::Returned{2, kNow, ""}, "=  =  S+ =  =  =  =  =  =  =  =  =  = "},
  }, at(kNow, 0));
  // clang-format on
}

TEST(MachineTable, TheConsumersWord) {
  // clang-format off
  check_all({
    //                                                   Sn Sd Pus Pold Pnew An Ad Yr Yp K  Kc C  D
    {"failed unsaid",    failed(0),                     "=  =  S+ S+ S+ S+ S+ =  S+ =  =  =  = "},
    {"failed",           failed(2),                     "=  =  S+ S+ S+ S+ S+ =  S+ =  =  =  = "},
    {"failed negative",  failed(-5),                    "=  =  S+ S+ S+ S+ S+ =  S+ =  =  =  = "},
    {"failed older",     failed(1),                     "=  =  =  =  =  =  =  =  =  =  =  =  = "},
    {"failed forged",    failed(3),                     "x  x  x  x  x  x  x  x  x  x  x  x  x "},
    {"succeeded unsaid", event::Succeeded{0},           "Y+ Y+ Y+ Y+ Y+ Y+ Y+ =  Y+ Y+ Y+ =  = "},
    {"succeeded",        event::Succeeded{2},           "Y+ Y+ Y+ Y+ Y+ Y+ Y+ =  Y+ Y+ Y+ =  = "},
    {"succeeded older",  event::Succeeded{1},           "Y+ Y+ Y+ Y+ Y+ Y+ Y+ =  Y+ Y+ Y+ =  = "},
    {"succeeded forged", event::Succeeded{3},           "x  x  x  x  x  x  x  x  x  x  x  x  x "},
    {"silence over",     event::SilenceOver{},          "=  =  =  =  =  =  Y+ =  =  =  =  =  = "},
    {"silence over, detached", event::SilenceOver{"detached"}, "=  =  =  =  =  =  A+ =  =  =  =  =  = "},
    {"silence over, unread", event::SilenceOver{"", kNow + seconds(60), "unread"}, "=  =  =  =  =  =  A+ =  =  =  =  =  = "},
  }, at());
  check_all({
    {"silence over, which means failure", event::SilenceOver{}, "=  =  =  =  =  =  S+ =  =  =  =  =  = "},
    {"silence means failure, detached", event::SilenceOver{"detached"}, "=  =  =  =  =  =  S+ =  =  =  =  =  = "},
    {"silence means failure, unread", event::SilenceOver{"", kNow + seconds(60), "unread"}, "=  =  =  =  =  =  S+ =  =  =  =  =  = "},
  }, at(), "invoices");
  // clang-format on
}

event::Edit edited() {
  auto message = std::make_shared<Message>();
  message->body = "fixed";
  return {std::make_shared<const EditedMessage>(EditedMessage{{5000}, message, "{}", "{}", "{}"})};
}

TEST(MachineTable, PeopleAndTheParkingLot) {
  // clang-format off
  check_all({
    //                                                   Sn Sd Pus Pold Pnew An Ad Yr Yp K  Kc C  D
    {"parked copy sent", event::ParkedCopySent{},       "=  =  =  =  =  =  =  =  =  =  K  =  = "},
    {"cancel",           event::Cancel{},           "C  C  x  x  x  x  x  x  x  x  x  =  x "},
    {"redrive",          event::Redrive{},              "S  =  =  =  =  =  =  x  S  S  S  x  x "},
    {"redrive, even reported", event::Redrive{{}, true}, "S  =  =  =  =  =  =  S  S  S  S  x  x "},
    {"redrive elsewhere", event::Redrive{{"", "x", "k"}}, "S  S  x  x  x  x  x  x  S  S  S  x  x "},
    {"reschedule",       event::Reschedule{{}, hours(1)}, "S  S  x  x  x  x  x  x  x  x  x  x  x "},
    {"reschedule, same", event::Reschedule{kNow + seconds(20), Ms{0}}, "=  S  x  x  x  x  x  x  x  x  x  x  x "},
    {"fire",             event::Fire{},                 "S  =  =  =  =  =  =  x  x  x  x  x  x "},
    {"discard",          event::Discard{},              "D  D  x  x  x  x  x  x  x  D  D  x  = "},
    {"park",             event::Park{},                 "K  K  x  x  x  x  x  x  x  =  =  x  x "},
    {"edit",             edited(),                      "x  x  x  x  x  x  x  x  x  D  D  x  x "},
    {"finish, succeeded", event::Finish{true, ""},      "Y  Y  Y+ Y+ Y+ Y+ Y+ =  Y  Y  Y  x  x "},
    {"finish, failed",   event::Finish{false, "e"},     "x  x  S+ S+ S+ S+ S+ x  S+ x  x  x  x "},
    {"finish, even reported", event::Finish{false, "e", "", 0, true},
                                                        "x  x  S+ S+ S+ S+ S+ S+ S+ x  x  x  x "},
    {"finish 2, failed", event::Finish{false, "e", "", 2}, "=  =  S+ S+ S+ S+ S+ =  S+ =  =  =  = "},
    {"finish older, failed", event::Finish{false, "e", "", 1}, "=  =  =  =  =  =  =  =  =  =  =  =  = "},
  }, at());
  // clang-format on
}

// Silence that is held open ends with an answer or by a person, and by nothing else.
TEST(MachineTable, WhenSilenceIsHeldOpen) {
  const Decision held =
      decide(task_in(State::awaiting, kNow), event::SilenceOver{"orders is not attached"}, rules(), at());
  ASSERT_EQ(cell(held), "A+");
  EXPECT_FALSE(held.task.next_at);
  EXPECT_TRUE(is_silence_held(held.task));
  EXPECT_EQ(held.attempt->outcome, Outcome::pending);
  EXPECT_EQ(held.attempt->error, "silence is held open: orders is not attached");
  expect_sound(held.task, "held", true);
  const std::vector<std::pair<Happening, std::string>> cases = {{event::SilenceOver{}, "="},
                                                                {event::SilenceOver{"still"}, "="},
                                                                {event::Claim{}, "="},
                                                                {event::Confirmed{2, kNow}, "A+"},
                                                                {failed(2), "S+"},
                                                                {event::Succeeded{2}, "Y+"},
                                                                {event::Finish{true, ""}, "Y+"},
                                                                {event::Finish{false, "it failed"}, "S+"},
                                                                {event::Redrive{}, "S+"},
                                                                {event::Redrive{{"", "x", "k"}}, "S+"},
                                                                {event::Fire{}, "="},
                                                                {event::Cancel{}, "x"},
                                                                {event::Discard{}, "x"}};
  for (const auto& [what, expected] : cases) {
    const Decision d = decide(held.task, what, rules(), at());
    EXPECT_EQ(cell(d), expected) << name_of(what) << " (" << d.reason << ")";
    expect_sound(d.task, std::string(name_of(what)), d.task.state == State::awaiting);
  }
  const Decision again = decide(held.task, event::Redrive{}, rules(), at());
  EXPECT_EQ(again.attempt->outcome, Outcome::timed_out);
  EXPECT_EQ(again.task.level, 1);
  EXPECT_EQ(again.task.next_at, kNow);
}

TEST(MachineTable, ASuccessThatWasReportedNeedsTheWordToBeUndone) {
  const Task reported = task_in(State::succeeded);
  for (const Happening& what : {Happening{event::Redrive{}}, Happening{event::Finish{false, "e"}}})
    EXPECT_THAT(decide(reported, what, rules(), at()).reason, ::testing::HasSubstr("include_reported"));
  const Decision d = decide(presumed_task(), event::Redrive{}, rules(), at());
  ASSERT_EQ(cell(d), "S");
  EXPECT_EQ(d.task.finished_by, FinishedBy::nobody);
  EXPECT_FALSE(d.task.finished_at);
  EXPECT_EQ(d.task.level, 1);
  EXPECT_EQ(d.task.uncounted_attempts, d.task.attempt);
}

// The same failures on the last rung: the parking lot.
TEST(MachineTable, EveryFailureOnTheLastRungParks) {
  const std::vector<std::pair<Happening, std::string>> failures = {
      {event::Returned{2, kNow, "no queue"}, "publishing"},
      {failed(2), "publishing"},
      {failed(2), "awaiting"},
      {event::SilenceOver{}, "awaiting"},
      {event::Finish{false, ""}, "publishing"},
      {event::Finish{false, ""}, "awaiting"},
      {failed(2), "succeeded"}};
  for (const auto& [what, state] : failures) {
    Task t = task_in(*from_word<State>(state), kNow);
    if (t.state == State::succeeded) t = presumed_task();
    t.queue = "invoices";
    t.level = 3;
    const Decision d = decide(t, what, rules(), at());
    EXPECT_EQ(cell(d), "K+") << state;
    expect_sound(d.task, state);
    EXPECT_EQ(d.task.level, 3);
    EXPECT_EQ(d.task.finished_at, kNow);
    EXPECT_FALSE(d.task.next_at);
  }
}

// A task that was never delivered has no attempt about which anybody could have a word.
TEST(MachineTable, NoWordAboutATaskThatWasNeverDelivered) {
  Task t = task_in(State::scheduled);
  t.attempt = 0;
  for (const Happening& what : {Happening{failed(0)}, Happening{failed(1)}, Happening{event::Succeeded{0}},
                                Happening{event::Succeeded{1}}}) {
    EXPECT_EQ(decide(t, what, rules(), at()).verdict, Verdict::refused);
  }
  EXPECT_EQ(cell(decide(t, event::Finish{true, ""}, rules(), at())), "Y");
  EXPECT_EQ(cell(decide(t, event::Confirmed{1, kNow}, rules(), at())), "=");
}

}  // namespace
}  // namespace rung
