// The row that a task gets in another group's database.
#include "src/core/machine/moved.h"

#include <gtest/gtest.h>

#include "src/core/machine/edit.h"
#include "src/core/machine/submission.h"
#include "tests/unit/core/machine_fixture.h"

namespace rung {
namespace {

using namespace rung::testing;

const MovedFrom kOldRow{"eu", {17}, 5};

NewTask moved(const Task& task, const std::string& origin = "{}") {
  return moved_task(task, std::make_shared<const Message>(), origin, kOldRow, "ann@vm (cli)");
}

TEST(Moved, ATaskGoesOnWhereItStood) {
  Task old = task_in(State::scheduled);
  old.kind = Kind::delay;
  old.ladder_pinned = true;
  old.uncounted_attempts = 1;
  old.last_error = "boom";
  old.digest = "0123456789abcdef";
  Task expected = old;
  old.version = 5;
  old.epoch = 7;
  old.node = 3;
  old.probe = 2;
  old.copy_number = 4;
  old.parent = {99};
  old.cause = "9f2c41d07ab3";
  expected.version = 1;
  expected.epoch = 0;
  expected.node = 0;
  EXPECT_TRUE(moved(old).task == expected);
}

TEST(Moved, TheOriginNamesTheOldRow) {
  const NewTask made = moved(task_in(State::scheduled), R"({"retry-error":"boom"})");
  EXPECT_EQ(moved_from_origin(made.origin_json), kOldRow);
  EXPECT_NE(made.origin_json.find("boom"), std::string::npos);
  for (const char* other : {"", "{}", "[1]", R"({"moved":{"from":"eu","id":"x","version":5}})",
                            R"({"moved":{"from":1,"id":"17","version":5}})"})
    EXPECT_FALSE(moved_from_origin(other)) << other;
}

TEST(Moved, AChangedRowIsAnotherCopy) {
  const MovedFrom changed{"eu", {17}, 6}, of_us{"us", {17}, 5};
  EXPECT_EQ(moved(task_in(State::scheduled)).intake_key, moved_key(kOldRow));
  EXPECT_NE(moved_key(kOldRow), moved_key(changed));
  EXPECT_NE(moved_key(kOldRow), moved_key(of_us));
}

TEST(Moved, ASubmittedTaskKeepsItsKey) {
  Task old = task_in(State::scheduled);
  old.message_id = "close-17";
  const std::string origin = submission_origin("ann", "c0ffee");
  EXPECT_EQ(moved(old, origin).intake_key, submission_key("close-17"));
  EXPECT_EQ(content_of_origin(moved(old, origin).origin_json), "c0ffee");
  old.message_id.clear();
  EXPECT_EQ(moved(old, origin).intake_key, moved_key(kOldRow));
}

TEST(Moved, AnEditedCopyIsNotWhatWasSubmitted) {
  Task old = task_in(State::scheduled);
  old.message_id = "close-17";
  const std::string origin = edit_origin("ann", {16}, Message{}, submission_origin("ann", "c0ffee"));
  EXPECT_EQ(moved(old, origin).intake_key, moved_key(kOldRow));
}

TEST(Moved, OfTwoRowsOfOneSubmissionBothMove) {
  Task old = task_in(State::scheduled);
  old.message_id = "close-17";
  const std::string submitted = submission_origin("ann", "c0ffee");
  const NewTask made = moved(old, submitted);
  const auto there = [&](const MovedFrom& from) {
    return moved_task(old, made.message, submitted, from, "ann").origin_json;
  };
  EXPECT_TRUE(is_same_task(made, old, made.origin_json));
  EXPECT_FALSE(is_same_task(made, old, there({"eu", {18}, 5}))) << "another row";
  EXPECT_FALSE(is_same_task(made, old, there({"eu", {17}, 4}))) << "it has changed since";
  EXPECT_TRUE(is_same_task(made, old, there({"asia", {18}, 5}))) << "submitted in two groups";
  EXPECT_TRUE(is_same_task(made, old, submitted)) << "submitted there, too";
  EXPECT_FALSE(is_same_task(made, old, submission_origin("ann", "beef")));
  old.state = State::cancelled;
  EXPECT_FALSE(is_same_task(made, old, submitted)) << "it sends nothing";
}

TEST(Moved, OnlyTheMoveItselfMovesARowAway) {
  Task task = task_in(State::scheduled);
  task.version = 5;
  EXPECT_FALSE(is_moved_away(task, kOldRow, "us"));
  task = decide(task, event::Cancel{moved_reason("us")}, rules(), at()).task;
  EXPECT_TRUE(is_moved_away(task, kOldRow, "us"));
  EXPECT_FALSE(is_moved_away(task, kOldRow, "asia"));
  EXPECT_FALSE(is_moved_away(task, {"eu", {17}, 4}, "us")) << "it had changed before";
  task.last_error = "paid by hand";
  EXPECT_FALSE(is_moved_away(task, kOldRow, "us"));
}

}  // namespace
}  // namespace rung
