#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "src/http/server/server.h"

namespace rung::http {
namespace {

class PlacesTest : public testing::Test {
 protected:
  struct Client final : Places::Connection {
    void evict() override { evicted = true; }
    void drain() override {}
    void abort() override {}
    Places::Place* place = nullptr;
    bool spare = false, evicted = false;
  };
  Client& open(const std::string& peer) {
    clients.push_back(std::make_unique<Client>());
    Client& c = *clients.back();
    c.place = places.take(peer);
    if (c.place == nullptr) return c;
    c.place->connection = &c;
    c.spare = c.place->spare;
    return c;
  }
  Client& busy(const std::string& peer) {
    Client& c = open(peer);
    EXPECT_NE(c.place, nullptr);
    if (c.place != nullptr) places.serves(*c.place);
    return c;
  }

  Places places{4, 3};
  std::vector<std::unique_ptr<Client>> clients;
};

TEST_F(PlacesTest, AnAddressHasItsShare) {
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(busy("a").spare);
  EXPECT_TRUE(busy("a").spare) << "the fourth of one address";
  EXPECT_FALSE(busy("b").spare) << "another address";
  EXPECT_TRUE(busy("b").spare) << "none is left";
}

TEST_F(PlacesTest, WhoWaitsLongestMakesRoom) {
  Client& first = open("a");
  busy("a");
  Client& of_b = open("b");
  open("a");
  EXPECT_FALSE(open("a").spare) << "a's own share: one of a's makes room";
  EXPECT_TRUE(first.evicted);
  EXPECT_FALSE(of_b.evicted);
  EXPECT_FALSE(open("c").spare);
  EXPECT_TRUE(of_b.evicted) << "it has waited longest of all";
}

TEST_F(PlacesTest, ANewSparePlaceIsAlwaysThereWhileOthersWait) {
  for (int i = 0; i < 4; ++i) busy(i < 3 ? "a" : "b");
  Client& probe_of_c = open("c");
  ASSERT_TRUE(probe_of_c.spare);
  for (int i = 0; i < 5 * Places::kSpare; ++i) {
    Client& one = open("a");
    ASSERT_NE(one.place, nullptr) << i;
    EXPECT_TRUE(one.spare);
  }
  EXPECT_FALSE(probe_of_c.evicted) << "a's own make room for a";
  EXPECT_LE(places.count(), 4 + 1 + Places::kSpareOfOneAddress);
}

TEST_F(PlacesTest, WhatIsReleasedIsThereForTheNext) {
  for (int i = 0; i < 4; ++i) busy(i < 3 ? "a" : "b");
  EXPECT_FALSE(places.wait_until_empty(Ms{0}));
  places.release(*clients.front()->place);
  EXPECT_EQ(places.count(), 3);
  EXPECT_FALSE(busy("a").spare);
  EXPECT_EQ(places.connections().size(), 4U);
  for (std::size_t i = 1; i < clients.size(); ++i) places.release(*clients[i]->place);
  EXPECT_TRUE(places.wait_until_empty(Ms{0}));
}

TEST_F(PlacesTest, NoneWhereEachServesARequest) {
  for (int i = 0; i < 4; ++i) busy(i < 3 ? "a" : "b");
  for (int i = 0; i < Places::kSpare; ++i) EXPECT_NE(busy(i % 2 == 0 ? "a" : "b").place, nullptr);
  EXPECT_EQ(open("c").place, nullptr);
}

TEST(Budget, OneAloneGetsWhatItWants) {
  Budget budget(100);
  Budget::Share first(budget);
  EXPECT_TRUE(first.grow(500));
  EXPECT_TRUE(first.grow(500));
  Budget::Share second(budget);
  EXPECT_FALSE(second.grow(1));
  EXPECT_EQ(second.bytes(), 0);
}

TEST(Budget, WhatIsGivenBackIsThereForTheNext) {
  Budget budget(100);
  Budget::Share small(budget);
  EXPECT_TRUE(small.grow(40));
  {
    Budget::Share other(budget);
    EXPECT_TRUE(other.grow(60));
    EXPECT_FALSE(Budget::Share(budget).grow(1));
  }
  EXPECT_FALSE(Budget::Share(budget).grow(61, Ms{1}));
  auto* waits_for = new Budget::Share(budget);
  EXPECT_TRUE(waits_for->grow(60));
  std::thread gives_back([&] { delete waits_for; });
  EXPECT_TRUE(Budget::Share(budget).grow(60, std::chrono::seconds{30}));
  gives_back.join();
}

}  // namespace
}  // namespace rung::http
