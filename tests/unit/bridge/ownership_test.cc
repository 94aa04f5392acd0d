// One database serves one place of one broker, and a place has one database.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "src/bridge/bridge.h"
#include "src/core/machine/headers.h"
#include "src/store/store.h"
#include "tests/support/memory/memory_broker.h"
#include "tests/support/memory/memory_store.h"
#include "tests/support/virtual_time.h"

namespace rung::bridge {
namespace {

// Shared by the sidecars of a test.
struct OwnedWorld {
  const std::shared_ptr<test::VirtualClock> clock = std::make_shared<test::VirtualClock>();
  test::VirtualLoop loop{*clock};
  std::vector<MemoryBroker*> brokers;
  OwnedWorld() {
    loop.after_each([this] {
      for (MemoryBroker* broker : brokers) {
        while (broker->pump()) {
        }
      }
    });
  }
};

// A sidecar with the broker that its config names.
struct OwnedSidecar {
  OwnedSidecar(OwnedWorld& its_world, MemoryBroker& its_broker, std::shared_ptr<MemoryDb> its_db,
               const std::string& name = "a")
      : world(its_world), broker(its_broker), db(std::move(its_db)) {
    BridgeSettings settings;
    settings.identity = {name, "0", "here", std::hash<std::string>{}(name) | 1U};
    settings.lease = Ms{3000};
    settings.heartbeat = Ms{500};
    const QueueRules defaults{.ladder = "default", .silence = {}};
    const auto rules =
        std::make_shared<RuleBook>(RuleBook::Ladders{{"default", *levels::Ladder::from_list({Ms{1000}})}},
                                   RuleBook::Queues{}, RuleBook::Tags{}, defaults);
    broker.declare("orders");
    if (std::ranges::find(world.brokers, &broker) == world.brokers.end()) world.brokers.push_back(&broker);
    bridge = std::make_unique<Bridge>(
        world.loop, broker,
        [this](StoreJobs::OnStatus on_status) {
          return std::make_unique<test::VirtualJobs>(
              world.loop, [this] { return open_memory_store(db); }, std::move(on_status));
        },
        settings, rules, [] {});
  }
  ~OwnedSidecar() {
    bridge->stop(Ms{5000});
    std::erase(world.brokers, &broker);
  }
  void start() { ASSERT_TRUE(bridge->start()); }
  bool serves() { return bridge->vitals().shards > 0 && problem().empty(); }
  std::string problem() const {
    for (const HealthProblem& one : bridge->vitals().problems) {
      if (one.name == "ownership") return one.not_ready ? one.detail : "ready: " + one.detail;
    }
    return "";
  }
  bool until(const std::function<bool()>& condition, Ms most = Ms{20'000}) {
    return world.loop.run_until(condition, most);
  }

  OwnedWorld& world;
  MemoryBroker& broker;
  const std::shared_ptr<MemoryDb> db;
  std::unique_ptr<Bridge> bridge;
};

class OwnershipTest : public testing::Test {
 protected:
  std::shared_ptr<MemoryDb> database() { return std::make_shared<MemoryDb>(world.clock, ++seed_); }
  static bool put_failed(MemoryBroker& to, const std::string& failed = "rung.failed") {
    Message message{{}, Table{}, "body"};
    message.headers->emplace_back(std::string(header::kQueue), "orders");
    return to.put(failed, "", message);
  }
  std::size_t tasks(const std::shared_ptr<MemoryDb>& db) { return open_memory_store(db)->list({}).size(); }

  OwnedWorld world;
  MemoryBroker broker{{}, MemoryBroker::Pace::by_hand, world.clock};

 private:
  std::uint64_t seed_ = 0;
};

TEST_F(OwnershipTest, TheFirstSidecarMarksBothSides) {
  OwnedSidecar a(world, broker, database());
  a.start();
  ASSERT_TRUE(a.until([&] { return a.serves(); }));
  const Ownership ownership = look_at_ownership(*open_memory_store(a.db));
  ASSERT_TRUE(ownership.serves);
  EXPECT_EQ(describe(*ownership.serves), "broker 'memory', virtual host '/', prefix 'rung'");
  EXPECT_EQ(broker.owner(), ownership.database);
  EXPECT_EQ(broker.served(), "memory");
  ASSERT_TRUE(put_failed(broker));
  EXPECT_TRUE(a.until([&] { return broker.depth("orders") == 1; }));
}

TEST_F(OwnershipTest, ASecondSidecarOfTheSameInstallationServesToo) {
  const auto db = database();
  OwnedSidecar a(world, broker, db);
  a.start();
  ASSERT_TRUE(a.until([&] { return a.serves(); }));
  MemoryBroker same({}, MemoryBroker::Pace::by_hand, world.clock);  // another client of it
  same.become("memory", broker.owner());
  OwnedSidecar b(world, same, db, "b");
  b.start();
  EXPECT_TRUE(b.until([&] { return b.serves(); }));
}

// A copied config: the tasks of one place would go into the queues of the other.
class AnotherPlace : public OwnershipTest {
 protected:
  void expect_refused(MemoryBroker& other, const std::string& named,
                      const std::string& failed = "rung.failed") {
    const auto db = database();
    OwnedSidecar a(world, broker, db);
    a.start();
    ASSERT_TRUE(a.until([&] { return a.serves(); }));
    OwnedSidecar b(world, other, db, "b");
    b.start();
    ASSERT_TRUE(put_failed(other, failed));
    ASSERT_TRUE(b.until([&] { return !b.problem().empty(); }));
    world.loop.run_for(Ms{60'000});
    EXPECT_EQ(b.bridge->vitals().shards, 0);
    EXPECT_EQ(tasks(db), 0U);
    EXPECT_EQ(other.depth(failed), 1U) << "taken in";
    EXPECT_EQ(other.owner(), "") << "the place stays free";
    EXPECT_NE(b.problem().find(named), std::string::npos) << b.problem();
    EXPECT_NE(b.problem().find("rung adopt"), std::string::npos) << b.problem();
    EXPECT_TRUE(a.serves());
    const auto events = open_memory_store(db)->events(10);
    EXPECT_EQ(std::ranges::count(events, "ownership_conflict", &SystemEvent::kind), 1);
  }
};

TEST_F(AnotherPlace, OfAnotherBrokerIsNotServed) {
  MemoryBroker other({}, MemoryBroker::Pace::by_hand, world.clock);
  other.become("elsewhere", "");
  expect_refused(other, "broker 'elsewhere', virtual host '/', prefix 'rung'");
}

TEST_F(AnotherPlace, OfAnotherPrefixIsNotServed) {
  BrokerOptions options;
  options.prefix = "copy";
  MemoryBroker other(options, MemoryBroker::Pace::by_hand, world.clock);
  expect_refused(other, "prefix 'copy'", "copy.failed");
}

// Each database would take the other's results and failures for unknown ones.
TEST_F(OwnershipTest, APlaceOfAnotherDatabaseIsNotServed) {
  broker.become("memory", "anothers");
  OwnedSidecar a(world, broker, database());
  a.start();
  ASSERT_TRUE(put_failed(broker));
  ASSERT_TRUE(a.until([&] { return !a.problem().empty(); }));
  world.loop.run_for(Ms{60'000});
  EXPECT_EQ(broker.depth("rung.failed"), 1U);
  EXPECT_EQ(a.bridge->vitals().shards, 0);
  EXPECT_EQ(broker.owner(), "anothers");
  EXPECT_NE(a.problem().find("id anothers"), std::string::npos) << a.problem();
  EXPECT_FALSE(look_at_ownership(*open_memory_store(a.db)).serves)
      << "the database stays free for a corrected config";
}

// Nobody may see a conflict in the database's own new id.
TEST_F(OwnershipTest, ANewIdOfOurOwnDatabaseIsNoConflict) {
  OwnedSidecar a(world, broker, database());
  a.start();
  ASSERT_TRUE(a.until([&] { return a.serves(); }));
  const std::string before = broker.owner();
  const std::string id = change_ownership(*open_memory_store(a.db), {"memory", "/", "rung"});
  broker.become("memory", id);
  broker.claim(before, true);
  world.loop.run_for(Ms{30'000});
  EXPECT_TRUE(a.serves());
  EXPECT_TRUE(std::ranges::none_of(open_memory_store(a.db)->events(10),
                                   [](const SystemEvent& e) { return e.kind == "ownership_conflict"; }));
}

// An update from a release without marks, or a broker that was made anew under its old name.
TEST_F(OwnershipTest, AMissingMarkIsSetAgain) {
  OwnedSidecar a(world, broker, database());
  a.start();
  ASSERT_TRUE(a.until([&] { return a.serves(); }));
  const std::string id = broker.owner();
  broker.become("memory", "");
  broker.claim(id, false);
  EXPECT_TRUE(a.until([&] { return broker.owner() == id; }));
  EXPECT_TRUE(a.serves());
}

TEST_F(OwnershipTest, TwoThatStartAtOnceInDifferentPlacesGetOneDatabase) {
  const auto db = database();
  MemoryBroker other({}, MemoryBroker::Pace::by_hand, world.clock);
  other.become("elsewhere", "");
  OwnedSidecar a(world, broker, db);
  OwnedSidecar b(world, other, db, "b");
  a.start();
  b.start();
  ASSERT_TRUE(
      a.until([&] { return a.serves() != b.serves() && a.problem().empty() != b.problem().empty(); }));
  EXPECT_EQ(broker.owner().empty(), !a.serves());
  EXPECT_EQ(other.owner().empty(), !b.serves());
}

TEST_F(OwnershipTest, AMarkThatCannotBeReadIsAWarning) {
  OwnedSidecar a(world, broker, database());
  a.start();
  ASSERT_TRUE(a.until([&] { return a.serves(); }));
  const std::string id = broker.owner();
  a.bridge->on_place({{"memory", "/", "rung"}, id, "", "ACCESS_REFUSED"});
  const auto warned = [&] {
    return std::ranges::any_of(a.bridge->vitals().problems, [](const HealthProblem& one) {
      return one.name == "ownership_unchecked" && !one.not_ready;
    });
  };
  EXPECT_TRUE(a.until(warned));
  EXPECT_TRUE(a.serves());
}

}  // namespace
}  // namespace rung::bridge
