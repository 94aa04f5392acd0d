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

}  // namespace
}  // namespace rung
