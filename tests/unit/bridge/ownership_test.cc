// One database serves one place of one broker, and a place has one database.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "src/core/machine/headers.h"
#include "tests/unit/bridge/flow_fixture.h"

namespace rung::bridge {
namespace {

// A sidecar with a database of its own.
struct OwnedSidecar : Whole {
  OwnedSidecar(World& its_world, MemoryBroker& its_broker, const std::shared_ptr<MemoryDb>& its_db,
               const std::string& name = "a")
      : Whole(its_world, its_broker, story_rules(), {.name = name, .lease = Ms{3000}, .db = its_db}) {
    broker.declare("orders");
  }
  void start() { ASSERT_TRUE(bridge->start()); }
  bool serves() { return bridge->vitals().shards > 0 && refusal().empty(); }
  std::string refusal() const {
    const auto found = problem("ownership");
    if (!found) return "";
    return found->not_ready ? found->detail : "ready: " + found->detail;
  }
  bool until(const std::function<bool()>& condition) { return world.loop.run_until(condition, Ms{20'000}); }
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

  World world;
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
    ASSERT_TRUE(b.until([&] { return !b.refusal().empty(); }));
    world.loop.run_for(Ms{60'000});
    EXPECT_EQ(b.bridge->vitals().shards, 0);
    EXPECT_EQ(tasks(db), 0U);
    EXPECT_EQ(other.depth(failed), 1U) << "taken in";
    EXPECT_EQ(other.owner(), "") << "the place stays free";
    EXPECT_NE(b.refusal().find(named), std::string::npos) << b.refusal();
    EXPECT_NE(b.refusal().find("rung adopt"), std::string::npos) << b.refusal();
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
  ASSERT_TRUE(a.until([&] { return !a.refusal().empty(); }));
  world.loop.run_for(Ms{60'000});
  EXPECT_EQ(broker.depth("rung.failed"), 1U);
  EXPECT_EQ(a.bridge->vitals().shards, 0);
  EXPECT_EQ(broker.owner(), "anothers");
  EXPECT_NE(a.refusal().find("id anothers"), std::string::npos) << a.refusal();
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
      a.until([&] { return a.serves() != b.serves() && a.refusal().empty() != b.refusal().empty(); }));
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
    const auto found = a.problem("ownership_unchecked");
    return found && !found->not_ready;
  };
  EXPECT_TRUE(a.until(warned));
  EXPECT_TRUE(a.serves());
}

}  // namespace
}  // namespace rung::bridge
