// A backup is made under traffic, work goes on, and the backup is read in beside the running sidecars, as
// `mysql < dump` does it. docs/backup.md has the figures that this prints.
#include <cstdlib>
#include <filesystem>
#include <map>

#include "tests/integration/trouble/fixture.h"

namespace rung::test {
namespace {

class Restored : public TroubleTest {
 protected:
  Restored() {
    config.ladder = "[3s, 1h]";
    config.more = "lease: 4s\n";
  }
  ~Restored() override { std::filesystem::remove(dump_); }

  // `program`: the variable that names the database's client, or its dump program.
  void run(const char* program, const std::string& arguments) {
    const char* path = std::getenv(program);
    ASSERT_NE(path, nullptr) << program << " is not set: tests/servers start DIR";
    const Ran ran = run_shell("'" + std::string(path) + "' 2>&1 " + arguments);
    ASSERT_EQ(ran.code, 0) << ran.out;
  }
  // --replace: the sidecars write between two statements of the dump, too.
  void back_up() {
    run("RUNG_TEST_DUMP", "--single-transaction --replace '" + db.name() + "' > '" + dump_ + "'");
  }
  void restore() { run("RUNG_TEST_SQL", "'" + db.name() + "' < '" + dump_ + "'"); }
  std::int64_t tasks(const std::string& condition = "TRUE") {
    return std::stoll(db.value("SELECT COUNT(*) FROM retry_current WHERE " + condition));
  }

  const std::string dump_ = std::filesystem::temp_directory_path() / (unique_name("dump") + ".sql");
};

TEST_F(Restored, TheSidecarsSayItGoOnAndPublishAgainWhatTheDumpSaysIsDue) {
  begin();
  back_up();
  // A sidecar knows that the database went back by a heartbeat that the dump does not have.
  db.exec("CREATE TABLE beats_in_dump AS SELECT id, beats FROM rung_nodes");
  ASSERT_TRUE(eventually(
      [&] {
        return db.value(
                   "SELECT COUNT(*) FROM rung_nodes n JOIN beats_in_dump d ON d.id = n.id "
                   "WHERE n.beats > d.beats + 1") == "2";
      },
      kBound));
  // And that something comes again is sure once all that waited in the dump has been delivered.
  const std::size_t in_dump = traffic->count();
  ASSERT_TRUE(eventually([&] { return amqp.depth(queue).value_or(0) >= in_dump; }, kBound));
  restore();
  for (Sidecar* one : {&rung(), second.get()}) {
    EXPECT_TRUE(one->logged("the database went back in time")) << one->log_tail();
    EXPECT_TRUE(one->running());
    EXPECT_EQ(one->log().find("another process runs as node"), std::string::npos);
  }
  ASSERT_TRUE(eventually([&] { return both_ready(); }, kBound)) << ready(ports[0]).body;
  EXPECT_TRUE(has_problem(ready(ports[0]), "restored"));
  const std::string events = "SELECT COUNT(*) FROM retry_events WHERE kind = 'database_restored'";
  EXPECT_TRUE(eventually([&] { return db.value(events) == "2"; }, kBound)) << db.value(events);
  // All that is confirmed from here on stands in the restored database.
  const std::size_t before = traffic->count();
  ASSERT_TRUE(eventually([&] { return traffic->count() > before + 60; }, kBound));
  traffic->stop();
  // What the dump says is being published is found a minute later, as what nobody has in hand: JanitorStory.
  const std::string since = "CAST(SUBSTRING(message_id, 3) AS UNSIGNED) >= " + std::to_string(before);
  EXPECT_TRUE(eventually(
      [&] {
        return tasks(since) >= static_cast<std::int64_t>(traffic->count() - before) &&
               tasks("state = 'scheduled'") == 0 && tasks("state = 'publishing' AND " + since) == 0;
      },
      kBound))
      << tasks("state = 'scheduled'") << " are scheduled";

  std::map<std::string, std::map<std::string, int>> seen;  // body -> retry-id/attempt -> deliveries
  std::size_t deliveries = 0, repeats = 0;
  while (auto received = amqp.get(queue)) {
    ++deliveries;
    const std::string name = retry_id(*received) + "/" + text_header(received->message, "retry-attempt") +
                             std::to_string(int_header(received->message, "retry-attempt"));
    if (++seen[received->message.body][name] > 1) ++repeats;
    amqp.ack(*received);
  }
  std::size_t gone = 0;
  for (std::size_t i = 0; i < traffic->count(); ++i) gone += seen.contains("m-" + std::to_string(i)) ? 0 : 1;
  for (const auto& [body, names] : seen) EXPECT_EQ(names.size(), 1U) << body << " came back under two names";
  EXPECT_GT(repeats, 0U) << "what was scheduled in the dump is due again";
  for (std::size_t i = before; i < traffic->count(); ++i)
    EXPECT_TRUE(seen.contains("m-" + std::to_string(i))) << "m-" << i << " was confirmed after the restore";
  std::printf("published %zu, delivered %zu times, %zu of them repeats, %zu gone (never delivered)\n",
              traffic->count(), deliveries, repeats, gone);
}

}  // namespace
}  // namespace rung::test
