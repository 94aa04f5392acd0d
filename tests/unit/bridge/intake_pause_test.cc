#include <gtest/gtest.h>

#include "src/bridge/intake/intake.h"
#include "tests/unit/bridge/flow_fixture.h"

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

// A database that answers, and serves, when the test says so.
struct Answering final : StoreJobs {
  explicit Answering(BootMs now) : at(now) {}
  BootMs answered() const override { return at; }
  BootMs served() const override { return refuses ? BootMs{0} : at; }
  void stop() override {}
  bool join(Ms) override { return true; }
  void enqueue(Lane, Job) override {}
  BootMs at;
  bool refuses = false;
};

class IntakePauseTest : public testing::Test {
 protected:
  bool until(const std::function<bool()>& condition, Ms within = Ms{10'000}) {
    return loop.run_until(condition, within);
  }
  bool paused() { return flow.health.has("intake"); }
  void answers() { jobs.at = clock->boot() + Ms{1}; }

  World world;
  const std::shared_ptr<test::VirtualClock> clock = world.clock;
  test::VirtualLoop& loop = world.loop;
  Flow flow{world};
  const std::vector<SystemEvent>& events = flow.events;
  MemoryBroker broker{{}, MemoryBroker::Pace::by_hand, clock};
  Answering jobs{clock->boot()};
  const BridgeSettings settings{.lease = kPatience};
  const Sidecar sidecar{settings,     loop,          broker,           jobs,
                        flow.table,   world.rules,   flow.clock,       flow.names,
                        flow.health,  flow.record,   flow.attachments, flow.store_watch,
                        flow.proof,   flow.gates,    flow.counts,      flow.outbox,
                        flow.acks,    flow.shards,   flow.left,        flow.transitions,
                        flow.inserts, flow.dispatch, flow.horizon,     flow.intake};
  IntakeHolds holds{broker};
  IntakePause pause{sidecar, holds};
};

TEST_F(IntakePauseTest, AfterAsLongWithoutAnAnswerUntilThereIsOne) {
  ASSERT_TRUE(flow.put_failed("orders"));
  ASSERT_TRUE(until([&] { return flow.acks.unacked() == 1; })) << "no shard is held: it waits";
  const BootMs from = clock->boot();
  jobs.at = from;
  pause.database_away(true);
  ASSERT_TRUE(until([&] { return paused(); }));
  EXPECT_GE(clock->boot() - from, kPatience);
  EXPECT_EQ(flow.acks.unacked(), 0U) << "the broker has them again";
  EXPECT_FALSE(until([&] { return !paused(); }, kPatience * 5)) << "nobody has answered";
  answers();
  jobs.refuses = true;
  EXPECT_FALSE(until([&] { return !paused(); }, kPatience * 5)) << "what refuses does not serve";
  jobs.refuses = false;
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
  io::Timer somebody(loop, [this] { jobs.at = clock->boot(); });
  somebody.start(Ms{0}, kPatience / 2);
  pause.database_away(true);
  EXPECT_FALSE(until([&] { return paused(); }, kPatience * 5));
  somebody.stop();
  pause.database_away(false);
  jobs.at = BootMs{0};  // no job was sent to it
  EXPECT_FALSE(until([&] { return paused(); }, kPatience * 3));
}

// An instance whose database comes and goes does not get all messages each time.
TEST_F(IntakePauseTest, LongerEachTimeWhereTheDatabaseComesAndGoes) {
  std::vector<Ms> lengths;
  for (int i = 0; i < 3; ++i) {
    jobs.at = BootMs{0};
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
  jobs.at = BootMs{0};
  EXPECT_FALSE(until([&] { return paused(); }, kPatience * 3));
}

// A look, by which a queue of ours has this delivery limit; 0 = none has one.
AttachmentLook limit(std::int64_t deliveries) {
  AttachmentLook look;
  look.limit = deliveries > 0 ? DeliveryLimit{"rung.failed", deliveries} : DeliveryLimit{};
  return look;
}
AttachmentLook no_answer() { return {}; }

class CrashLoopTest : public testing::Test {
 protected:
  // One start. It ends as a crash does, unless it is drained.
  struct Start {
    explicit Start(CrashLoopTest& test) : holds(test.flow.broker), guard(test.flow.sidecar, holds) {
      guard.start();
    }
    IntakeHolds holds;
    CrashLoop guard;
  };
  bool consumes(Start& start, Ms within) {
    return loop.run_until([&] { return !start.holds.held(); }, within);
  }
  void crash(int times) {
    for (int i = 0; i < times; ++i) {
      Start start(*this);
      loop.run_until([] { return false; }, Ms{50});
    }
  }

  World world;
  Flow flow{world};
  test::VirtualLoop& loop = world.loop;
};

TEST_F(CrashLoopTest, TheFirstStartConsumesAtOnce) {
  Start start(*this);
  EXPECT_TRUE(consumes(start, Ms{100}));
}

TEST_F(CrashLoopTest, AfterAFewThatWereNotFinishedThereIsAPauseThatGrows) {
  crash(3);
  Start fourth(*this);
  fourth.guard.looked(limit(0));
  EXPECT_FALSE(consumes(fourth, Ms{5'900}));
  EXPECT_TRUE(consumes(fourth, Ms{300}));
  crash(2);
  Start seventh(*this);
  seventh.guard.looked(no_answer());
  EXPECT_FALSE(consumes(seventh, Ms{8'900}));
  EXPECT_TRUE(consumes(seventh, Ms{300}));
}

TEST_F(CrashLoopTest, AtHalfOfAKnownLimitNothingIsConsumedUntilItIsGone) {
  crash(3);
  Start start(*this);
  start.guard.looked(limit(6));
  EXPECT_FALSE(consumes(start, Ms{600'000}));
  EXPECT_TRUE(flow.health.has("crash_loop"));
  ASSERT_EQ(flow.events.size(), 1U);
  EXPECT_EQ(flow.events[0].kind, "intake_stopped");
  start.guard.looked(no_answer());  // the management API does not answer
  EXPECT_FALSE(consumes(start, Ms{1'000}));
  start.guard.looked(limit(0));
  EXPECT_TRUE(consumes(start, Ms{100}));
  EXPECT_FALSE(flow.health.has("crash_loop"));
}

// The first look may fail, or come late.
TEST_F(CrashLoopTest, ALimitThatIsFoundLaterStopsItToo) {
  crash(3);
  Start start(*this);
  start.guard.looked(no_answer());
  EXPECT_FALSE(consumes(start, Ms{500}));  // it pauses
  start.guard.looked(limit(6));
  EXPECT_FALSE(consumes(start, Ms{600'000}));
  EXPECT_TRUE(flow.health.has("crash_loop"));
}

TEST_F(CrashLoopTest, AfterAMinuteOfIntakeOrADrainTheCountBeginsAnew) {
  crash(5);
  {
    Start start(*this);
    start.guard.looked(no_answer());
    ASSERT_TRUE(consumes(start, CrashLoop::kLongestPause));
    loop.run_until([] { return false; }, CrashLoop::kStable + Ms{100});
  }
  Start next(*this);
  EXPECT_TRUE(consumes(next, Ms{100}));
  next.guard.drain();
  loop.run_until([] { return false; }, Ms{50});
  EXPECT_EQ(world.eyes->setting("intake_starts a", ""), "") << "no row is left behind";
  Start last(*this);
  EXPECT_TRUE(consumes(last, Ms{100}));
}

TEST_F(CrashLoopTest, WithoutAnyLookItWaitsOnlyAWhile) {
  crash(1);
  Start start(*this);
  EXPECT_FALSE(consumes(start, CrashLoop::kLookTakes - Ms{100}));
  EXPECT_TRUE(consumes(start, Ms{300}));
}

}  // namespace
}  // namespace rung::bridge
