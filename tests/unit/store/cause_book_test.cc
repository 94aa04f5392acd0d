#include <gtest/gtest.h>

#include "src/store/causes.h"

namespace rung {
namespace {

// The book remembers the fingerprint of the last failure.
TEST(CauseBook, FailuresThatDifferInOneThingOnlyHaveDifferentCauses) {
  const CauseBook book;
  const CauseOf failure{"orders", "Timeout", "the warehouse does not answer"};
  const std::string id = book.find(failure).id;
  EXPECT_EQ(book.find(failure).id, id);
  EXPECT_NE(book.find({"mails", failure.error_type, failure.error}).id, id);
  EXPECT_EQ(book.find(failure).id, id);
  EXPECT_NE(book.find({failure.queue, "Refused", failure.error}).id, id);
  EXPECT_EQ(book.find(failure).id, id);
  EXPECT_NE(book.find({failure.queue, failure.error_type, "the warehouse is closed"}).id, id);
  EXPECT_EQ(book.find(failure).id, id);
}

TEST(CauseChanges, AFailureAfterWhichARuleMovedTheTaskIsOfTheQueueWhereItFailed) {
  const CauseBook book;
  const std::string of_orders = book.find({"orders", "Timeout", "no answer"}).id;
  NewTask fresh;
  fresh.task.queue = "slow";
  fresh.task.moved_from = "orders";
  fresh.task.error_type = "Timeout";
  fresh.task.last_error = "no answer";
  fresh.task.first_failed_at = {1};
  CauseChanges changes(book);
  EXPECT_EQ(changes.of(fresh), of_orders);

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
