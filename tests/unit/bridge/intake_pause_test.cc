#include "src/bridge/intake/intake_pause.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/memory/memory_broker.h"
#include "tests/support/virtual_time.h"

namespace rung::bridge {
namespace {

constexpr Ms kPatience{300};

struct Deliveries final : BrokerSink {
  void on_deliveries(std::vector<Delivery> batch) override { count += batch.size(); }
  void on_published(std::vector<PublishResult>) override {}
  void on_status(const BrokerStatus&) override {}
  void on_topology(const TopologyReport&) override {}
  std::size_t count = 0;
};

class IntakePauseTest : public testing::Test {
 protected:
  bool until(const std::function<bool()>& condition, Ms within = Ms{10'000}) {
    return loop.run_until(condition, within);
  }
  bool paused() { return health.has("intake"); }
  void answers() { answered = clock->boot() + Ms{1}; }

  const std::shared_ptr<test::VirtualClock> clock = std::make_shared<test::VirtualClock>();
  test::VirtualLoop loop{*clock};
  Health health{*clock, [] {}};
  MemoryBroker broker{{}, MemoryBroker::Pace::by_hand, clock};
  BootMs answered = clock->boot();
  bool refuses = false;
  int forgotten = 0;
  std::vector<SystemEvent> events;
  IntakeHolds holds{broker};
  IntakePause pause{loop,
                    {holds, broker.name(), health, [this] { return answered; },
                     [this] { return refuses ? BootMs{0} : answered; }, [this] { ++forgotten; },
                     [this](const char* kind, const std::string& subject, const std::string& detail) {
                       events.push_back({kind, subject, detail});
                     },
                     "node-1"},
                    kPatience};
};

TEST_F(IntakePauseTest, AfterAsLongWithoutAnAnswerUntilThereIsOne) {
  const BootMs from = clock->boot();
  answered = from;
  pause.database_away(true);
  ASSERT_TRUE(until([&] { return paused(); }));
  EXPECT_GE(clock->boot() - from, kPatience);
  EXPECT_EQ(forgotten, 1);
  EXPECT_FALSE(until([&] { return !paused(); }, kPatience * 5)) << "nobody has answered";
  answers();
  refuses = true;
  EXPECT_FALSE(until([&] { return !paused(); }, kPatience * 5)) << "what refuses does not serve";
  refuses = false;
  answers();
  EXPECT_TRUE(until([&] { return !paused(); }));
  pause.database_away(false);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].kind, "intake_paused");
}

// A process that ends before the database has answered must not have used up deliveries.
TEST_F(IntakePauseTest, ItBeginsWithTheDatabasesFirstAnswer) {
  Deliveries sink;
  pause.start();
  ASSERT_TRUE(broker.start(sink));
  broker.put("rung.failed", "", Message{});
  pause.database_away(true);
  EXPECT_FALSE(until([&] { return broker.pump(), sink.count > 0; }, kPatience * 3));
  pause.database_away(false);
  answers();
  EXPECT_TRUE(until([&] { return broker.pump(), sink.count > 0; }));
  EXPECT_TRUE(events.empty()) << "no pause of a database that was there";
  EXPECT_FALSE(paused());
  broker.stop(Ms{0});
}

// One kind of job waits while others complete: a table is locked, or a right is missing.
TEST_F(IntakePauseTest, NotWhileTheDatabaseAnswersSomebody) {
  io::Timer somebody(loop, [this] { answered = clock->boot(); });
  somebody.start(Ms{0}, kPatience / 2);
  pause.database_away(true);
  EXPECT_FALSE(until([&] { return paused(); }, kPatience * 5));
  somebody.stop();
  pause.database_away(false);
  answered = BootMs{0};  // no job was sent to it
  EXPECT_FALSE(until([&] { return paused(); }, kPatience * 3));
}

// An instance whose database comes and goes does not get all messages each time.
TEST_F(IntakePauseTest, LongerEachTimeWhereTheDatabaseComesAndGoes) {
  std::vector<Ms> lengths;
  for (int i = 0; i < 3; ++i) {
    answered = BootMs{0};
    pause.database_away(true);
    ASSERT_TRUE(until([&] { return paused(); }));
    const BootMs from = clock->boot();
    answers();
    pause.database_away(false);
    ASSERT_TRUE(until([&] { return !paused(); }));
    lengths.push_back(clock->boot() - from);
  }
  EXPECT_GE(lengths[1], kPatience);
  EXPECT_GE(lengths[2], kPatience * 2);
}

TEST_F(IntakePauseTest, NothingIsDoneWhileDraining) {
  pause.database_away(true);
  pause.drain();
  answered = BootMs{0};
  EXPECT_FALSE(until([&] { return paused(); }, kPatience * 3));
}

}  // namespace
}  // namespace rung::bridge
