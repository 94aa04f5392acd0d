// Retention, from outside: old finished tasks are deleted while messages flow; waiting ones stay.
#include "tests/integration/sidecar/messages.h"
#include "tests/support/old_rows.h"

namespace rung::test {
namespace {

class Retention : public SidecarTest {
 protected:
  // The schema, and old rows in it; nobody runs.
  void prepare() {
    db.open_store();
    parked_ = add_old_rows(db);
  }
  int number(const std::string& sql) { return std::stoi(rows(sql).at(0).at("n")); }
  bool parts_are(const std::string& of_old) {
    return rows(
               "SELECT COALESCE(GROUP_CONCAT(DISTINCT partition_name ORDER BY partition_name), '') AS n FROM "
               "information_schema.partitions WHERE table_schema = '" +
               db.name() + "' AND table_name LIKE 'rung%' AND partition_name IN ('a', 'b')")
               .at(0)
               .at("n") == of_old;
  }
  // Everything that is old but for the parked one, which keeps its part.
  bool all_gone() {
    return number("SELECT COUNT(*) AS n FROM retry_current WHERE queue = 'old'") == 1 && parts_are("b") &&
           number("SELECT COUNT(*) AS n FROM rung_bodies PARTITION (b)") == 1 &&
           number("SELECT COUNT(*) AS n FROM rung_attempts PARTITION (b)") == 2;
  }

  std::string parked_;
};

TEST_F(Retention, WhatIsOldGoesWithItsPartsWhileMessagesFlow) {
  prepare();
  config.more = "retention: 1h\n";
  start();
  const std::string queue = attached();
  int sent = 0;
  ASSERT_TRUE(eventually(
      [&] {
        fail(queue, order());
        report(delivery(queue), "succeeded");
        ++sent;
        return all_gone();
      },
      kBound))
      << rung().log_tail();
  EXPECT_EQ(history(parked_).size(), 2U);
  EXPECT_EQ(rows("SELECT body FROM rung_bodies WHERE task_id = " + parked_).at(0).at("body"), "old body");
  ASSERT_TRUE(eventually([&] {
    return number("SELECT COUNT(*) AS n FROM retry_current WHERE state = 'succeeded' AND queue = '" + queue +
                  "'") == sent;
  })) << "what has just ended stays";
  ASSERT_TRUE(rung().logged("purged finished tasks"));
  const std::string log = rung().log_since_start();
  EXPECT_EQ(log.find("purged finished tasks", log.find("purged finished tasks") + 1), std::string::npos)
      << "one line for all of it";
  EXPECT_NE(log.find("tasks=" + std::to_string(kOldOver + kOldBesideParked)), std::string::npos) << log;
  EXPECT_NE(log.find("partitions=a"), std::string::npos);
}

}  // namespace
}  // namespace rung::test
