// The parts of the history's tables: made of tables full of rows, met by each statement one at a time, and
// changed while others are at work.
#include <atomic>
#include <chrono>
#include <thread>

#include "sql/sql.h"
#include "src/core/base/url.h"
#include "tests/integration/sql/fixture.h"
#include "tests/support/clock.h"

namespace rung::test {
namespace {

class PartsTest : public testing::Test {
 protected:
  PartsTest() {
    store_ = schema_.open_store();
    schema_.exec("USE " + schema_.name());
    now_ = store_->now();
    std::vector<Partition> days;
    for (int i = 3; i < 10; ++i)
      days.push_back({"d" + std::to_string(i), {}, IdSource::floor({now_.ms / kDay * kDay + i * kDay})});
    EXPECT_EQ(store_->add_partitions(days), PartitionsAdded::added);
  }
  Partition part(const std::string& name) {
    const auto parts = store_->partitions();
    const auto it = std::ranges::find(parts, name, &Partition::name);
    if (it == parts.end()) throw std::runtime_error("no part " + name);
    return *it;
  }
  // The id of somebody's task in so many days.
  std::string id(int day) const {
    return std::to_string(IdSource::floor({now_.ms / kDay * kDay + day * kDay + kDay / 2}).value);
  }
  void insert(int day) {
    schema_.exec("INSERT INTO rung_tasks (id) VALUES (" + id(day) + ")");
    schema_.exec("INSERT INTO rung_bodies VALUES (" + id(day) + ", '{}', NULL, '{}', 'x')");
    schema_.exec("INSERT INTO rung_attempts (task_id, attempt, level, due_at) VALUES (" + id(day) +
                 ", 1, 1, UTC_TIMESTAMP(3))");
  }
  // The parts that a statement reads of rung_attempts or rung_bodies, by the server's word.
  std::vector<std::string> met(const std::string& statement) {
    std::vector<std::string> out;
    for (const auto& row : schema_.explain(statement)) {
      if (row.at("partitions") != "NULL") out.push_back(row.at("partitions"));
    }
    return out;
  }

  static constexpr std::int64_t kDay = 24LL * 3600 * 1000;
  MysqlSchema schema_;
  std::unique_ptr<MysqlStore> store_;
  EpochMs now_;
};

TEST_F(PartsTest, EachStatementMeetsOne) {
  for (const int day : {4, 6}) insert(day);
  using testing::ElementsAre;
  const std::string one = id(4), two = id(6);
  EXPECT_THAT(met("SELECT body FROM rung_bodies WHERE task_id IN (" + one + ")"), ElementsAre("d5"));
  EXPECT_THAT(met("SELECT body FROM rung_bodies WHERE task_id IN (" + one + "," + two + ")"),
              ElementsAre("d5,d7"));
  EXPECT_THAT(
      met("SELECT * FROM rung_attempts a JOIN rung_tasks t ON t.id = a.task_id WHERE a.task_id = " + one),
      ElementsAre("d5"));
  EXPECT_THAT(met("SELECT * FROM retry_history WHERE retry_id = " + one), ElementsAre("d5"));
  EXPECT_THAT(met("DELETE FROM rung_attempts WHERE (task_id = " + one + " AND attempt = 1)"),
              ElementsAre("d5"));
  EXPECT_THAT(met("DELETE b FROM rung_bodies b FORCE INDEX (PRIMARY) WHERE b.task_id IN (" + one + ")"),
              ElementsAre("d5"));
  EXPECT_THAT(met("SELECT DISTINCT task_id FROM rung_attempts WHERE task_id >= " + id(4) + " AND task_id < " +
                  id(5) + " ORDER BY task_id LIMIT 10"),
              ElementsAre("d5,d6"));
}

TEST_F(PartsTest, AnOpenTransactionIsNotWaitedForAndNobodyWaitsBehindIt) {
  insert(4);
  schema_.exec("DELETE FROM rung_tasks");
  const Partition day = part("d5");
  MysqlSchema other;  // its connection alone is of use
  other.exec("BEGIN");
  other.exec("INSERT INTO " + schema_.name() + ".rung_attempts (task_id, attempt, level, due_at) VALUES (" +
             id(8) + ", 1, 1, UTC_TIMESTAMP(3))");
  // Meanwhile somebody works on.
  std::atomic<bool> stop{false}, failed{false};
  std::atomic<int> inserts{0};
  std::thread worker([&] {
    MysqlSchema another;
    for (int i = 0; !stop; ++i) {
      try {
        another.exec("INSERT INTO " + schema_.name() + ".rung_bodies VALUES (" + std::to_string(i + 1) +
                     ", '{}', NULL, '{}', 'x')");
      } catch (const std::exception&) {
        failed = true;
      }
      ++inserts;
    }
  });
  const auto soon = [&](int more) {
    const int from = inserts;
    while (inserts < from + more) std::this_thread::sleep_for(Ms{1});
  };
  soon(5);
  EXPECT_EQ(store_->drop_partition(day), PartitionDrop::busy);
  std::vector<Partition> later{{"d99", {}, {store_->partitions().back().end.value + 1}}};
  EXPECT_EQ(store_->add_partitions(later), PartitionsAdded::busy);
  soon(5);
  EXPECT_EQ(schema_.value("SELECT COUNT(*) FROM rung_bodies WHERE task_id = " + id(4)), "1")
      << "all or nothing";
  other.exec("COMMIT");
  EXPECT_EQ(store_->drop_partition(day), PartitionDrop::dropped);
  EXPECT_EQ(store_->add_partitions(later), PartitionsAdded::added);
  stop = true;
  worker.join();
  EXPECT_FALSE(failed);
  EXPECT_EQ(schema_.value("SELECT COUNT(*) FROM rung_bodies WHERE task_id = " + id(4)), "0");
}

TEST_F(PartsTest, ATaskThatCameInMeanwhileKeepsItsDay) {
  // Not committed when the part is looked at: it is seen all the same, for the drop waits for it.
  MysqlSchema other;
  other.exec("BEGIN");
  other.exec("INSERT INTO " + schema_.name() + ".rung_tasks (id) VALUES (" + id(4) + ")");
  other.exec("INSERT INTO " + schema_.name() + ".rung_bodies VALUES (" + id(4) + ", '{}', NULL, '{}', 'x')");
  std::thread committer([&] {
    // When the drop waits for the table, or has given up: this is slow.
    for (int i = 0; i < 1000; ++i) {
      if (schema_.value("SELECT COUNT(*) FROM " + schema_.processlist() +
                        " WHERE info LIKE 'LOCK TABLES%'") != "0")
        break;
    }
    other.exec("COMMIT");
  });
  const auto end = store_->drop_partition(part("d5"));
  committer.join();
  EXPECT_NE(end, PartitionDrop::dropped);
  EXPECT_EQ(schema_.value("SELECT COUNT(*) FROM rung_bodies WHERE task_id = " + id(4)), "1");
}

TEST_F(PartsTest, ATaskWhoseBodyComesAfterTheDropKeepsIt) {
  MysqlSchema other;
  other.exec("BEGIN");
  other.exec("INSERT INTO " + schema_.name() + ".rung_tasks (id) VALUES (" + id(4) + ")");
  EXPECT_EQ(store_->drop_partition(part("d5")), PartitionDrop::dropped);
  other.exec("INSERT INTO " + schema_.name() + ".rung_bodies VALUES (" + id(4) + ", '{}', NULL, '{}', 'x')");
  other.exec("COMMIT");
  EXPECT_EQ(schema_.value("SELECT COUNT(*) FROM rung_bodies PARTITION (d6)"), "1");
  EXPECT_EQ(store_->drop_partition(part("d6")), PartitionDrop::kept);
}

TEST_F(PartsTest, OfTwoThatDifferOnlyWhatIsOfTheSameEndGoes) {
  // As two that were made by hand, or on two days.
  insert(4);
  schema_.exec("ALTER TABLE rung_bodies REORGANIZE PARTITION d5, d6 INTO (PARTITION d5 VALUES LESS THAN (" +
               std::to_string(part("d6").end.value) + "))");
  schema_.exec("UPDATE rung_tasks SET id = " + id(5));
  schema_.exec("UPDATE rung_bodies SET task_id = " + id(5));
  EXPECT_EQ(store_->drop_partition(part("d5")), PartitionDrop::dropped);
  EXPECT_EQ(schema_.value("SELECT COUNT(*) FROM rung_bodies"), "1");
}

TEST_F(PartsTest, ALastPartThatHoldsMuchIsLeftAlone) {
  const TaskId last = store_->partitions().back().end;
  const std::vector<Partition> later{{"x", {}, {last.value + 1'000'000}}};
  schema_.exec("CREATE TABLE digits (d INT PRIMARY KEY)");
  schema_.exec("INSERT INTO digits VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9)");
  schema_.exec(
      "INSERT INTO rung_bodies SELECT " + std::to_string(last.value) +
      " + a.d + 10 * b.d + 100 * c.d + 1000 * e.d, '{}', NULL, '{}', 'x' FROM digits a, digits b, digits c, "
      "digits e");
  EXPECT_EQ(store_->add_partitions(later), PartitionsAdded::added) << "10,000 are moved";
  const std::vector<Partition> further{{"y", {}, {last.value + 2'000'000}}};
  schema_.exec(
      "INSERT INTO rung_bodies SELECT " + std::to_string(last.value + 1'000'000) +
      " + a.d + 10 * b.d + 100 * c.d + 1000 * e.d, '{}', NULL, '{}', 'x' FROM digits a, digits b, digits c, "
      "digits e");
  schema_.exec("INSERT INTO rung_bodies VALUES (" + std::to_string(last.value + 1'500'000) +
               ", '{}', NULL, '{}', 'x')");
  EXPECT_EQ(store_->add_partitions(further), PartitionsAdded::full);
  EXPECT_EQ(store_->partitions().back().name, "x");
}

}  // namespace
}  // namespace rung::test
