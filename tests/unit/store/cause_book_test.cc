#include <gtest/gtest.h>

#include <string>

#include "src/store/causes.h"

namespace rung {
namespace {

TEST(CauseBook, FailuresThatDifferInOneThingOnlyHaveDifferentCauses) {
  const CauseBook book;
  const CauseOf failure{"orders", "Timeout", "the warehouse does not answer"};
  const std::string id = book.find(failure, "text").id;
  EXPECT_EQ(book.find(failure, "text").id, id);
  EXPECT_NE(book.find({"mails", failure.error_type, failure.error}, "text").id, id);
  EXPECT_NE(book.find({failure.queue, "Refused", failure.error}, "text").id, id);
  EXPECT_NE(book.find(failure, "another").id, id);
}

TEST(CauseChanges, FollowTheConfig) {
  const CauseBook book(std::make_shared<const CauseRules>(
      std::vector<CauseRule>{{*parse_rule_regex("/quota/"), "over quota"}}));
  CauseChanges changes(book);
  EXPECT_EQ(changes.text_of("the quota of Ann is used up"), "over quota");
  EXPECT_EQ(changes.text_of("no quota"), "over quota");
  EXPECT_EQ(changes.text_of("order 7 is lost"), "order * is lost");
}

TEST(CauseChanges, AFailureAfterWhichARuleMovedTheTaskIsOfTheQueueWhereItFailed) {
  const CauseBook book;
  CauseChanges changes(book);
  const std::string of_orders =
      book.find({"orders", "Timeout", "no answer"}, changes.text_of("no answer")).id;
  NewTask fresh;
  fresh.task.queue = "slow";
  fresh.task.moved_from = "orders";
  fresh.task.error_type = "Timeout";
  fresh.task.last_error = "no answer";
  fresh.task.first_failed_at = {1};
  EXPECT_EQ(changes.inserted(fresh), of_orders);

  Task before = fresh.task;
  before.queue = "orders";
  Decision failed{Decision::Verdict::applied, "", fresh.task, Attempt{}};
  failed.attempt->outcome = Outcome::failed;
  failed.attempt->error = "no answer";
  changes.decided(before, failed);
  EXPECT_EQ(failed.task.cause, of_orders);
}

}  // namespace
}  // namespace rung
