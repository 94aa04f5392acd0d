// What an edit makes of a parked task, and what its audit says.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "src/core/machine/by_hand.h"
#include "tests/unit/core/machine_fixture.h"

namespace rung {
namespace {

using namespace rung::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Verdict = Decision::Verdict;

std::shared_ptr<Message> message(const std::string& body, const Table& headers) {
  auto made = std::make_shared<Message>();
  made->body = body;
  made->headers = headers;
  return made;
}

Decision edit_of(const Task& task, const Circumstances& c = at(), const RuleBook& book = rules()) {
  const EditedMessage edited{{5000}, message("fixed", {{"tenant", "acme"}}), "{}", "{}", "{}"};
  return decide(task, event::Edit{std::make_shared<const EditedMessage>(edited)}, book, c);
}

TEST(Edit, TheChildGoesOutAsARedriveWould) {
  Task task = task_in(State::parked);
  task.max_attempts = 1;
  task.uncounted_attempts = 1;
  task.cause = "0123456789ab";
  const Decision d = edit_of(task);
  ASSERT_EQ(d.verdict, Verdict::applied) << d.reason;
  const Task redriven = decide(task, event::Redrive{}, rules(), at()).task;
  Task child = d.child->task;
  EXPECT_EQ(child.id, TaskId{5000});
  EXPECT_EQ(child.parent, task.id);
  EXPECT_EQ(child.attempt, 0);
  EXPECT_EQ(child.version, 1U);
  EXPECT_EQ(child.created_at, kNow);
  EXPECT_EQ(child.body_bytes, 5);
  EXPECT_EQ(child.uncounted_attempts, 0);
  EXPECT_TRUE(d.child->edited);
  // All else is as after a redrive.
  child.id = redriven.id;
  child.parent = redriven.parent;
  child.attempt = redriven.attempt;
  child.uncounted_attempts = redriven.uncounted_attempts;
  child.version = redriven.version;
  child.created_at = redriven.created_at;
  child.body_bytes = redriven.body_bytes;
  child.digest = redriven.digest;
  child.epoch = redriven.epoch;
  EXPECT_EQ(child, redriven);
}

TEST(Edit, TheParkedTaskIsDiscardedAndReplacedOnce) {
  const Task task = task_in(State::parked);
  const Decision d = edit_of(task);
  EXPECT_EQ(d.task.state, State::discarded) << "not parked for ever";
  EXPECT_FALSE(d.task.next_at) << "no copy of it is owed any more";
  EXPECT_EQ(d.task.replaced_by, TaskId{5000});
  EXPECT_EQ(d.task.version, task.version + 1);
  const Decision again = edit_of(d.task);
  EXPECT_EQ(again.verdict, Verdict::refused);
  EXPECT_THAT(again.reason, HasSubstr("replaced by task 5000"));
  EXPECT_EQ(again.child, nullptr);
  EXPECT_THAT(decide(d.task, event::Redrive{}, rules(), at()).reason, HasSubstr("replaced by task 5000"));
  const Task redriven = decide(d.task, event::Redrive{{}, false, true}, rules(), at()).task;
  EXPECT_EQ(redriven.state, State::scheduled);
  EXPECT_EQ(redriven.replaced_by, TaskId{});
}

TEST(Edit, AMessageThatWasNotStoredIsSentByNothingButAnEdit) {
  Task task = task_in(State::parked);
  task.rule = kNotStored;
  task.last_error = "too large; the message is in the queue rung.parked";
  const Happening sends[] = {event::Redrive{}, event::Redrive{{"elsewhere", "", ""}, true, true},
                             event::Fire{}, event::Reschedule{}, event::Claim{}};
  for (const State state : {State::parked, State::succeeded, State::discarded}) {
    task.state = state;
    for (const Happening& what : sends)
      EXPECT_NE(decide(task, what, rules(), at()).verdict, Verdict::applied)
          << to_word(state) << " " << name_of(what);
  }
  task.state = State::parked;
  EXPECT_THAT(decide(task, event::Redrive{}, rules(), at()).reason,
              AllOf(HasSubstr("no body of this message"), HasSubstr("in the queue rung.parked")));
  EXPECT_TRUE(body_stored(edit_of(task).child->task)) << "the edit has given one";
}

TEST(Edit, OnlyParkedTasksWithATarget) {
  for (const State state : {State::scheduled, State::publishing, State::awaiting, State::succeeded,
                            State::cancelled, State::discarded}) {
    const Decision d = edit_of(task_in(state));
    EXPECT_EQ(d.verdict, Verdict::refused) << to_word(state);
    EXPECT_THAT(d.reason, HasSubstr("it is " + std::string(to_word(state)) + "; ")) << "what to do instead";
  }
  Task lost = task_in(State::parked);
  lost.queue.clear();
  EXPECT_THAT(edit_of(lost).reason, HasSubstr("nothing says to which queue it belongs"));
}

TEST(Edit, TheChildGoesToAShardOfTheAskingInstance) {
  Circumstances c = at(kNow, 0);
  c.home_shard = 5;
  EXPECT_EQ(edit_of(task_in(State::parked), c).child->task.shard, 5);
  EXPECT_EQ(edit_of(task_in(State::parked), at(kNow, 0)).child->task.shard, 11) << "no lease: the same one";
}

TEST(Edit, TheDifferenceHasNamesAndSumsButNeitherValuesNorBodies) {
  const auto before = message("old body", {{"same", 1}, {"changed", "a"}, {"gone", true}});
  const auto after =
      message("new body!", {{"same", 1}, {"changed", "Bearer xyz"}, {"fresh", std::int32_t{5}}});
  const MessageDifference d = difference(*before, *after);
  const auto was = nlohmann::json::parse(d.before), is = nlohmann::json::parse(d.after);
  EXPECT_FALSE(was.contains("headers"));
  EXPECT_EQ(is["headers"], (nlohmann::json{{"changed", "changed"}, {"gone", "removed"}, {"fresh", "added"}}))
      << "names alone: a value may be a secret";
  EXPECT_EQ(was["body_bytes"], 8);
  EXPECT_EQ(is["body_bytes"], 9);
  EXPECT_EQ(is["body_sha256"].get<std::string>().size(), 64U);
  EXPECT_EQ((d.before + d.after).find("Bearer"), std::string::npos);
  EXPECT_EQ(d.after.find("new body"), std::string::npos);
  EXPECT_EQ(difference(*before, *before), (MessageDifference{"{}", "{}"}));
  Table many;
  for (int i = 0; i < 256; ++i) many.emplace_back("h" + std::to_string(i), std::string(1000, 'y'));
  const auto bounded = nlohmann::json::parse(difference(*before, *message("", many)).after)["headers"];
  EXPECT_EQ(bounded.size(), kHeadersTold + 1);
  EXPECT_EQ(bounded["(left out)"], 3 + many.size() - kHeadersTold);
}

TEST(Edit, TheContentIsTheSameInAnyOrder) {
  const auto a = message("b", {{"x", 1}, {"y", 2}}), b = message("b", {{"y", 2}, {"x", 1}});
  const std::string origin = edit_origin("ann", {7}, *a, "");
  EXPECT_EQ(content_of_origin(origin, kEdited), edit_content(*b));
  const std::string more = edit_origin("ann", {7}, *a, R"({"removed":{"FailedQ":"sales"}})");
  EXPECT_EQ(content_of_origin(more, kEdited), edit_content(*b));
  EXPECT_NE(more.find("FailedQ"), std::string::npos);
  EXPECT_NE(edit_content(*a), edit_content(*message("c", {{"x", 1}, {"y", 2}})));
  for (const char* other : {"", "[]", "{}", R"({"submitted":{"content":"x"}})", R"({"edited":5})"})
    EXPECT_EQ(content_of_origin(other, kEdited), "") << other;
}

}  // namespace
}  // namespace rung
